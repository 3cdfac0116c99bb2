"""Which job goes to which agent: what never happens, whatever there is, and what comes first."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.fleet.assign import (
    PATIENCE,
    Assignment,
    Running,
    State,
    Waiting,
    assign,
    owing,
)
from orchestrator.fleet.health import EVERY, owes
from orchestrator.fleet.misses import Kind
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.quarantine import NEW, Standing
from orchestrator.fleet.retry import PAUSES, RETRIES, Missed, again
from orchestrator.fleet.terms import Request, why_not
from tests.fleet.samples import agent
from tests.property import examples

NOW = dt.datetime(2026, 11, 20, 23, 0, tzinfo=dt.UTC)
WELL = Standing(passed=NOW)
SICK = Standing(strikes=1, owes="a health job failed", since=NOW)
POOLS = ("a-cpu", "b-gpu")


def machine(name: str, *pools: str, **terms: Any) -> AgentFile:
    open_to_all = {"pipelines": ["*"], "hours": [], "jobs": 1, "priority": 0}
    return agent(name, pools=list(pools or POOLS[:1]), terms=open_to_all | terms)


def request(**changed: Any) -> Request:
    usual = Request(
        pool=POOLS[0],
        pipelines=("torch_cpu",),
        branch="main",
        commit="c0ffee",
        fork=False,
        approved=False,
        disk_bytes=1 << 30,
        seconds=600.0,
    )
    return dataclasses.replace(usual, **changed)


def job(name: str, **changed: Any) -> Waiting:
    asked = request(**{k: changed.pop(k) for k in ("pool", "branch", "seconds") if k in changed})
    return Waiting(**{"id": name, "request": asked, "since": NOW, **changed})


def fleet(*machines: AgentFile) -> dict[str, AgentFile]:
    return {each.id: each for each in machines}


def given_to(
    jobs: list[Waiting], machines: dict[str, AgentFile], now: dt.datetime = NOW, **state: Any
) -> dict[str, str]:
    kept = {"online": set(machines), "standings": dict.fromkeys(machines, WELL), **state}
    return {each.job: each.agent for each in assign(jobs, machines, State(**kept), now)}


A, B = machine("a"), machine("b")


class TestWhoComesFirst:
    """Among jobs, and among agents."""

    def test_priority_then_the_first_then_the_missed_then_the_longest(self) -> None:
        jobs = [
            job("late", since=NOW + dt.timedelta(seconds=1), expected_s=9.0),
            job("short", expected_s=1.0),
            job("long", expected_s=2.0),
            job("missed", tried=("intel-z",), missed=NOW),
            job("core", priority=10, since=NOW + dt.timedelta(seconds=9)),
        ]
        order = []
        while jobs:
            (name,) = given_to(jobs, fleet(A))
            order.append(name)
            jobs = [each for each in jobs if each.id != name]
        assert order == ["core", "missed", "long", "short", "late"]

    def test_the_pool_with_the_most_to_do(self) -> None:
        both = machine("both", *POOLS)
        jobs = [job("long", expected_s=5.0), job("1", pool="b-gpu", expected_s=3.0)]
        assert list(given_to(jobs, fleet(both))) == ["long"]
        jobs.append(job("2", pool="b-gpu", expected_s=3.0))
        assert list(given_to(jobs, fleet(both))) == ["1"]
        assert list(given_to(jobs, fleet(both, machine("b", "b-gpu", jobs=4)))) == [
            "long",
            "1",
            "2",
        ]

    def test_owners_priority_then_load_then_few_pools_then_name(self) -> None:
        busy = {"intel-busy": [Running(job="x")]}
        one = [job("1")]
        machines = [
            machine("z", priority=5),
            machine("a"),
            machine("b"),
            machine("aa", *POOLS),
            machine("busy", jobs=2),
        ]
        order = []
        while machines:
            name = given_to(one, fleet(*machines), running=busy)["1"]
            order.append(name)
            machines = [each for each in machines if each.id != name]
        assert order == ["intel-z", "intel-a", "intel-b", "intel-aa", "intel-busy"]

    def test_a_job_for_one_agent(self) -> None:
        jobs = [job("1", only="intel-b"), job("2", only="intel-nobody")]
        assert given_to(jobs, fleet(A, B)) == {"1": "intel-b"}


class TestHealth:
    """Nothing else before it."""

    HEALTH = job("h", health=True, only="intel-a")

    @pytest.mark.parametrize("standing", [None, NEW, SICK, Standing(passed=NOW - EVERY)])
    def test_an_agent_that_owes_one_gets_nothing_else(self, standing: Standing | None) -> None:
        standings = {"intel-a": standing} if standing else {}
        assert given_to([job("1")], fleet(A), standings=standings) == {}
        found = given_to([job("1", priority=99), self.HEALTH], fleet(A), standings=standings)
        assert found == {"h": "intel-a"}

    def test_not_while_it_rests(self) -> None:
        resting = dataclasses.replace(SICK, until=NOW + dt.timedelta(seconds=1))
        standings = {"intel-a": resting}
        assert given_to([self.HEALTH], fleet(A), standings=standings) == {}
        later = NOW + dt.timedelta(seconds=1)
        assert given_to([self.HEALTH], fleet(A), later, standings=standings) == {"h": "intel-a"}

    def test_who_has_to_be_given_one(self) -> None:
        standings = {
            "intel-a": SICK,
            "intel-b": WELL,
            "intel-c": dataclasses.replace(SICK, until=NOW + dt.timedelta(seconds=1)),
            "intel-d": SICK,
            "intel-e": SICK,
        }
        running = {"intel-d": [Running(job="x", health=True)], "intel-n": [Running(job="y")]}
        state = State(
            online={f"intel-{each}" for each in "abcden"}, standings=standings, running=running
        )
        names = [f"intel-{each}" for each in "abcdenz"]
        queued = [job("h", health=True, only="intel-e")]
        assert owing(names, state, queued, NOW) == ("intel-a", "intel-n")


class TestPeers:
    """On a peer first."""

    TRIED = job("1", tried=("intel-a",), missed=NOW)

    def test_another_one_is_preferred_whatever_its_priority(self) -> None:
        machines = fleet(machine("a", priority=9), B)
        assert given_to([self.TRIED], machines) == {"1": "intel-b"}

    def test_it_waits_for_one_that_is_busy_but_not_for_ever(self) -> None:
        busy = {"intel-b": [Running(job="x")]}
        assert given_to([self.TRIED], fleet(A, B), running=busy) == {}
        found = given_to([self.TRIED], fleet(A, B), NOW + PATIENCE, running=busy)
        assert found == {"1": "intel-a"}

    @pytest.mark.parametrize(
        "peer",
        [
            {"standings": {"intel-a": WELL, "intel-b": SICK}},
            {"online": {"intel-a"}},
        ],
    )
    def test_it_does_not_wait_for_one_that_is_away(self, peer: dict[str, Any]) -> None:
        assert given_to([self.TRIED], fleet(A, B), **peer) == {"1": "intel-a"}

    def test_it_does_not_wait_for_one_that_never_takes_it(self) -> None:
        other = machine("b", branches=["release"])
        assert given_to([self.TRIED], fleet(A, other)) == {"1": "intel-a"}


def test_one_job_for_a_gpu() -> None:
    gpu = machine("g", *POOLS, jobs=3)
    jobs = [job(f"{n}", device="nvidia", pool="b-gpu") for n in range(2)]
    jobs.append(job("cpu", priority=-1))
    assert given_to(jobs, fleet(gpu)) == {"0": "intel-g", "cpu": "intel-g"}
    busy = {"intel-g": [Running(job="x", device="nvidia")]}
    assert given_to(jobs, fleet(gpu), running=busy) == {"cpu": "intel-g"}


def test_one_that_can_go_nowhere_says_nothing_of_the_next() -> None:
    """They ask for the same, but for a GPU that is busy, or for the agent that each one avoids."""
    roomy = machine("a", jobs=2)
    busy = {"intel-a": [Running(job="x", device="nvidia")]}
    jobs = [job("1", device="nvidia"), job("2")]
    assert given_to(jobs, fleet(roomy), running=busy) == {"2": "intel-a"}
    busy = {"intel-b": [Running(job="x")]}
    jobs = [job(str(n), tried=(name,), missed=NOW) for n, name in enumerate(["intel-a", "intel-b"])]
    assert given_to(jobs, fleet(A, B), running=busy) == {"1": "intel-a"}


MISSED = Missed(job="1", agent="intel-a", kind=Kind.LOST, at=NOW + PATIENCE, message="gone")


class TestAgain:
    """At most twice."""

    def test_what_passes_by_itself_is_waited_for(self) -> None:
        pulled = dataclasses.replace(MISSED, kind=Kind.PULL)
        first = again(job("1"), pulled)
        assert first is not None
        assert first.not_before == MISSED.at + PAUSES[0]
        second = again(first, pulled)
        assert second is not None
        assert second.not_before == MISSED.at + PAUSES[1]
        peer = fleet(A, B)
        assert given_to([first], peer, MISSED.at) == {}
        assert given_to([first], peer, MISSED.at + PAUSES[0]) == {"1": "intel-b"}
        lost = again(first, MISSED)
        assert lost is not None
        assert lost.not_before is None

    def test_twice_and_no_more(self) -> None:
        waiting: Waiting | None = job("1")
        for tried in range(1, RETRIES + 1):
            assert waiting is not None
            waiting = again(waiting, MISSED)
            assert waiting is not None
            assert waiting.tried == ("intel-a",) * tried
            assert (waiting.since, waiting.missed) == (NOW, MISSED.at)
        assert waiting is not None
        assert again(waiting, MISSED) is None
        assert again(job("1"), MISSED, retries=0) is None

    def test_a_health_job_is_not_tried_again(self) -> None:
        assert again(job("h", health=True, only="intel-a"), MISSED) is None

    def test_what_the_journal_gets_to_know(self) -> None:
        line = MISSED.seen()
        assert (line.agent, line.event, line.kind, line.job) == ("intel-a", "missed", "lost", "1")
        assert line.at == MISSED.at.isoformat()


# --- whatever there is ------------------------------------------------------------------------

NAMES = tuple("abcd")
MACHINES = st.builds(
    machine,
    st.sampled_from(NAMES),
    st.sampled_from(POOLS),
    jobs=st.integers(1, 3),
    priority=st.integers(-1, 1),
    hours=st.sampled_from([[], ["22:00-23:30"], ["01:00-02:00"]]),
    branches=st.sampled_from([["main"], ["main", "fast"]]),
    time=st.sampled_from(["5min", "1h"]),
)
STANDINGS = st.sampled_from(
    [
        WELL,
        NEW,
        SICK,
        dataclasses.replace(SICK, until=NOW + dt.timedelta(minutes=1)),
        Standing(passed=NOW - EVERY),
        dataclasses.replace(WELL, until=NOW + dt.timedelta(minutes=1)),
    ]
)
IDS = [f"intel-{name}" for name in NAMES]
JOBS = st.lists(
    st.builds(
        job,
        st.integers(0, 99).map(str),
        pool=st.sampled_from([*POOLS, "c-nobody"]),
        branch=st.sampled_from(["main", "fast"]),
        seconds=st.sampled_from([60.0, 600.0]),
        device=st.sampled_from(["", "nvidia"]),
        priority=st.integers(0, 1),
        tried=st.lists(st.sampled_from(IDS), max_size=2).map(tuple),
        missed=st.sampled_from([None, NOW, NOW - PATIENCE]),
        expected_s=st.sampled_from([0.0, 60.0]),
        not_before=st.sampled_from([None, NOW, NOW + PATIENCE]),
        only=st.sampled_from(["", "", *IDS]),
    ),
    max_size=12,
    unique_by=lambda each: each.id,
)
BUSY = st.dictionaries(
    st.sampled_from(IDS),
    st.lists(st.builds(Running, job=st.just("x"), device=st.sampled_from(["", "amd"])), max_size=3),
)


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[Waiting], dict[str, AgentFile], State]:
    """Anything at all."""
    machines = fleet(*draw(st.lists(MACHINES, max_size=4)))
    normal = draw(JOBS)
    health = [
        job(f"h-{name}", health=True, only=name) for name in draw(st.sets(st.sampled_from(IDS)))
    ]
    state = State(
        online=draw(st.sets(st.sampled_from(IDS))),
        running=draw(BUSY),
        standings=draw(st.dictionaries(st.sampled_from(IDS), STANDINGS)),
    )
    return draw(st.permutations(normal + health)), machines, state


@examples(400)
@given(scenes())
def test_what_never_happens(scene: tuple[list[Waiting], dict[str, AgentFile], State]) -> None:
    jobs, machines, state = scene
    found = assign(jobs, machines, state, NOW)
    by_id = {each.id: each for each in jobs}
    assert len({each.job for each in found}) == len(found) <= len(jobs)
    running = {name: list(state.running.get(name, ())) for name in machines}
    for each in found:
        took, who = by_id[each.job], machines[each.agent]
        standing = state.standings.get(each.agent, NEW)
        assert each.agent in state.online
        assert took.only in ("", each.agent)
        assert took.not_before is None or took.not_before <= NOW
        assert not standing.rests(NOW)
        assert took.health or not (owes(standing, NOW) or standing.quarantined)
        have = running[each.agent]
        assert not why_not(who, took.request, now=NOW, running=len(have))
        assert not (took.device and any(other.device for other in have))
        have.append(Running(job=took.id, device=took.device, health=took.health))
        assert len(have) <= who.terms.jobs
    _nothing_idles(jobs, machines, state, found, running)


def _nothing_idles(
    jobs: list[Waiting],
    machines: dict[str, AgentFile],
    state: State,
    found: tuple[Assignment, ...],
    running: dict[str, list[Running]],
) -> None:
    """A job that waits could go to nobody, unless it waits for a peer."""
    given_out = {each.job for each in found}
    for left in (each for each in jobs if each.id not in given_out):
        for name in state.online & machines.keys() if isinstance(state.online, set) else ():
            standing = state.standings.get(name, NEW)
            able = not standing.rests(NOW)
            able &= left.health or not (owes(standing, NOW) or standing.quarantined)
            able &= left.only in ("", name)
            able &= left.not_before is None or left.not_before <= NOW
            able &= not why_not(machines[name], left.request, now=NOW, running=len(running[name]))
            able &= not (left.device and any(other.device for other in running[name]))
            assert not able or (name in left.tried and left.missed == NOW)


@examples(100)
@given(scenes())
def test_the_order_of_what_is_known_changes_nothing(
    scene: tuple[list[Waiting], dict[str, AgentFile], State],
) -> None:
    jobs, machines, state = scene
    backwards = dict(reversed(list(machines.items())))
    assert assign(jobs, machines, state, NOW) == assign(jobs[::-1], backwards, state, NOW)
