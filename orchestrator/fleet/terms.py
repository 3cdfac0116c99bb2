"""Whether a job is within what an agent's owner allows. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orchestrator.fleet.models import AgentFile, minutes
from orchestrator.text import plural, seconds, size


@dataclass(frozen=True, kw_only=True)
class Request:
    """A job that might be given to an agent."""

    pool: str
    pipelines: tuple[str, ...]
    """Of its cells."""
    branch: str
    commit: str
    fork: bool
    """The code comes from a fork of the repository."""
    approved: bool
    """A maintainer approved this commit."""
    disk_bytes: int
    seconds: float
    """The longest that it may take."""


def why_not(
    agent: AgentFile, request: Request, *, now: dt.datetime, running: int
) -> tuple[str, ...]:
    """Every reason against giving a job to an agent now; none: it is within the owner's terms.

    Args:
        agent: as registered.
        request: the job.
        now: when it would begin, aware of its time zone.
        running: jobs that the agent has already.
    """
    return (*never(agent, request), *_not_now(agent, now, running))


def never(agent: AgentFile, request: Request) -> Iterator[str]:
    """What waiting does not change."""
    terms = agent.terms
    if request.pool not in agent.pools:
        yield f"it does not serve pool {request.pool}"
    for name in request.pipelines:
        if not _matches(name, terms.pipelines):
            yield f"its owner does not run pipeline {name} (runs {', '.join(terms.pipelines)})"
    if not _matches(request.branch, terms.branches):
        yield f"its owner does not run branch {request.branch} (runs {', '.join(terms.branches)})"
    if request.fork and terms.forks == "never":
        yield "its owner runs no code of forks"
    elif request.fork and not request.approved:
        yield f"commit {request.commit:.12} of a fork was not approved by a maintainer"
    if request.disk_bytes > terms.disk:
        yield f"needs {size(request.disk_bytes)} of disk, and a job may take {size(terms.disk)}"
    if request.seconds > terms.time:
        yield f"may take {seconds(request.seconds)}, and its owner allows {seconds(terms.time)}"


def closed(agent: AgentFile, now: dt.datetime) -> bool:
    """Whether no job may begin on an agent at this hour."""
    hours = agent.terms.hours
    return bool(hours) and not any(_inside(now, each) for each in hours)


def _not_now(agent: AgentFile, now: dt.datetime, running: int) -> Iterator[str]:
    terms = agent.terms
    if running >= terms.jobs:
        yield f"it has {plural(running, 'job')}, and its owner allows {terms.jobs}"
    if closed(agent, now):
        clock = now.astimezone(dt.UTC).strftime("%H:%M")
        yield f"jobs begin at {', '.join(terms.hours)} UTC, and it is {clock}"


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _inside(now: dt.datetime, hours: str) -> bool:
    """The begin counts, the end does not; a window may go over midnight."""
    begin, end = minutes(hours)
    utc = now.astimezone(dt.UTC)
    minute = utc.hour * 60 + utc.minute
    return begin <= minute < end if begin < end else minute >= begin or minute < end
