"""The suite can fail: for every promise there is a backend that breaks it, and is caught."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from orchestrator.backends import parcel
from orchestrator.backends.base import NothingLeftError, Parcel, Sight
from tests.backends.conformance import promises
from tests.backends.conformance.bench import Ran
from tests.backends.conformance.perfect import Perfect, PerfectBench, World
from tests.backends.conformance.promises import PROMISES, Promise
from tests.config.tree import make_tree


class RunsKeysTwice(Perfect):
    """A submission that is over is made again."""

    def submit(self, given: Parcel) -> str:
        job = self.world.jobs.get(given.key)
        if job is not None and job.ended:
            del self.world.jobs[given.key]
        return super().submit(given)


class KnowsJobsAlone(Perfect):
    """The second submission of a job is the first."""

    def submit(self, given: Parcel) -> str:
        return super().submit(dataclasses.replace(given, key=given.job))


class EndsWhatWaits(Perfect):
    """No machine: it gives up at once."""

    def sight(self, ticket: str) -> Sight:
        sight = super().sight(ticket)
        return sight if sight.goes else dataclasses.replace(sight, ended=True)


class TellsOfTheEndAlone(Perfect):
    """What runs is not seen."""

    def sight(self, ticket: str) -> Sight:
        sight = super().sight(ticket)
        return dataclasses.replace(sight, goes=tuple(go for go in sight.goes if go.ended))


class WaitsForWhatItDoesNotKnow(Perfect):
    """A ticket of nobody is waited for."""

    def sight(self, ticket: str) -> Sight:
        return super().sight(ticket) if ticket in self.world.jobs else Sight(goes=(), ended=False)


class SeesOne(Perfect):
    """Of several tickets it tells of the first."""

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        return super().watch(tickets[:1])


class NamesGoesAnew(Perfect):
    """Every look names goes otherwise."""

    looks = 0

    def sight(self, ticket: str) -> Sight:
        sight = super().sight(ticket)
        NamesGoesAnew.looks += 1
        goes = tuple(dataclasses.replace(go, id=f"{go.id}-{self.looks}") for go in sight.goes)
        return dataclasses.replace(sight, goes=goes if sight.ended else sight.goes)


class TellsLastFirst(Perfect):
    """The newest go comes first."""

    def sight(self, ticket: str) -> Sight:
        sight = super().sight(ticket)
        return dataclasses.replace(sight, goes=sight.goes[::-1])


class CollectsOnce(Perfect):
    """What was fetched is gone."""

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        super().collect(ticket, job, go, archive)
        last = self.world.jobs[ticket].goes
        last[-1] = dataclasses.replace(last[-1], lost=True)


class MixesJobsUp(Perfect):
    """What one job left is given for another."""

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        super().collect(ticket, next(iter(self.world.jobs)), go, archive)


class CollectsNothing(Perfect):
    """An empty parcel where there is none."""

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        try:
            super().collect(ticket, job, go, archive)
        except NothingLeftError:
            folder = archive.with_name("empty")
            folder.mkdir(exist_ok=True)
            parcel.pack(folder, archive)


class CancelsWhatRunsAlone(Perfect):
    """What waits is run all the same."""

    def cancel(self, ticket: str, why: str) -> None:
        if self.world.jobs[ticket].goes:
            super().cancel(ticket, why)


class CancelsWhatWaitsAlone(Perfect):
    """What runs goes on."""

    def cancel(self, ticket: str, why: str) -> None:
        if not self.world.jobs[ticket].goes:
            super().cancel(ticket, why)


class CallsItLost(Perfect):
    """A cancellation looks as if the machine had gone away."""

    def sight(self, ticket: str) -> Sight:
        sight = super().sight(ticket)
        goes = tuple(dataclasses.replace(go, cancelled=False) for go in sight.goes)
        return dataclasses.replace(sight, goes=goes)


class CancelsWhatIsOver(Perfect):
    """A late cancellation takes results away."""

    def cancel(self, ticket: str, why: str) -> None:
        self.world.jobs[ticket].ended = False
        super().cancel(ticket, why)


class ForgetsOnce(Perfect):
    """To forget what is forgotten is an error."""

    def forget(self, job: str) -> None:
        assert any(each.given.job == job for each in self.world.jobs.values()), "it is not there"
        super().forget(job)


class ForgetsEverything(Perfect):
    """With one job, all are gone."""

    def forget(self, job: str) -> None:
        self.world.jobs.clear()


class RemembersByItself(Perfect):
    """A new client knows nothing of what an old one submitted."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.mine: set[str] = set()

    def submit(self, given: Parcel) -> str:
        ticket = super().submit(given)
        self.mine.add(ticket)
        return ticket

    def sight(self, ticket: str) -> Sight:
        return super().sight(ticket) if ticket in self.mine else Sight(goes=(), ended=True)


class AddsAnOption(Perfect):
    """The machine is asked for something else."""

    def submit(self, given: Parcel) -> str:
        ticket = super().submit(given)
        self.world.ran = [
            (name, Ran((*ran.argv, "--retries=0"), ran.job)) for name, ran in self.world.ran
        ]
        return ticket


class PacksByItself(Perfect):
    """What comes back is not signed."""

    pack = ("tar", "-czf", "out.tar.gz", "out")


class RewritesTheJob(Perfect):
    """The job's document is written again on its way, in other words."""

    def submit(self, given: Parcel) -> str:
        ticket = super().submit(given)
        self.world.ran = [
            (name, Ran(ran.argv, {**ran.job, "job.json": "0" * 64})) for name, ran in self.world.ran
        ]
        return ticket


WRONG: dict[type[Perfect], Promise] = {
    RunsKeysTwice: promises.the_same_key_is_the_same_submission,
    KnowsJobsAlone: promises.another_key_is_another_submission,
    EndsWhatWaits: promises.what_waits_has_no_go_and_has_not_ended,
    TellsOfTheEndAlone: promises.what_runs_is_told,
    WaitsForWhatItDoesNotKnow: promises.what_nobody_knows_has_ended,
    SeesOne: promises.several_are_watched_at_once,
    NamesGoesAnew: promises.what_has_ended_stays_so,
    TellsLastFirst: promises.goes_are_in_the_order_of_time,
    CollectsOnce: promises.what_a_go_left_is_collected_as_often_as_asked,
    MixesJobsUp: promises.what_a_go_left_is_collected_as_often_as_asked,
    CollectsNothing: promises.nothing_is_told_as_nothing,
    CancelsWhatRunsAlone: promises.what_waits_can_be_cancelled,
    CancelsWhatWaitsAlone: promises.what_runs_can_be_cancelled,
    CallsItLost: promises.what_runs_can_be_cancelled,
    CancelsWhatIsOver: promises.what_is_over_is_not_changed_by_cancelling_it,
    ForgetsOnce: promises.what_is_recorded_can_be_forgotten,
    ForgetsEverything: promises.what_is_recorded_can_be_forgotten,
    RemembersByItself: promises.whoever_comes_back_sees_the_same,
    AddsAnOption: promises.the_machine_runs_the_contract,
    PacksByItself: promises.the_machine_runs_the_contract,
    RewritesTheJob: promises.the_job_arrives_byte_for_byte,
}
"""Who breaks which promise."""


@pytest.mark.parametrize("kind", WRONG, ids=lambda kind: kind.__name__)
def test_who_breaks_a_promise_is_caught(
    kind: type[Perfect], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.backends.conformance.bench.LIMIT_S", 0.1)
    (tmp_path / "repo").mkdir()
    bench = PerfectBench(make_tree(tmp_path / "repo"), tmp_path, kind=kind)
    with pytest.raises((AssertionError, NothingLeftError)):
        WRONG[kind](bench)


def test_no_promise_is_without_one_who_breaks_it() -> None:
    assert set(WRONG.values()) == set(PROMISES)
