"""One night, event by event: jobs are handed out by the fleet's own decisions, and fail or not."""

from __future__ import annotations

import dataclasses
import datetime as dt
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.fleet_simulation.faults import Fate, Faults
from benchmarks.fleet_simulation.world import World
from orchestrator.backends.placing import Placed
from orchestrator.fleet.assign import Running, State, Waiting, assign, owing
from orchestrator.fleet.misses import Kind
from orchestrator.fleet.quarantine import NEW, Event, Seen, Standing, after, standings
from orchestrator.fleet.retry import Missed, again
from orchestrator.fleet.terms import Request

START = dt.datetime(2026, 11, 20, 22, 0, tzinfo=dt.UTC)
TICK_S = 15.0
"""Between two decisions: as often as a dispatcher looks."""
LONGEST_S = 48 * 3600.0
_JOB_S = 15.0
"""For a container and its frontend to be ready."""
_HEALTH_S = 60.0
_RESTARTS_S = ((2000.0, 2090.0),)
"""From when to when the orchestrator is down; it then reads its journal again."""


@dataclass(kw_only=True)
class Night:
    """What a night came to."""

    seconds: float = 0.0
    """Until the last job was over."""
    jobs: int = 0
    worked: int = 0
    given_up: int = 0
    misses: Counter[str] = field(default_factory=Counter)
    """By kind, of normal jobs."""
    health_jobs: int = 0
    health_failures: int = 0
    quarantined: int = 0
    """Agents that were in quarantine at any time."""
    busy_s: float = 0.0
    """Of all machines, with normal jobs that came to something."""
    wasted_s: float = 0.0
    """With normal jobs that did not."""
    ended: list[float] = field(default_factory=list)
    """When each job was over."""
    decisions: int = 0
    decision_s: float = 0.0
    """Real seconds for all decisions together."""
    longest_decision_s: float = 0.0


class Simulation:
    """The fleet, its clock, and what is under way."""

    def __init__(self, world: World, faults: Faults | None, *, careful: bool = True) -> None:
        """`faults`: None: nothing fails. Not `careful`: no health jobs, and no quarantine."""
        self._world = world
        self._faults = faults
        self._careful = careful
        self._placed: Mapping[str, Placed] = {each.job.id: each for each in world.jobs}
        self._waiting = {job.id: job for job in (_waiting(each, world) for each in world.jobs)}
        self._running: dict[str, dict[str, Running]] = {name: {} for name in world.agents}
        self._online = set(world.agents)
        self._standings: dict[str, Standing] = {}
        self._well = {name: Standing(passed=START) for name in world.agents}
        self._journal: list[Seen] = []
        self._events: list[tuple[float, int, str, str, Fate | None]] = []
        self._numbers = itertools.count()
        self._jobs: dict[str, Waiting] = {}
        self._were_in: set[str] = set()
        self.night = Night(jobs=len(world.jobs))

    def run(self) -> Night:
        """Until every job is over.

        Raises:
            RuntimeError: something waits and can never be done, or was lost.
        """
        now = 0.0
        while self._waiting or any(self._running.values()):
            if now > LONGEST_S:
                raise RuntimeError(f"{len(self._waiting)} jobs wait after {now / 3600:g} h")
            if not any(begin <= now < end for begin, end in _RESTARTS_S):
                self._decide(now)
            now += TICK_S
            self._until(now)
        self._check()
        self.night.quarantined = len(self._were_in)
        return self.night

    # --- decisions --------------------------------------------------------------------------

    def _decide(self, now: float) -> None:
        moment = _at(now)
        began = time.perf_counter()
        state = State(
            online=self._online,
            running={name: list(jobs.values()) for name, jobs in self._running.items() if jobs},
            standings=self._standings if self._careful else self._well,
        )
        if self._careful and self._normal_left():
            for name in owing(self._world.agents, state, self._waiting.values(), moment):
                job = self._health(name, moment)
                self._waiting[job.id] = job
        found = assign(self._waiting.values(), self._world.agents, state, moment)
        took = time.perf_counter() - began
        night = self.night
        night.decisions += 1
        night.decision_s += took
        night.longest_decision_s = max(night.longest_decision_s, took)
        for each in found:
            self._begin(self._waiting.pop(each.job), each.agent, now)

    def _normal_left(self) -> bool:
        return self.night.worked + self.night.given_up < self.night.jobs

    def _health(self, agent: str, moment: dt.datetime) -> Waiting:
        pool = self._world.agents[agent].pools[0]
        request = dataclasses.replace(_REQUEST, pool=pool, seconds=600.0)
        number = next(self._numbers)
        return Waiting(
            id=f"health.{agent}.{number}", request=request, since=moment, health=True, only=agent
        )

    # --- jobs -------------------------------------------------------------------------------

    def _begin(self, job: Waiting, agent: str, now: float) -> None:
        if job.id in self._jobs:
            raise RuntimeError(f"{job.id} was given out twice")
        self._jobs[job.id] = job
        running = Running(job=job.id, device=job.device, health=job.health)
        self._running[agent][job.id] = running
        work = self._world.seconds.get(job.id, _HEALTH_S)
        seconds = _JOB_S + work * self._world.speed[agent]
        if self._faults is None:
            fate = Fate(seconds=seconds)
        elif job.health:
            fate = self._faults.health(agent, now, seconds)
        else:
            fate = self._faults.normal(agent, now, seconds, job.device)
        self._push(now + fate.seconds, "end", f"{agent} {job.id}", fate)

    def _until(self, now: float) -> None:
        """Everything that happens up to a moment, in its order."""
        while self._events and self._events[0][0] <= now:
            when, _, what, which, fate = heapq.heappop(self._events)
            if what == "back":
                self._online.add(which)
            elif fate is not None:
                agent, _, job = which.partition(" ")
                if job in self._running[agent]:
                    self._end(job, agent, when, fate)

    def _end(self, name: str, agent: str, when: float, fate: Fate) -> None:
        del self._running[agent][name]
        job = self._jobs.pop(name)
        if job.health:
            self._health_ended(job, agent, when, fate)
        elif fate.kind is None:
            self._over(when)
            self.night.worked += 1
            self.night.busy_s += fate.seconds
            self._tell(agent, "worked", when, name)
        else:
            self._missed(job, agent, when, fate.kind)
            self.night.wasted_s += fate.seconds
        if fate.kind is Kind.LOST:
            self._lost(agent, when, fate.away_s)

    def _health_ended(self, job: Waiting, agent: str, when: float, fate: Fate) -> None:
        self.night.health_jobs += 1
        if fate.kind is None:
            self._tell(agent, "healthy", when, job.id)
            return
        self.night.health_failures += 1
        event: Event = "sick" if fate.kind.own else "missed"
        self._tell(agent, event, when, job.id, str(fate.kind))

    def _missed(self, job: Waiting, agent: str, when: float, kind: Kind) -> None:
        self.night.misses[str(kind)] += 1
        missed = Missed(job=job.id, agent=agent, kind=kind, at=_at(when), message="")
        self._write(missed.seen())
        queued = again(job, missed)
        if queued is None:
            self.night.given_up += 1
            self._over(when)
        else:
            self._waiting[job.id] = queued

    def _lost(self, agent: str, when: float, away_s: float) -> None:
        """A machine went away, with all that ran on it."""
        self._online.discard(agent)
        self._push(when + away_s, "back", agent, None)
        for name in list(self._running[agent]):
            del self._running[agent][name]
            job = self._jobs.pop(name)
            if job.health:
                self.night.health_jobs += 1
                self.night.health_failures += 1
                self._tell(agent, "sick", when, name, str(Kind.LOST))
            else:
                self._missed(job, agent, when, Kind.LOST)

    def _over(self, when: float) -> None:
        self.night.seconds = max(self.night.seconds, when)
        self.night.ended.append(when)

    # --- small things -----------------------------------------------------------------------

    def _push(self, when: float, what: str, which: str, fate: Fate | None) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), what, which, fate))

    def _tell(self, agent: str, event: Event, when: float, job: str, kind: str = "") -> None:
        at = _at(when).isoformat()
        self._write(Seen(agent=agent, event=event, at=at, job=job, kind=kind))

    def _write(self, seen: Seen) -> None:
        self._journal.append(seen)
        before = self._standings.get(seen.agent, NEW)
        now = self._standings[seen.agent] = after(before, seen)
        if now.quarantined:
            self._were_in.add(seen.agent)

    def _check(self) -> None:
        """Nothing was lost, and what is known is what the journal says."""
        night = self.night
        if night.worked + night.given_up != night.jobs or self._jobs:
            raise RuntimeError(f"{night.jobs} jobs, {night.worked} and {night.given_up} are over")
        if standings(self._journal) != self._standings:
            raise RuntimeError("the journal tells another story")


_REQUEST = Request(
    pool="",
    pipelines=("pytorch_00",),
    branch="main",
    commit="",
    fork=False,
    approved=False,
    disk_bytes=8 << 30,
    seconds=0.0,
)


def _waiting(placed: Placed, world: World) -> Waiting:
    pipelines = tuple(dict.fromkeys(cell.pipeline for cell in placed.job.cells))
    request = dataclasses.replace(
        _REQUEST, pool=placed.job.pool, pipelines=pipelines, seconds=placed.timeout_s
    )
    return Waiting(
        id=placed.job.id,
        request=request,
        since=START,
        expected_s=world.expected[placed.job.id],
        device=placed.device,
        priority=placed.priority,
    )


def _at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)
