"""Health jobs: cells that are known to be good, on a machine of which that is not known. Pure.

A health job is an ordinary job: one or two of the cheapest core cells of one stack that were green
in the last green run, exactly as they were then. Where its stack is defined as it was in that run,
nothing in it is new but the machine, so when it fails, it is the machine; unless it fails
everywhere, which is told apart.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.fleet.quarantine import NEW, Event, Seen, Standing
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import Result
from orchestrator.text import one_line

EVERY = dt.timedelta(hours=24)
"""As LAVA does by default
(https://docs.lavasoftware.org/lava/healthchecks.html)."""
CELLS = 2
"""Of a health job: one could be a cell that says nothing about the machine."""
FEW = 2
"""Agents of a pool that fail the same health job within a day are sick; more are a sign that the
job is."""


def owes(standing: Standing | None, now: dt.datetime) -> str:
    """Why an agent gets a health job before any other; empty when it does not.

    None: nothing is known of it.
    """
    standing = standing or NEW
    if standing.owes:
        return standing.owes
    if standing.passed is None or now >= standing.passed + EVERY:
        return "its last health job is a day old"
    return ""


WELL = "well"


def words(standing: Standing | None, now: dt.datetime) -> str:
    """How an agent stands, for people."""
    known = standing or NEW
    if known.since is not None:
        since = known.since.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")
        rest = known.until if known.rests(now) else None
        then = f", rests until {rest.astimezone(dt.UTC).strftime('%H:%M')}" if rest else ""
        return f"in quarantine since {since} UTC{then}: {one_line(known.why, 120)}"
    why = owes(known, now)
    return f"a health job comes first: {why}" if why else WELL


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A run, as far as it matters here."""

    run: str
    cells: tuple[PlannedCell, ...]
    """As they were planned, frozen."""
    results: Mapping[str, Result]
    """The last one of each cell."""


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The last green run of a stack in a pool."""

    run: str
    stack: str
    pool: str
    cells: tuple[PlannedCell, ...]
    """Core ones that passed, the quickest first."""


def golden(runs: Iterable[Tried], stack: str, pool: str) -> Golden | None:
    """The newest run in which all core cells of a stack in a pool that ran are green.

    `runs`: the newest first. None: there is none.
    """
    for tried in runs:
        core = [
            planned
            for planned in tried.cells
            if (planned.stack, planned.cell.pool, planned.tier) == (stack, pool, "core")
            and planned.cell.id in tried.results
        ]
        ended = [tried.results[planned.cell.id] for planned in core]
        if all(result.status in ("pass", "xfail") for result in ended):
            passed = [p for p in core if tried.results[p.cell.id].status == "pass"]
            passed.sort(key=lambda p: (tried.results[p.cell.id].seconds, p.cell.id))
            if passed:
                return Golden(run=tried.run, stack=stack, pool=pool, cells=tuple(passed))
    return None


def pick(
    cells: Sequence[PlannedCell], pipelines: Iterable[str] = ("*",)
) -> tuple[PlannedCell, ...]:
    """The cells of a health job: the first ones, of one pipeline, each of another workload.

    Args:
        cells: the cheapest first, all of one stack.
        pipelines: names or globs that the machine's owner allows.
    """
    globs = tuple(pipelines)
    found: list[PlannedCell] = []
    for planned in cells:
        cell = planned.cell
        if not any(fnmatchcase(cell.pipeline, glob) for glob in globs):
            continue
        if found and cell.pipeline != found[0].cell.pipeline:
            continue
        if cell.workload.name not in {other.cell.workload.name for other in found}:
            found.append(planned)
        if len(found) == CELLS:
            break
    return tuple(found)


Verdict = Literal["healthy", "sick", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a health job says of its machine."""

    verdict: Verdict
    """`inconclusive`: it did not come to its end, and that is nobody's fault here."""
    kind: str = ""
    """Of what went wrong, as `misses.Kind`; empty: a cell came out wrong."""
    why: str = ""
    """One line; empty when all is well."""
    cell: str = ""


def judge(results: Sequence[Result], cells: Iterable[str], *, proven: bool = True) -> Outcome:
    """What the last results of a health job's cells mean: all pass, or the machine is sick.

    `proven`: a green run has shown that the cells are good. Else any verdict is as much as can be
    asked of the machine: what is wrong may be what is under test.
    """
    by_cell = {result.cell: result for result in results}
    for cell in cells:
        result = by_cell.get(cell)
        if result is None:
            return Outcome(verdict="sick", kind="result", why=f"no result of {cell}", cell=cell)
        if result.status in ("pass", "xpass") or (not proven and result.status != "miss"):
            continue
        said = one_line(result.message, 200)
        if result.status != "miss":
            why = f"{cell}: {result.status} at {result.phase}: {said}"
            return Outcome(verdict="sick", why=why, cell=cell)
        kind = kind_of(result.phase, result.message, result.evidence)
        # a kernel known to be good that never ends is the device's; a registry that is down is not
        sick = kind.own or kind == Kind.HANG
        return Outcome(
            verdict="sick" if sick else "inconclusive",
            kind=str(kind),
            why=f"{cell}: {said}",
            cell=cell,
        )
    return Outcome(verdict="healthy")


def seen(agent: str, job: str, outcome: Outcome, at: str, others: Sequence[Seen] = ()) -> Seen:
    """The line of the journal that a health job's outcome is.

    `others`: what the health jobs of the pool's other agents came to in the last day. When more of
    them than `FEW` failed than passed, this one is not held against its machine: the job is
    suspected, and the agent still owes one.
    """
    events: Mapping[Verdict, Event] = {
        "healthy": "healthy",
        "sick": "sick",
        "inconclusive": "missed",
    }
    line = Seen(
        agent=agent,
        event=events[outcome.verdict],
        at=at,
        job=job,
        kind=outcome.kind,
        message=outcome.why,
    )
    if line.event == "sick" and epidemic(others):
        return dataclasses.replace(line, event="missed", kind=str(Kind.JOB))
    return line


def epidemic(others: Sequence[Seen]) -> bool:
    """Whether health jobs fail on so many machines that it cannot be the machines."""
    sick = {each.agent for each in others if each.event == "sick"}
    well = {each.agent for each in others if each.event == "healthy"}
    return len(sick) > FEW and len(sick) > len(well)
