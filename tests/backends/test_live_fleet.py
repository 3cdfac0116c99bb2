"""Registered agents and the dispatcher: terms, health jobs, quarantine, retries on a peer."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import executing, intake, jobdir, ordering
from orchestrator.backends.checkups import Checkups
from orchestrator.backends.controls import Controls
from orchestrator.backends.dispatch import Dispatcher, Pace
from orchestrator.backends.fleetwork import Fleetwork
from orchestrator.backends.journal import Journal
from orchestrator.backends.roster import Code, Roster
from orchestrator.cli.report import SilentReporter
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.notices import JOURNAL as NOTICES
from orchestrator.fleet.notices import Notice
from orchestrator.fleet.quarantine import JOURNAL, Seen
from orchestrator.order import write_order
from orchestrator.plan import plan_cells
from orchestrator.results.lines import Lines
from orchestrator.results.schema import RunOptions, RunPlan
from orchestrator.results.store import Run
from tests.backends.farm import HOST, Bomb, Farm, Fate, KilledError, jobs, start_run, terms
from tests.backends.test_dispatch import MLP, MLP_F16, SUM, Record, after, record, torn
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeEngine, Play, fail
from tests.fleet.samples import agent

ONE, TWO = "intel-one", "intel-two"
ALWAYS: dict[str, Any] = {"hours": (), "jobs": 1, "disk": "20GiB", "time": "1h"}


@pytest.fixture(autouse=True)
def small_harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs bring one file of the harness: the fake engine runs none of it, and copies take time."""
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    jobdir.harness_sha256.cache_clear()
    yield
    jobdir.harness_sha256.cache_clear()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "repo").mkdir()
    return make_tree(tmp_path / "repo")


@pytest.fixture
def farm(tree: Tree, tmp_path: Path) -> Farm:
    engine = FakeEngine(Play({SUM: [fail("wrong")]}))
    return Farm(tree, tmp_path / "farm", engine, agents=(ONE, TWO))


def machines(**changes: dict[str, Any]) -> dict[str, AgentFile]:
    """Two alike; `one=`, `two=`: terms of one of them that are other ones."""
    made = [
        agent(name, terms={**ALWAYS, **changes.get(name, {})}, pools=["intel-cpu"])
        for name in ("one", "two")
    ]
    return {each.id: each for each in made}


class Site:
    """A workspace with agents, whose journals stay from run to run."""

    def __init__(
        self, farm: Farm, folder: Path, agents: dict[str, AgentFile], run: Path | None = None
    ) -> None:
        self.farm = farm
        self.state = folder / "state"
        self.agents = agents
        self.said: list[str] = []
        self.run = start_run(run or folder / "run", farm.engine.time)
        self.controls: Controls | None = None
        self.earlier: list[Run] = []

    def plan(self) -> RunPlan:
        return RunPlan(
            selection=(),
            cells=plan_cells(self.farm.tree.load(), HOST),
            files=terms(self.farm.tree, self.run.name, self.farm.engine.time).files,
            options=RunOptions(),
        )

    def dispatcher(self, **options: Any) -> Dispatcher:
        config, plan = self.farm.tree.load(), self.plan()
        expected = [each.cells for each in config.matrix.expectations]
        roster = Roster(self.agents, self.state, Code(branch="main", commit="c"))
        return Dispatcher(
            self.run,
            self.farm,
            SilentReporter(self.said.append),
            retries=2,
            clock=self.farm.engine.time.clock(),
            fleet=Fleetwork(
                roster, Checkups(plan, expected, self.earlier), self.said.append, self.controls
            ),
            **options,
        )

    def place(self) -> list[str]:
        common = terms(self.farm.tree, self.run.name, self.farm.engine.time, retries=0)
        return [
            ordering.write(self.run.job_folder(job.id), job, common).id
            for job in jobs(self.farm.tree, self.run.name)
        ]

    def go(self, **options: Any) -> Dispatcher:
        done = self.dispatcher(**options)
        for job in self.place():
            done.plan(job)
        done.go({"core": 10})
        return done

    def seen(self) -> list[tuple[str, str, str]]:
        """Agent, event and kind, line by line."""
        found = Lines(self.state / JOURNAL, Seen).read()
        return [(line.agent, line.event, line.kind) for line in found]

    def notices(self) -> list[str]:
        return [each.subject for each in Lines(self.state / NOTICES, Notice).read()]

    def well(self, *names: str) -> None:
        """A health job has passed on these an hour ago."""
        lines = Lines(self.state / JOURNAL, Seen)
        at = self.farm.engine.time.clock().now() - dt.timedelta(hours=1)
        for name in names:
            lines.add(Seen(agent=name, event="healthy", at=at.isoformat()))


def test_a_new_agent_gets_a_health_job_first_and_its_cells_are_not_in_the_record(
    farm: Farm, tmp_path: Path
) -> None:
    site = Site(farm, tmp_path, machines(one={"priority": 9}))
    site.go()
    health = [job for _, job in farm.went if ".health." in job]
    assert farm.went[0][1] == f"run.health.{ONE}.1"
    assert set(health) == {f"run.health.{ONE}.1", f"run.health.{TWO}.1"}
    assert (ONE, "run.pytorch.intel-cpu") in farm.went
    assert record(site.run) == after()
    assert (ONE, "healthy", "") in site.seen()
    assert (ONE, "worked", "") in site.seen()
    beside = Run(site.run.folder / "aside" / f"run.health.{ONE}.1", "run")
    # no green run has shown that `sum` is well: what is wrong with it is not the machine's
    assert {r.cell: r.status for r in beside.results()[0]} == {MLP: "pass", SUM: "fail"}
    assert not Journal(site.run.folder / "journal.jsonl").open_jobs()


def test_an_agent_that_is_well_gets_no_health_job(farm: Farm, tmp_path: Path) -> None:
    site = Site(farm, tmp_path, machines())
    site.well(ONE, TWO)
    site.go()
    assert farm.went == [(ONE, "run.pytorch.intel-cpu")]


def test_a_machine_that_fails_its_health_job_is_left_alone_and_a_peer_works(
    farm: Farm, tmp_path: Path
) -> None:
    site = Site(farm, tmp_path, machines(one={"priority": 9}))
    farm.sick = {ONE}
    done = site.go()
    assert record(site.run) == after()
    assert {r.status for r in done.results.values()} == {"pass", "xpass", "fail"}
    assert {job for who, job in farm.went if who == ONE} == {
        f"run.health.{ONE}.{n}" for n in range(1, 1 + len([w for w, _ in farm.went if w == ONE]))
    }
    assert (ONE, "sick", "daemon") in site.seen()
    assert site.notices() == [f"{ONE} is in quarantine"]
    assert any(f"{ONE} is in quarantine" in line for line in site.said)


def test_what_was_missed_is_done_by_a_peer_and_the_machine_proves_itself(
    farm: Farm, tmp_path: Path
) -> None:
    site = Site(farm, tmp_path, machines(one={"priority": 9}))
    site.well(ONE, TWO)
    farm.fates = ["refused"]
    site.go()
    assert record(site.run) == after(1)
    assert farm.went[:2] == [
        (ONE, "run.pytorch.intel-cpu"),
        (TWO, "run.pytorch.intel-cpu.again"),
    ]
    assert (ONE, "missed", "daemon") in site.seen()
    assert (TWO, "worked", "") in site.seen()


@pytest.mark.parametrize("fate", ["lost", "silent", "torn"])
def test_what_was_lost_goes_to_a_peer(farm: Farm, tmp_path: Path, fate: Fate) -> None:
    site = Site(farm, tmp_path, machines(one={"priority": 9}))
    site.well(ONE, TWO)
    farm.fates = [fate]
    site.go()
    assert record(site.run) == after(1)
    assert [who for who, job in farm.went if ".health." not in job] == [ONE, TWO]
    assert [line[:2] for line in site.seen()[2:3]] == [(ONE, "missed")]


def test_misses_end_after_two_retries_however_they_came(farm: Farm, tmp_path: Path) -> None:
    site = Site(farm, tmp_path, machines())
    farm.agents = (ONE,)
    site.well(ONE)
    # between them the machine passes its health jobs
    farm.fates = ["refused", "well", "lost", "well", "refused"]
    done = site.go()
    misses = [(1, "miss"), (2, "miss"), (3, "miss")]
    assert record(site.run) == {MLP: misses, MLP_F16: misses, SUM: misses}
    assert {r.status for r in done.results.values()} == {"miss"}
    assert [job for _, job in farm.went if ".health." not in job] == [
        "run.pytorch.intel-cpu",
        "run.pytorch.intel-cpu.again",
        "run.pytorch.intel-cpu.again",
    ]


def test_what_somebody_cancelled_is_told_and_neither_retried_nor_held_against_the_machine(
    farm: Farm, tmp_path: Path
) -> None:
    site = Site(farm, tmp_path, machines())
    site.well(ONE, TWO)
    farm.fates = ["cancelled"]
    site.go()
    assert record(site.run) == {cell: [(1, "miss")] for cell in (MLP, MLP_F16, SUM)}
    (result,) = site.run.attempts_of(MLP)
    assert result.message == "somebody cancelled it at nowhere"
    assert len(farm.went) == 1
    assert site.seen() == [(ONE, "healthy", ""), (TWO, "healthy", "")]


def test_a_job_waits_for_an_owners_hours_and_says_so_once(farm: Farm, tmp_path: Path) -> None:
    hours = {"hours": ("22:00-06:00",)}
    site = Site(farm, tmp_path, machines(one=hours, two=hours))
    site.well(ONE, TWO)
    site.go(pace=Pace(unclaimed_s=600))
    assert record(site.run) == after()
    said = [line for line in site.said if "waits" in line]
    assert said == [
        (
            f"note  job run.pytorch.intel-cpu waits: {ONE} takes jobs at 22:00-06:00 UTC; "
            f"{TWO} takes jobs at 22:00-06:00 UTC"
        )
    ]
    began = Journal(site.run.folder / "journal.jsonl").jobs["run.pytorch.intel-cpu"]
    assert began.planned is not None
    assert began.planned.at < "2026-11-20T22"
    assert farm.engine.time.clock().now() >= dt.datetime(2026, 11, 20, 22, tzinfo=dt.UTC)


def test_what_no_owner_wants_is_a_miss_with_the_reasons(farm: Farm, tmp_path: Path) -> None:
    other = {"branches": ("release/*",)}
    site = Site(farm, tmp_path, machines(one=other, two=other))
    site.go()
    assert record(site.run) == {cell: [(1, "miss")] for cell in (MLP, MLP_F16, SUM)}
    (result,) = site.run.attempts_of(MLP)
    assert result.message.startswith(
        "no machine of pool intel-cpu took the job and none will: intel-one: its owner does not run"
    )
    assert farm.went == []


def test_agents_that_never_come_are_waited_for_no_longer_than_ever(
    farm: Farm, tmp_path: Path
) -> None:
    site = Site(farm, tmp_path, machines())
    farm.agents = ()
    site.go(pace=Pace(unclaimed_s=3600))
    (result,) = site.run.attempts_of(MLP)
    assert result.message == (
        "no machine of pool intel-cpu took the job within 1 h: "
        f"{ONE} is not connected; {TWO} is not connected"
    )


def test_what_an_agent_that_left_has_not_begun_is_given_to_another(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(farm, tmp_path, machines(one={"priority": 9}))
    site.well(ONE, TWO)
    submit = farm.submit

    def leave(given: Any) -> str:
        ticket = submit(given)
        farm.agents = (TWO,)
        return ticket

    monkeypatch.setattr(farm, "submit", leave)
    site.go()
    assert record(site.run) == after()
    assert farm.went == [(TWO, "run.pytorch.intel-cpu")]
    assert farm.cancelled == ["run.pytorch.intel-cpu"]


def green_night(farm: Farm, folder: Path) -> Site:
    """A run without red; what is expected to fail did."""
    expected = fail("failed to legalize operation", "lower:to-llvm")
    farm.engine.script = Play({MLP_F16: [expected]})
    first = Site(farm, folder / "first", machines())
    first.well(ONE, TWO)
    first.run.write_plan(first.plan())
    first.go()
    return first


def tonight(farm: Farm, folder: Path, script: Play) -> Farm:
    """The same machines on another day: jobs have the names that they had."""
    return Farm(farm.tree, folder / "tonight", FakeEngine(script), agents=(ONE, TWO))


def test_health_cells_are_those_of_the_last_green_run(farm: Farm, tmp_path: Path) -> None:
    first = green_night(farm, tmp_path)
    second = Site(tonight(farm, tmp_path, Play()), tmp_path / "second", machines())
    second.earlier = [first.run]
    second.go()
    beside = Run(second.run.folder / "aside" / f"run.health.{ONE}.1", "run")
    latest = first.run.latest()
    passed = [cell for cell in latest if latest[cell].status == "pass"]
    assert {r.cell for r in beside.results()[0]} == set(passed)
    jobs = Journal(second.run.folder / "journal.jsonl").jobs
    told = jobs[f"run.health.{ONE}.1"].planned
    assert told is not None
    assert told.of == first.run.name


@pytest.mark.parametrize("rolled", [False, True])
def test_what_a_new_stack_breaks_is_no_machines_fault(
    farm: Farm, tmp_path: Path, rolled: bool
) -> None:
    first = green_night(farm, tmp_path)
    if rolled:
        (folder,) = (first.run.folder / "jobs").iterdir()
        order = executing.read(folder).order
        write_order(folder, dataclasses.replace(order, stack_sha256="0" * 64))
    broken = Play({cell: [fail("wrong")] for cell in (MLP, MLP_F16, SUM)})
    second = Site(tonight(farm, tmp_path, broken), tmp_path / "second", machines())
    second.earlier = [first.run]
    second.go(pace=Pace(unclaimed_s=3600))
    statuses = {result.status for result in second.run.latest().values()}
    sick = [agent for agent, event, _ in second.seen() if event == "sick"]
    if rolled:  # every machine fails it, and the night is red
        assert sick == []
        assert "fail" in statuses
    else:
        assert {ONE, TWO} == set(sick)
        assert statuses == {"miss"}


def test_plain_machines_are_given_jobs_as_ever(farm: Farm, tmp_path: Path) -> None:
    site = Site(farm, tmp_path, {})
    farm.agents = None
    site.go()
    assert record(site.run) == after()
    assert [who for who, _ in farm.went] == ["box-go-1"]
    assert site.seen() == []


JOB = "run.pytorch.intel-cpu"
SCENARIOS: dict[str, dict[str, list[Fate]]] = {
    "new agents, a miss": {JOB: ["refused"]},
    "a sick one, a lost job": {f"run.health.{ONE}.1": ["refused"], JOB: ["lost", "torn"]},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_moment_and_resumed_gives_the_same_record_and_journal(
    tree: Tree, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = _disturbed(tree, tmp_path / "0", SCENARIOS[name], Bomb(at=0), monkeypatch)
    moments = 0
    for at in range(1, 1000):
        bomb = Bomb(at=at)
        found = _disturbed(tree, tmp_path / str(at), SCENARIOS[name], bomb, monkeypatch)
        assert found == undisturbed, f"killed at moment {at}"
        if bomb.passed < at:
            break
        moments += 1
    assert moments > 40


def _disturbed(
    tree: Tree,
    folder: Path,
    fates: dict[str, list[Fate]],
    bomb: Bomb,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Record, list[tuple[str, str]]]:
    """The record, and what is told of normal jobs, of a run that is killed and resumed.

    Not by whom: who gets a job that was lost may differ, and health jobs with it.
    """
    engine = FakeEngine(Play({SUM: [fail("wrong")]}))
    farm = Farm(
        tree,
        folder / "farm",
        engine,
        agents=(ONE, TWO),
        of_jobs={job: [*each] for job, each in fates.items()},
    )
    (folder / "farm").mkdir(parents=True)
    site = Site(farm, folder, machines(one={"priority": 9}))
    planned = site.place()
    with monkeypatch.context() as patch:
        for name in ("submit", "collect", "cancel", "forget"):
            patch.setattr(farm, name, bomb.wrap(getattr(farm, name)))
        patch.setattr(Lines, "add", torn(bomb))
        patch.setattr(intake, "add", bomb.wrap(intake.add))
        try:
            done = site.dispatcher()
            for job in planned:
                done.plan(job)
            done.go({})
        except KilledError:
            pass
    again = site.dispatcher()
    for job in planned:
        if job not in Journal(site.run.folder / "journal.jsonl").jobs:
            again.plan(job)
    again.go({})
    assert Journal(site.run.folder / "journal.jsonl").open_jobs() == ()
    lines = list(Lines(site.state / JOURNAL, Seen).read())
    goes = [(line.agent, line.job, line.go) for line in lines]
    assert len(goes) == len(set(goes))
    assert len(site.notices()) == len(set(site.notices()))
    normal = [(line.event, line.kind) for line in lines if ".health." not in line.job]
    return record(site.run), sorted(normal)
