"""Machines that fail are left alone for a while, and given health jobs before anything else. Pure.

What an agent did is a journal of `Seen`; how it stands is made from that alone, so whoever reads
the journal after a restart knows what was known before.

A strike is a job that the machine is to blame for not finishing, or a health job that failed. After
the first one a health job may follow at once; after the next ones nothing is given to it for a
minute, two, four, up to an hour. A health job that passes ends the quarantine; only a normal job
that comes to a verdict takes the strikes away, so that a machine that passes health jobs and loses
all others rests longer and longer. What the machine cannot help (a registry that is down) is no
strike; it delays health jobs in the same way, so that nothing spins.

Buildbot's workers do the same with 10 seconds doubling to an hour, reset by a finished build
(`quarantine_timeout` in `buildbot.worker.base`,
https://github.com/buildbot/buildbot/blob/master/master/buildbot/worker/base.py); a minute is what a
health job itself takes, an hour is what an owner who repaired a machine can be asked to wait.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator.fleet.misses import Kind

Event = Literal["healthy", "sick", "missed", "worked"]

JOURNAL = "fleet/agents.jsonl"
"""Of the state folder; see `results.lines`."""
FIRST_S = 60.0
MOST_S = 3600.0
_DOUBLINGS = 16
"""More would not change the delay."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A line of the journal: what one agent's job came to.

    `healthy`, `sick`: a health job passed, or failed. `missed`: a normal job ended without a
    verdict. `worked`: it came to one, whatever it is.
    """

    agent: str
    event: Event
    at: str
    """UTC, ISO 8601."""
    job: str = ""
    go: str = ""
    """The backend's name for the agent's go at that job: a go is told once."""
    kind: str = ""
    """Of a miss, or of a health job's: `misses.Kind`; empty: none."""
    message: str = ""
    """One line."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How an agent stands."""

    strikes: int = 0
    """Since a normal job came to a verdict."""
    stalls: int = 0
    """Jobs that were missed through no fault of its own, since one was not."""
    owes: str = ""
    """Why it owes a health job, apart from the time that went by; empty: it does not."""
    passed: dt.datetime | None = None
    """When a health job last passed; None: never."""
    until: dt.datetime | None = None
    """Until when it is given nothing."""
    since: dt.datetime | None = None
    """Of the quarantine that it is in; None: it is in none."""
    why: str = ""
    """Of that quarantine."""
    kind: str = ""
    """The same, as `misses.Kind`; empty: a health job came out wrong."""
    sick: bool = False
    """A health job failed in it: this is more than a job that was lost."""

    @property
    def quarantined(self) -> bool:
        """Whether it is given health jobs alone, because it failed."""
        return self.since is not None

    def rests(self, now: dt.datetime) -> bool:
        """Whether it is given nothing at all yet."""
        return self.until is not None and now < self.until


NEW = Standing(owes="it has not run anything yet")


def delay_s(strikes: int) -> float:
    """Seconds in which nothing is given to an agent after its n-th strike."""
    if strikes <= 1:
        return 0.0
    return float(min(FIRST_S * 2.0 ** min(strikes - 2, _DOUBLINGS), MOST_S))


def after(before: Standing, seen: Seen) -> Standing:
    """How an agent stands once more is known of it."""
    at = dt.datetime.fromisoformat(seen.at)
    match seen.event:
        case "healthy":
            # the strikes stay: what a machine does with real work is what counts
            return Standing(strikes=before.strikes, passed=at)
        case "worked":
            return dataclasses.replace(before, strikes=0, stalls=0)
        case "missed" if not _own(seen):
            stalls = before.stalls + 1
            later = at + dt.timedelta(seconds=delay_s(stalls))
            return dataclasses.replace(
                before,
                stalls=stalls,
                owes=before.owes or _owes(seen),
                until=max(later, before.until or later),
            )
        case _:
            strikes = before.strikes + 1
            return Standing(
                strikes=strikes,
                stalls=before.stalls,
                owes=_owes(seen),
                passed=before.passed,
                until=at + dt.timedelta(seconds=delay_s(strikes)),
                since=before.since or at,
                why=seen.message or seen.event,
                kind=seen.kind,
                sick=before.sick or seen.event == "sick",
            )


def standings(journal: Iterable[Seen]) -> dict[str, Standing]:
    """How every agent of a journal stands; those that are not in it are `NEW`."""
    found: dict[str, Standing] = {}
    for seen in journal:
        found[seen.agent] = after(found.get(seen.agent, NEW), seen)
    return found


def quarantined(by_agent: Mapping[str, Standing]) -> frozenset[str]:
    """Whose results count for nothing, but for those of health jobs; see `claims.check_origin`."""
    return frozenset(agent for agent, standing in by_agent.items() if standing.quarantined)


def _own(seen: Seen) -> bool:
    """Whether a miss speaks against the machine; one of a kind that we do not know does."""
    return seen.kind not in set(Kind) or Kind(seen.kind).own


def _owes(seen: Seen) -> str:
    return "a health job failed" if seen.event == "sick" else f"a job was missed ({seen.kind})"
