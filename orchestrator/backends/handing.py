"""What a dispatcher should do at this moment: who gets which job, and who is tried first. Pure.

Every job is submitted to one agent that can begin it now, so nothing queues behind a machine that
falls ill, and the terms of its owner hold at the moment at which it begins.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.backends.roster import HOPEFUL, Cause, Refusal, Roster, online
from orchestrator.backends.underway import Underway
from orchestrator.fleet.assign import Assignment, Running, State, Waiting, assign, owing
from orchestrator.fleet.terms import why_not
from orchestrator.text import plural

_EXPECTED: frozenset[Cause] = frozenset({"busy", "owes"})
"""Nobody need be told of these: the job has its turn later, and health jobs are told of."""
_SAID = 3
"""Agents of which it is told why they are not given a job."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A job that nobody can be given now."""

    job: str
    why: str
    hope: bool
    """It ends by itself."""
    never: bool
    """Waiting changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do now."""

    submit: tuple[Assignment, ...] = ()
    withdraw: tuple[str, ...] = ()
    """Jobs that their agents have not begun, and may not any more."""
    held: tuple[Held, ...] = ()
    checkups: Mapping[str, str] = field(default_factory=dict)
    """Agents that are to be given a health job, each with a job that it could have otherwise."""


def decide(
    roster: Roster,
    jobs: Mapping[str, Underway],
    connected: Collection[str] | None,
    now: dt.datetime,
    retries: int,
) -> Decision:
    """What to do with the jobs that are under way.

    Args:
        roster: was just read.
        jobs: by id; those of pools without agents are left alone.
        connected: names of machines, as the backend tells them.
        now: aware of its time zone.
        retries: how often a job that was missed is given to an agent again.
    """
    mine = {name: job for name, job in jobs.items() if roster.serves(job.ordered.job.pool)}
    state = standing(roster, mine.values(), connected)
    waiting = {
        name: job.waiting(roster.request(job.ordered), retries)
        for name, job in mine.items()
        if job.waits
    }
    given = assign(waiting.values(), roster.agents, state, now)
    taken = {each.job for each in given}
    return Decision(
        submit=given,
        withdraw=tuple(name for name, job in mine.items() if _stale(roster, job, state, now)),
        held=tuple(
            found
            for name, job in waiting.items()
            if name not in taken and (found := _held(roster, job, state, now))
        ),
        checkups=_checkups(roster, waiting, state, now),
    )


def standing(roster: Roster, jobs: Iterable[Underway], connected: Collection[str] | None) -> State:
    """What agents do, and how they stand."""
    running: dict[str, list[Running]] = {}
    for job in jobs:
        if job.agent:
            running.setdefault(job.agent, []).append(job.running())
    return State(
        online=online(roster.agents, connected), running=running, standings=roster.standings
    )


def _stale(roster: Roster, job: Underway, state: State, now: dt.datetime) -> bool:
    """Whether a job was given to an agent that has not begun it, and should not any more."""
    if job.taken or not job.agent or job.agent not in roster.agents:
        return False
    if job.agent not in state.online:
        return True
    return job.state.aside != "health" and not roster.works(job.agent, now)


def _held(roster: Roster, job: Waiting, state: State, now: dt.datetime) -> Held | None:
    found = roster.refusals(job, state, now)
    causes = {refusal.cause for refusal in found}
    everybody = sum(
        job.request.pool in agent.pools and job.only in ("", agent.id)
        for agent in roster.agents.values()
    )
    # somebody could have it: it waits for a peer, for a pause to end, or for its turn
    hope = len(found) < everybody or bool(causes & HOPEFUL)
    return Held(
        job=job.id,
        why="" if len(found) < everybody or causes & _EXPECTED else _words(found),
        hope=hope,
        never=bool(found) and causes == {"never"},
    )


def _words(found: Iterable[Refusal]) -> str:
    texts = [refusal.text for refusal in found]
    more = [f"and {plural(len(texts) - _SAID, 'more agent')}"] if len(texts) > _SAID else []
    return "; ".join([*texts[:_SAID], *more])


def _checkups(
    roster: Roster, waiting: Mapping[str, Waiting], state: State, now: dt.datetime
) -> dict[str, str]:
    """Who owes a health job and could work otherwise; the most urgent job that it could have."""
    wanted: dict[str, str] = {}
    normal = [job for job in waiting.values() if not job.health]
    for job in sorted(normal, key=lambda each: (-each.priority, each.since, each.id)):
        for agent in roster.able(job.request):
            if agent.id in wanted or job.only not in ("", agent.id):
                continue
            running = len(state.running.get(agent.id, ()))
            if not why_not(agent, job.request, now=now, running=running):
                wanted[agent.id] = job.id
    owed = owing(wanted, state, waiting.values(), now)
    return {agent: wanted[agent] for agent in owed}
