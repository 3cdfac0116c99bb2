"""Control runs after a night: whose fault a failure is, found out by runs beside the record."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import intake
from orchestrator.backends.controls import Controls
from orchestrator.backends.executing import Ordered
from orchestrator.backends.journal import Journal
from orchestrator.fleet.quarantine import JOURNAL, Seen
from orchestrator.results.attribution import Attributed, attribution
from orchestrator.results.lines import Lines
from orchestrator.results.store import Run, Runs
from tests import fakes
from tests.backends.farm import Bomb, Farm, Fate, KilledError, _config
from tests.backends.test_dispatch import SUM, record, torn
from tests.backends.test_live_fleet import ONE, TWO, Site, machines, small_harness
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeEngine, Play, fail

__all__ = ["small_harness"]
YESTERDAY, TONIGHT = "2026-11-19T21-00-00", "2026-11-20T21-00-00"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "repo").mkdir()
    return make_tree(tmp_path / "repo")


class Nights:
    """Two nights of a workspace with two agents: the first one green, unless told otherwise."""

    def __init__(self, tree: Tree, folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        self.runs = Runs(folder / "state")
        self.engine = FakeEngine(Play())
        self.bad: set[str] = set()
        """Agents on which `sum` fails."""
        self.went: list[tuple[str, str]] = []

    def night(self, name: str, bomb: Bomb | None = None, patch: Any = None) -> Run:
        _config.cache_clear()
        farm = _Split(self.tree, self.folder / f"farm-{name}", self.engine, agents=(ONE, TWO))
        farm.nights = self
        site = Site(farm, self.folder, machines(one={"priority": 9}), self.runs.folder / name)
        site.state = self.folder / "state"
        site.well(ONE, TWO)
        site.controls = Controls(site.run, self.runs)
        site.run.write_plan(site.plan())
        if bomb is None or patch is None:
            site.go()
        else:
            _disturb(site, farm, bomb, patch)
        self.went = farm.went
        return site.run

    def controls(self) -> list[tuple[str, str]]:
        """Machine and job of each control run of the last night."""
        return [(who, job.rpartition(".")[2]) for who, job in self.went if ".control." in job]


class _Split(Farm):
    """`sum` fails on some machines alone."""

    nights: Nights
    who = ""

    def _made(self, name: str, submission: Any, fate: Fate) -> Path:
        self.who = self._machine(submission, name)
        return super()._made(name, submission, fate)

    def begin(self, place: Path, ordered: Ordered) -> bool:
        """With the last green image it passes everywhere."""
        bad = self.who in self.nights.bad and not ordered.order.image
        self.engine.script = Play({SUM: [fail("wrong")]} if bad else {})
        return super().begin(place, ordered)


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines tell their kernel: without it nobody knows whether their drivers are the same."""
    hardware = {**fakes.HELLO.hardware, "kernel": "Linux 6.1"}
    monkeypatch.setattr(fakes, "HELLO", dataclasses.replace(fakes.HELLO, hardware=hardware))


@pytest.fixture
def nights(tree: Tree, tmp_path: Path) -> Nights:
    return Nights(tree, tmp_path)


def found(run: Run) -> Attributed:
    made = attribution(run, SUM)
    assert made is not None
    return made


def test_a_cell_that_fails_everywhere_with_a_new_image_is_the_compilers(nights: Nights) -> None:
    nights.night(YESTERDAY)
    nights.tree.edit("images/pins.yaml", "2.13.0", "2.14.0")
    nights.engine.digest = "sha256:new"
    nights.engine.kept = {"sha256:pytorch"}
    nights.bad = {ONE, TWO}
    nights.engine.ran_in.clear()
    run = nights.night(TONIGHT)
    # the last green image on this machine, and the failing one on the peer
    assert nights.controls() == [(ONE, "1"), (TWO, "2")]
    assert nights.engine.ran_in == ["sha256:new", "sha256:pytorch", "sha256:new"]
    assert found(run).verdict == "compiler"
    assert {cell: tries[-1] for cell, tries in record(run).items()}[SUM] == (1, "fail")
    assert found(run).jobs == (f"{TONIGHT}.control.1", f"{TONIGHT}.control.2")


def test_a_cell_that_fails_on_one_machine_alone_is_the_machines(nights: Nights) -> None:
    nights.night(YESTERDAY)
    nights.bad = {ONE}
    run = nights.night(TONIGHT)
    assert nights.controls() == [(TWO, "1"), (ONE, "2")]
    made = found(run)
    assert (made.verdict, made.agent, made.attempt) == ("machine", ONE, 1)
    assert any("the same image on intel-two passed" in line for line in made.evidence)
    # controls are not in the record
    assert record(run)[SUM] == [(1, "fail")]


def test_an_image_that_is_gone_is_told_and_the_rest_is_done(nights: Nights) -> None:
    nights.night(YESTERDAY)
    nights.tree.edit("images/pins.yaml", "2.13.0", "2.14.0")
    nights.engine.digest = "sha256:new"
    nights.bad = {ONE, TWO}
    run = nights.night(TONIGHT)
    # the old image was asked for once
    assert [who for who, _ in nights.controls()] == [ONE, TWO]
    made = found(run)
    assert any("the last green image was not run: it is gone" in line for line in made.evidence)
    # that is no fault of the machine's
    lines = Lines(nights.folder / "state" / JOURNAL, Seen).read()
    assert {line.event for line in lines} == {"healthy", "worked"}
    assert made.verdict == "compiler"


def test_what_is_known_gets_no_control_run(nights: Nights) -> None:
    nights.night("2026-11-18T21-00-00")
    nights.bad = {ONE, TWO}
    first = nights.night(YESTERDAY)
    assert attribution(first, SUM) is not None
    second = nights.night(TONIGHT)
    assert nights.controls() == []
    assert attribution(second, SUM) is None


def test_a_green_night_has_none(nights: Nights) -> None:
    run = nights.night(TONIGHT)
    assert nights.controls() == []
    assert not (run.folder / "attributions").exists()


def test_there_is_a_most(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.backends.controls.MOST", 1)
    nights.night(YESTERDAY)
    nights.bad = {ONE}
    run = nights.night(TONIGHT)
    assert len(nights.controls()) == 1
    assert found(run).verdict == "undecided"


def test_killed_at_any_moment_and_resumed_says_the_same(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def night(folder: Path, at: int) -> tuple[Any, Bomb]:
        both, bomb = Nights(tree, folder), Bomb(at=at)
        both.night(YESTERDAY)
        both.bad = {ONE}
        run = both.night(TONIGHT, bomb, monkeypatch)
        assert len(both.controls()) >= 2
        return (record(run), dataclasses.replace(found(run), jobs=())), bomb

    undisturbed, _ = night(tmp_path / "0", 0)
    assert undisturbed[1].verdict == "machine"
    at = 1
    while True:
        told, bomb = night(tmp_path / str(at), at)
        assert told == undisturbed, f"killed at moment {at}"
        if bomb.passed < at:
            break
        at += 3  # each third moment: two nights take a while
    assert at > 40


def _disturb(site: Site, farm: Farm, bomb: Bomb, monkeypatch: pytest.MonkeyPatch) -> None:
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
