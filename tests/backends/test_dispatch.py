"""Jobs to machines elsewhere and back: what is lost, doubled, damaged, or killed on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import executing, intake, jobdir, ordering, parcel
from orchestrator.backends.base import Parcel
from orchestrator.backends.dispatch import Dispatcher, Pace
from orchestrator.backends.journal import Journal
from orchestrator.job import Status
from orchestrator.results.lines import Lines
from orchestrator.results.store import Run
from tests.backends.farm import (
    Bomb,
    Farm,
    Fate,
    KilledError,
    jobs,
    quiet,
    start_run,
    terms,
)
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeEngine, Play, fail

MLP = "torch_cpu.mlp.f32@intel-cpu"
MLP_F16 = "torch_cpu.mlp.f16@intel-cpu"
SUM = "torch_cpu.sum.f32@intel-cpu"
Record = dict[str, list[tuple[int, str]]]


@pytest.fixture(autouse=True)
def small_harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs bring one file of the harness: the fake engine runs none of it, and copies take time."""
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    jobdir.harness_sha256.cache_clear()
    yield
    jobdir.harness_sha256.cache_clear()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "repo").mkdir()
    return make_tree(tmp_path / "repo")


@pytest.fixture
def farm(tree: Tree, tmp_path: Path) -> Farm:
    engine = FakeEngine(Play({SUM: [fail("wrong")]}, files={"ir/00.mlir": b"module {}"}))
    return Farm(tree, tmp_path / "farm", engine)


def place(farm: Farm, run: Run, **changes: Any) -> list[str]:
    """Writes the folders of all jobs, as a dispatcher that starts does."""
    common = terms(farm.tree, run.name, farm.engine.time, **changes)
    return [
        ordering.write(run.job_folder(job.id), job, common).id for job in jobs(farm.tree, run.name)
    ]


def dispatcher(farm: Farm, run: Run, **options: Any) -> Dispatcher:
    clock = farm.engine.time.clock()
    return Dispatcher(run, farm, quiet(), retries=2, clock=clock, **options)


def go(farm: Farm, run: Run, **options: Any) -> Dispatcher:
    """From beginning to end."""
    done = dispatcher(farm, run, **options)
    for job in place(farm, run):
        done.plan(job)
    done.go({"core": 10})
    return done


def record(run: Run) -> Record:
    results, problems = run.results()
    assert problems == ()
    found: Record = {}
    for result in results:
        found.setdefault(result.cell, []).append((result.attempt, result.status))
    return found


def after(*misses: int, end: Status = "pass") -> Record:
    """All cells' attempts after so many misses: `sum` is the one that is wrong."""
    lost = [(number, "miss") for number in misses]
    number = len(misses) + 1
    ends: dict[str, str] = {MLP: end, MLP_F16: "xpass", SUM: "fail"}
    return {cell: [*lost, (number, status)] for cell, status in ends.items()}


def test_what_machines_made_is_in_the_record(farm: Farm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    heard: list[str] = []
    done = go(farm, run, heard=lambda info: heard.extend(e.reference for e in info.environments))
    assert record(run) == after()
    assert {cell: r.status for cell, r in done.results.items()} == {
        MLP: "pass",
        MLP_F16: "xpass",
        SUM: "fail",
    }
    (result,) = run.attempts_of(SUM)
    assert (result.run, result.tier, result.reproduce) == (run.name, "core", f"rerun {SUM}")
    assert (run.artifacts(SUM) / "ir/00.mlir").read_bytes() == b"module {}"
    assert heard == ["lh/pytorch:3f9c2a1"]
    assert farm.forgotten == list(Journal(run.folder / "journal.jsonl").jobs)
    assert not (run.folder / "parcels").exists()


@pytest.mark.parametrize("fate", ["lost", "silent", "torn", "foreign", "unfinished"])
def test_what_goes_wrong_once_is_a_miss_and_is_tried_again(
    farm: Farm, tmp_path: Path, fate: Fate
) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.fates = [fate]
    go(farm, run)
    assert record(run) == after(1)


@pytest.mark.parametrize("fate", ["lost", "silent", "torn"])
def test_what_goes_wrong_always_is_given_up_after_two_retries(
    farm: Farm, tmp_path: Path, fate: Fate
) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.fates = [fate] * 10
    done = go(farm, run)
    misses = [(1, "miss"), (2, "miss"), (3, "miss")]
    assert record(run) == {MLP: misses, MLP_F16: misses, SUM: misses}
    assert {r.status for r in done.results.values()} == {"miss"}
    assert farm.count == 3


def numbered(tmp_path: Path, farm: Farm, *attempts: tuple[int, Status]) -> intake.Taken:
    """What is taken of a folder with these attempts of one cell, and no other result."""
    run = start_run(tmp_path / "run", farm.engine.time)
    (job,) = place(farm, run)
    ordered = executing.read(run.folder / "jobs" / job)
    farm.submit(packed(run, ordered, tmp_path))
    (sight,) = farm.watch([job]).values()
    farm.collect(job, job, sight.goes[0].id, tmp_path / "a.tar.gz")
    parcel.unpack(tmp_path / "a.tar.gz", tmp_path / "a")
    (whole,) = Run(tmp_path / "a", run.name).attempts_of(MLP)
    for path in (tmp_path / "a/results").iterdir():
        path.unlink()
    for number, status in attempts:
        Run(tmp_path / "a").add(dataclasses.replace(whole, attempt=number, status=status))
    return intake.take_in(run, ordered, tmp_path / "a", {})


def packed(run: Run, ordered: executing.Ordered, tmp_path: Path) -> Parcel:
    archive = tmp_path / "job.tar.gz"
    return Parcel(
        key=ordered.job.id,
        job=ordered.job.id,
        pool="intel-cpu",
        archive=archive,
        sha256=parcel.pack(ordered.folder, archive),
    )


def test_a_document_that_was_lost_leaves_no_gap(farm: Farm, tmp_path: Path) -> None:
    taken = numbered(tmp_path, farm, (2, "miss"), (4, "pass"))
    found = [(r.attempt, r.status) for r in taken.results if r.cell == MLP]
    assert found == [(1, "miss"), (2, "pass")]


def test_an_attempt_after_a_verdict_is_left_out(farm: Farm, tmp_path: Path) -> None:
    taken = numbered(tmp_path, farm, (1, "pass"), (2, "fail"))
    assert [(r.attempt, r.status) for r in taken.results if r.cell == MLP] == [(1, "pass")]
    assert f"{MLP}: attempt 2 after a verdict is left out" in taken.notes


def test_a_machine_that_failed_a_job_is_avoided(farm: Farm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.fates = ["silent", "torn"]
    go(farm, run)
    avoided = [submission.parcel.avoid for submission in farm.submissions.values()]
    assert avoided == [(), ("box-go-1",), ("box-go-1", "box-go-2")]


def test_a_job_that_nobody_takes_is_a_miss_in_the_end(farm: Farm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.idle = True
    go(farm, run, pace=Pace(unclaimed_s=3600))
    assert record(run) == {cell: [(1, "miss")] for cell in (MLP, MLP_F16, SUM)}
    (result,) = run.attempts_of(MLP)
    assert result.message == "no machine of pool intel-cpu took the job within 1 h"
    assert farm.cancelled == list(farm.submissions)


def test_enough_cancels_what_is_left(farm: Farm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.idle = True
    go(farm, run, enough=lambda results: True)
    assert record(run) == {}
    assert farm.cancelled == list(farm.submissions)
    assert Journal(run.folder / "journal.jsonl").open_jobs() == ()


def test_open_jobs_keep_their_cells(farm: Farm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    first = dispatcher(farm, run)
    for job in place(farm, run):
        first.plan(job)
    assert dispatcher(farm, run).open_cells() == {MLP, MLP_F16, SUM}
    again = dispatcher(farm, run)
    again.go({})
    assert record(run) == after()
    assert dispatcher(farm, run).open_cells() == frozenset()


SCENARIOS: dict[str, list[Fate]] = {
    "one is torn and one is lost": ["torn", "lost"],
    "given up": ["lost", "silent", "lost"],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_moment_and_resumed_gives_the_same_record(
    farm: Farm, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    undisturbed = _disturbed(farm, tmp_path / "0", SCENARIOS[name], Bomb(at=0), monkeypatch)
    moments = 0
    for at in range(1, 1000):
        bomb = Bomb(at=at)
        one = Farm(farm.tree, tmp_path / f"farm{at}", farm.engine)
        assert _disturbed(one, tmp_path / str(at), SCENARIOS[name], bomb, monkeypatch) == (
            undisturbed
        ), f"killed at moment {at}"
        if bomb.passed < at:
            break
        moments += 1
    assert moments > 20


def _disturbed(
    farm: Farm, folder: Path, fates: list[Fate], bomb: Bomb, monkeypatch: pytest.MonkeyPatch
) -> Record:
    """The record of a run whose dispatcher is killed when the bomb goes off, and resumed."""
    farm.engine.script = Play({SUM: [fail("wrong")]})
    farm.fates = list(fates)
    run = start_run(folder / "run", farm.engine.time)
    planned = place(farm, run)
    with monkeypatch.context() as patch:
        for name in ("submit", "collect", "cancel", "forget"):
            patch.setattr(farm, name, bomb.wrap(getattr(farm, name)))
        patch.setattr(Lines, "add", torn(bomb))
        patch.setattr(intake, "add", bomb.wrap(intake.add))
        try:
            done = dispatcher(farm, run)
            for job in planned:
                done.plan(job)
            done.go({})
        except KilledError:
            pass
    again = dispatcher(farm, run)
    for job in planned:
        if job not in Journal(run.folder / "journal.jsonl").jobs:
            again.plan(job)
    again.go({})
    assert Journal(run.folder / "journal.jsonl").open_jobs() == ()
    return record(run)


def torn(bomb: Bomb) -> Any:
    """`Lines.add`, killed before it, in the middle of its line, or after it."""
    original = Lines.add

    def add(self: Lines[Any], entry: Any) -> None:
        bomb.tick()
        size = self.path.stat().st_size if self.path.exists() else 0
        original(self, entry)
        try:
            bomb.tick()
        except KilledError:
            data = self.path.read_bytes()
            self.path.write_bytes(data[: size + (len(data) - size) // 2])
            raise
        bomb.tick()

    return add
