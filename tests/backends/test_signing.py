"""Signed jobs out, signed results back, through the dispatcher; and what is refused on the way."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import executing, jobdir, parcel, signing
from orchestrator.backends.dispatch import Dispatcher
from orchestrator.backends.journal import Entry, Journal
from orchestrator.backends.signing import RefusedBundle
from orchestrator.backends.underway import Underway
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import keys
from orchestrator.fleet.envelope import Warrant
from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.fleet.quarantine import JOURNAL as AGENTS
from orchestrator.fleet.quarantine import Seen
from orchestrator.results.files import write_atomically
from orchestrator.results.lines import Lines
from orchestrator.results.store import Run
from tests.backends.bending import alter, resign
from tests.backends.farm import Bomb, KilledError, quiet, start_run
from tests.backends.signed_farm import ONE, TWO, Lent, SignedFarm
from tests.backends.test_dispatch import MLP, MLP_F16, SUM, Record, place, record
from tests.backends.test_live_fleet import Site
from tests.config.tree import make_tree
from tests.fakes import FakeEngine, Play

GREEN = {MLP: "pass", MLP_F16: "xpass", SUM: "pass"}


@pytest.fixture(autouse=True)
def small_harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs bring one file of the harness; no power cut is to be survived."""
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    jobdir.harness_sha256.cache_clear()
    yield
    jobdir.harness_sha256.cache_clear()


@pytest.fixture
def lent(tmp_path: Path) -> Lent:
    return Lent(tmp_path / "keys")


@pytest.fixture
def farm(tmp_path: Path, lent: Lent) -> SignedFarm:
    (tmp_path / "repo").mkdir()
    engine = FakeEngine(Play({}, files={"ir/00.mlir": b"module {}"}))
    return SignedFarm(make_tree(tmp_path / "repo"), tmp_path / "farm", engine, lent=lent)


def go(farm: SignedFarm, run: Run, **changed: Any) -> Dispatcher:
    """From beginning to end."""
    done = Dispatcher(
        run,
        farm,
        quiet(),
        retries=2,
        clock=farm.engine.time.clock(),
        signing=farm.lent.signing(**changed),
    )
    for job in place(farm, run):
        done.plan(job)
    done.go({})
    return done


def after(misses: int) -> Record:
    """All cells' attempts."""
    lost = [(number, "miss") for number in range(1, misses + 1)]
    return {cell: [*lost, (misses + 1, status)] for cell, status in GREEN.items()}


def why(run: Run) -> str:
    """The message of a cell's first attempt."""
    return run.attempts_of(MLP)[0].message


def refusals(farm: SignedFarm) -> list[RefusedBundle]:
    return list(Lines(farm.lent.root / "refusals.jsonl", RefusedBundle).read())


def warrants(run: Run) -> dict[str, list[Warrant]]:
    """By submission."""
    return {
        path.stem: [signing._warrant(data) for data in signing._read(path).values()]
        for path in (run.folder / "warrants").iterdir()
    }


def test_what_an_agent_signed_is_in_the_record_as_its_own(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    go(farm, run)
    assert record(run) == after(0)
    assert {result.agent for result in run.latest().values()} == {ONE}
    assert (run.artifacts(SUM) / "ir/00.mlir").read_bytes() == b"module {}"
    (submission,) = farm.submissions.values()
    assert submission.parcel.agents == (ONE, TWO)
    made = warrants(run)
    assert [warrant.agent for warrant in made[submission.parcel.key]] == [ONE, TWO]
    assert len({w.nonce for each in made.values() for w in each}) == 2
    assert refusals(farm) == []


def cut(archive: Path) -> None:
    """It was cut short."""
    archive.write_bytes(archive.read_bytes()[:-200])


def resigned(lent: Lent) -> Callable[[Path], None]:
    """Somebody puts the signature of another agent under it."""
    return lambda archive: resign(archive, keys.own(lent.root / TWO, TWO))


@pytest.mark.parametrize(
    ("trick", "kind", "agent"),
    [(alter, "mismatch", ONE), (cut, "truncated", ONE), ("resigned", "other-agent", TWO)],
)
def test_what_was_altered_on_its_way_is_refused_told_and_tried_again(
    farm: SignedFarm, tmp_path: Path, trick: Any, kind: str, agent: str
) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.tricks = [resigned(farm.lent) if trick == "resigned" else trick]
    go(farm, run)
    assert record(run) == after(1)
    assert why(run).startswith(f"{ONE}: refused ({kind})"), why(run)
    (line,) = refusals(farm)
    assert (line.kind, line.agent, line.machine, line.run) == (kind, agent, ONE, run.name)
    first, second = warrants(run).values()
    assert {w.nonce for w in first}.isdisjoint({w.nonce for w in second})


def test_what_an_agent_sends_in_quarantine_is_refused_and_done_by_a_peer(
    farm: SignedFarm, tmp_path: Path
) -> None:
    farm.agents = (ONE, TWO)
    site = Site(farm, tmp_path, farm.lent.agents)
    site.well(ONE, TWO)

    def strike(archive: Path) -> None:
        """While its results are on their way, another job of the same machine is lost."""
        at = farm.engine.time.clock().now().isoformat()
        line = Seen(agent=farm.went[0][0], event="missed", at=at, kind="daemon")
        Lines(site.state / AGENTS, Seen).add(line)

    farm.tricks = [strike]
    site.go(signing=farm.lent.signing())
    first, second = (who for who, job in farm.went if ".health." not in job)
    assert {first, second} == {ONE, TWO}
    assert record(site.run) == after(1)
    assert f"refused (quarantined) run.pytorch.intel-cpu of {first}" in why(site.run)
    assert {result.agent for result in site.run.latest().values()} == {second}
    assert [line.kind for line in refusals(farm)] == ["quarantined"]
    assert (first, "missed", "job") in site.seen()
    # nothing is held against it twice
    assert [event for who, event, kind in site.seen() if (who, kind) == (first, "daemon")] == [
        "missed"
    ]


def test_a_machine_that_is_not_registered_is_refused(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.who = [""]
    go(farm, run)
    assert record(run) == after(1)
    assert "refused (unsigned)" in why(run)
    assert {r.agent for r in run.latest().values()} == {ONE}


def test_for_trials_it_is_not_and_its_results_are_nobodys(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.who = [""]
    go(farm, run, unsigned=True, office=None)
    assert record(run) == after(0)
    assert {result.agent for result in run.latest().values()} == {""}
    assert not (run.folder / "warrants").exists()
    assert [s.parcel.agents for s in farm.submissions.values()] == [None]


def test_who_is_nobody_cannot_claim_to_be_an_agent(farm: SignedFarm, tmp_path: Path) -> None:
    def claim(archive: Path) -> None:
        parts = archive.with_suffix(".parts")
        parcel.unpack(archive, parts)
        for path in parts.glob("results/*.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "agent": ONE}))
        parcel.pack(parts, archive)

    run = start_run(tmp_path / "run", farm.engine.time)
    farm.who, farm.tricks = [""], [claim]
    go(farm, run, unsigned=True)
    assert record(run) == after(0)
    assert {result.agent for result in run.latest().values()} == {""}


def test_hosted_machines_serve_pools_without_agents_alone(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.who = [""]
    go(farm, run, hosted=True, backend="github")
    assert record(run) == after(0)
    assert {result.agent for result in run.latest().values()} == {""}
    other = start_run(tmp_path / "other", farm.engine.time)
    farm.who = [""]
    go(farm, other, hosted=True)
    assert "refused (unsigned)" in why(other)


def test_who_sent_it_is_who_signed_it(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.machine, farm.who = ONE, [TWO]
    go(farm, run)
    assert record(run) == after(1)
    assert "refused (other-agent)" in why(run)
    assert f"{ONE} sent it, and {TWO} signed it" in why(run)


def test_an_agent_that_refuses_says_why_and_is_not_struck(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    genuine = farm.lent.ours
    farm.lent.ours = keys.make(tmp_path / "stolen", "orchestrator")
    stranger = farm.lent.signing()
    farm.lent.ours = genuine
    done = Dispatcher(
        run, farm, quiet(), retries=0, clock=farm.engine.time.clock(), signing=stranger
    )
    for job in place(farm, run):
        done.plan(job)
    done.go({})
    assert record(run) == {cell: [(1, "miss")] for cell in GREEN}
    assert f"refused: {ONE} would not run it (unregistered)" in why(run)
    assert farm.engine.jobs == []
    assert refusals(farm) == []
    assert kind_of("build", why(run)) is Kind.JOB


def test_a_warrant_counts_once_on_a_machine(farm: SignedFarm, tmp_path: Path) -> None:
    """The same parcel again, in another folder: the first one's results are gone."""
    run = start_run(tmp_path / "run", farm.engine.time)
    farm.fates = ["lost"]
    original = farm._work

    def work(ticket: str, submission: Any) -> None:
        if farm.count == 0:  # a machine runs it, and is lost with all that it made
            farm._made("gone", submission, "well")
        original(ticket, submission)

    farm._work = work  # type: ignore[method-assign]
    go(farm, run)
    messages = [result.message for result in run.attempts_of(MLP)]
    assert "would not run it (replay)" in messages[1]
    assert record(run) == after(2)


def test_a_dispatcher_that_is_killed_anywhere_knows_its_warrants(
    farm: SignedFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, 1000):
        bomb = Bomb(at=at)
        one = SignedFarm(farm.tree, tmp_path / f"farm{at}", FakeEngine(Play({})), lent=farm.lent)
        one.fates = ["silent"]
        run = start_run(tmp_path / str(at) / "run", one.engine.time)
        with monkeypatch.context() as patch:
            for name in ("submit", "collect"):
                patch.setattr(one, name, bomb.wrap(getattr(one, name)))
            patch.setattr(Journal, "add", bomb.wrap(Journal.add))
            patch.setattr(signing.__name__ + ".write_atomically", bomb.wrap(write_atomically))
            try:
                go(one, run)
            except KilledError:
                pass
            else:
                break
        again = Dispatcher(
            run,
            one,
            quiet(),
            retries=2,
            clock=one.engine.time.clock(),
            signing=one.lent.signing(),
        )
        for folder in (run.folder / "jobs").iterdir():
            if folder.name not in Journal(run.folder / "journal.jsonl").jobs:
                again.plan(folder.name)
        again.go({})
        assert record(run) == after(1), f"killed at moment {at}"
        assert {result.agent for result in run.latest().values()} == {ONE}
        assert len(one.submissions) == 2
    assert at > 10


def test_whom_a_killed_dispatcher_chose_stays_chosen(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    (job,) = place(farm, run)
    ordered = executing.read(run.folder / "jobs" / job)
    clock, signing = farm.engine.time.clock(), farm.lent.signing()
    made = signing.warrants(run, ordered, job, clock.now(), [ONE])
    resumed = Dispatcher(run, farm, quiet(), retries=2, clock=clock, signing=signing)
    resumed.plan(job)
    ready = Underway(
        ordered=ordered, target=run, priority=0, state=resumed._journal.jobs[job], since=0.0
    )
    resumed._submit(ready, TWO)
    assert farm.submissions[job].parcel.agents == (ONE,)
    assert signing.warrants(run, ordered, job, clock.now(), [TWO]) == made
    (entry,) = [e for e in Lines(run.folder / "journal.jsonl", Entry).read() if e.ticket]
    assert entry.machine == ONE


def test_a_folder_that_no_job_has_is_not_signed(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    (job,) = place(farm, run)
    (run.folder / "jobs" / job / "link").symlink_to("job.json")
    ordered = executing.read(run.folder / "jobs" / job)
    with pytest.raises(InfrastructureError, match="no folder of a job: link is a link"):
        farm.lent.signing().warrants(run, ordered, job, dt.datetime(2026, 11, 21, tzinfo=dt.UTC))


def test_warrants_of_a_run_that_are_damaged_are_told(farm: SignedFarm, tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    (job,) = place(farm, run)
    (run.folder / "warrants").mkdir()
    (run.folder / f"warrants/{job}.json").write_text("{}")
    ordered = executing.read(run.folder / "jobs" / job)
    with pytest.raises(InfrastructureError, match="is damaged"):
        farm.lent.signing().warrants(run, ordered, job, dt.datetime(2026, 11, 21, tzinfo=dt.UTC))
