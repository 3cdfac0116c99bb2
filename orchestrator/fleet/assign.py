"""Which waiting job goes to which agent now: one decision, whatever hands the jobs over. Pure.

It is made again whenever a job or an agent becomes free; nothing is reserved. What it never does:
give an agent more jobs than its owner allows, two jobs one GPU, an agent that owes a health job or
rests anything but that, or a job to two agents.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.fleet.health import owes
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.quarantine import NEW, Standing
from orchestrator.fleet.terms import Request, never, why_not
from orchestrator.job import Device

PATIENCE = dt.timedelta(minutes=30)
"""For which a job that was missed on one agent waits for another one that is busy."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A job that nobody has."""

    id: str
    request: Request
    since: dt.datetime
    """When it was queued, at first."""
    expected_s: float = 0.0
    """What it is likely to take, by what is known of its cells; 0: nothing is."""
    device: Device = ""
    """Whose GPU it has to itself; empty: none."""
    priority: int = 0
    """Jobs with a higher one go first."""
    health: bool = False
    """A health job; `only` names whose."""
    only: str = ""
    """The one agent that it is for; empty: any of its pool."""
    tried: tuple[str, ...] = ()
    """Agents on which it was missed, one for each time: they come last."""
    missed: dt.datetime | None = None
    """When, the last time."""
    not_before: dt.datetime | None = None
    """It was missed for something that ends by itself, and waits for that."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A job that an agent has."""

    job: str
    device: Device = ""
    health: bool = False


@dataclass(frozen=True, kw_only=True)
class State:
    """What agents do, and how they stand."""

    online: Collection[str]
    running: Mapping[str, Sequence[Running]] = field(default_factory=dict)
    standings: Mapping[str, Standing] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A job, and who gets it."""

    job: str
    agent: str


def assign(
    waiting: Iterable[Waiting],
    agents: Mapping[str, AgentFile],
    state: State,
    now: dt.datetime,
) -> tuple[Assignment, ...]:
    """What to hand out at this moment; jobs that are not named go on waiting.

    Health jobs first, then by priority, then those that were queued first, then those that were
    missed, then those of the pool that has the most to do for its machines, then the longest ones:
    what is begun last should be short. Of the agents that can take a job now: those on which it was
    not missed yet, then by the owners' priorities, then the least busy, then those that serve the
    fewest pools.

    Args:
        waiting: jobs with distinct ids, none of which runs.
        agents: all that are registered, by id.
        state: as it is now.
        now: aware of its time zone.
    """
    jobs = [job for job in waiting if job.not_before is None or job.not_before <= now]
    board = _Board(agents, state, now)
    pressure = board.pressure(jobs)
    found = []
    for job in sorted(jobs, key=lambda each: _order(each, pressure)):
        agent = board.choose(job)
        if agent is not None:
            board.give(job, agent)
            found.append(Assignment(job=job.id, agent=agent.id))
    return tuple(found)


def owing(
    agents: Iterable[str], state: State, waiting: Iterable[Waiting], now: dt.datetime
) -> tuple[str, ...]:
    """Agents that are there, owe a health job, may be given one, and have none yet."""
    have = {job.only for job in waiting if job.health}
    have |= {name for name, jobs in state.running.items() if any(job.health for job in jobs)}
    return tuple(
        name
        for name in agents
        if name in state.online
        and name not in have
        and owes(state.standings.get(name), now)
        and not state.standings.get(name, NEW).rests(now)
    )


def preference(
    name: str, *, tried: bool, priority: int, load: float = 0.0, pools: int = 1
) -> tuple[bool, int, float, int, str]:
    """What agents that can take a job are sorted by: the first one gets it.

    Args:
        name: breaks ties, so that the same state gives the same decision.
        tried: whether the job was missed on it.
        priority: its owner's.
        load: the part of what its owner allows that runs already.
        pools: how many it serves; one that serves many is kept for those who need it.
    """
    return tried, -priority, load, pools, name


def _order(job: Waiting, pressure: Mapping[str, float]) -> tuple[object, ...]:
    pool = -pressure.get(job.request.pool, 0.0)
    first = not job.health, -job.priority, job.since
    return *first, -len(job.tried), pool, -job.expected_s, job.id


class _Board:
    """Agents that could take something, and what they were given just now."""

    def __init__(self, agents: Mapping[str, AgentFile], state: State, now: dt.datetime) -> None:
        self._now = now
        self._standings = state.standings
        self._running = {name: len(state.running.get(name, ())) for name in agents}
        self._device = {n for n, jobs in state.running.items() if any(j.device for j in jobs)}
        online = [agent for name, agent in agents.items() if name in state.online]
        self._online = {agent.id: agent for agent in online}
        self._all: dict[str, list[AgentFile]] = {}
        self._free: dict[str, list[AgentFile]] = {}
        for agent in online:
            open_ = self._running[agent.id] < agent.terms.jobs and self._works(agent.id)
            for pool in agent.pools:
                self._all.setdefault(pool, []).append(agent)
                if open_:
                    self._free.setdefault(pool, []).append(agent)
        self._hopeless: set[object] = set()

    def choose(self, job: Waiting) -> AgentFile | None:
        """Who should take a job; None: nobody now."""
        if job.only:
            agent = self._online.get(job.only)
            return agent if agent is not None and self._may(agent, job) else None
        free = self._free.get(job.request.pool)
        if not free:
            return None
        # jobs that ask for the same get the same answer, until somebody is given something
        key = (job.request, bool(job.device), job.tried, job.missed)
        if key in self._hopeless:
            return None
        able = [agent for agent in free if self._may(agent, job)]
        if job.tried and self._waits_for_peer(job):
            able = [agent for agent in able if agent.id not in job.tried]
        if not able:
            self._hopeless.add(key)
            return None
        return min(able, key=lambda agent: self._rank(agent, job))

    def give(self, job: Waiting, agent: AgentFile) -> None:
        """From now on the agent has the job, as far as this decision goes."""
        self._running[agent.id] += 1
        if job.device:
            self._device.add(agent.id)
        if self._running[agent.id] >= agent.terms.jobs:
            for pool in agent.pools:
                self._free[pool] = [a for a in self._free.get(pool, ()) if a is not agent]

    def pressure(self, jobs: Iterable[Waiting]) -> dict[str, float]:
        """Expected seconds of work for each job that a pool's agents can have at a time."""
        work: dict[str, float] = {}
        for job in jobs:
            work[job.request.pool] = work.get(job.request.pool, 0.0) + job.expected_s
        slots = {
            pool: sum(agent.terms.jobs for agent in agents) for pool, agents in self._all.items()
        }
        return {pool: seconds / slots[pool] for pool, seconds in work.items() if slots.get(pool)}

    def _works(self, name: str) -> bool:
        """Whether an agent may be given normal jobs."""
        standing = self._standings.get(name, NEW)
        due = owes(standing, self._now)
        return not (due or standing.quarantined or standing.rests(self._now))

    def _may(self, agent: AgentFile, job: Waiting) -> bool:
        if job.health:
            if self._standings.get(agent.id, NEW).rests(self._now):
                return False
        elif not self._works(agent.id):
            return False
        if job.device and agent.id in self._device:
            return False
        running = self._running[agent.id]
        return not why_not(agent, job.request, now=self._now, running=running)

    def _waits_for_peer(self, job: Waiting) -> bool:
        """Whether somebody else will do, though perhaps not now."""
        if job.missed is None or self._now >= job.missed + PATIENCE:
            return False
        return any(
            agent.id not in job.tried
            and self._works(agent.id)
            and not next(iter(never(agent, job.request)), "")
            for agent in self._all.get(job.request.pool, ())
        )

    def _rank(self, agent: AgentFile, job: Waiting) -> tuple[bool, int, float, int, str]:
        return preference(
            agent.id,
            tried=agent.id in job.tried,
            priority=agent.terms.priority,
            load=self._running[agent.id] / agent.terms.jobs,
            pools=len(agent.pools),
        )
