"""What of a plan is worth a second go: its misses, each for another machine if there is one.

It reads the record and writes nothing. A verdict is never asked for again, and neither is a miss
whose results were not collected yet, or that would end in the same way.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.backends import executing
from orchestrator.backends.handed import Handed
from orchestrator.backends.placing import Placed, place_again
from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.serving import RegisteredMachines
from orchestrator.fleet.terms import closed
from orchestrator.job import Job
from orchestrator.results.schema import Result
from orchestrator.results.store import Run

_GO = re.compile(r"\.try\d+$")


@dataclass(frozen=True, kw_only=True)
class Again:
    """What is to be given out once more."""

    placed: tuple[Placed, ...]
    """New jobs, of missed cells alone, with ids that the plan does not have."""
    of: tuple[str, ...]
    """The jobs that these were missed in, one for each."""
    left: Mapping[str, int]
    """Why other misses stay, and of how many cells."""


def second_go(
    run: Run, handed: Handed, machines: RegisteredMachines | None, now: dt.datetime
) -> Again:
    """The jobs to give out once more.

    Args:
        run: of the plan, as far as it was collected.
        handed: what was handed out.
        machines: the agents of the service, on their owners' terms; None: they are not told apart.
        now: when it is given out, aware of its time zone.

    Raises:
        InfrastructureError: the run is damaged.
    """
    attempts: dict[str, list[Result]] = {}
    for result in run.results()[0]:
        attempts.setdefault(result.cell, []).append(result)
    newest = handed.newest()
    awake = {*handed.takers.values(), *(r.agent for known in attempts.values() for r in known)}
    placed: dict[str, Placed] = {}
    left: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    for name, before in handed.jobs.items():
        mine = {c: attempts.get(c, []) for c in before.cells if newest[c] == name}
        over = {c: known for c, known in mine.items() if len(known) > before.before.get(c, 0)}
        if waiting := len(mine) - len(over):
            left["their results were not collected yet"] += waiting
        missed = {c: known[-1] for c, known in over.items() if known[-1].status == "miss"}
        if not missed:
            continue
        whole = executing.read(run.folder / "jobs" / name).job
        who = _who(handed, [result for cell in missed for result in mine[cell]])
        part = _part(whole, missed)
        able = sorted(_able(part, machines, now), key=lambda a: (a.id not in awake, busy[a.id]))
        found = place_again(part, before.placed(whole), who, able)
        vain = {cell: _vain(r, elsewhere=found.agent != before.agent) for cell, r in missed.items()}
        left.update(why for why in vain.values() if why)
        if worth := [cell for cell, why in vain.items() if not why]:
            job = dataclasses.replace(_part(whole, worth), id=_next(name, handed.jobs))
            placed[name] = dataclasses.replace(found, job=job)
            busy[found.agent] += 1
    return Again(placed=tuple(placed.values()), of=tuple(placed), left=left)


def _able(job: Job, machines: RegisteredMachines | None, now: dt.datetime) -> Iterator[AgentFile]:
    """Who takes all of a job now, the highest priority first."""
    if machines is not None:
        takers = machines.takers_of_all(job.pool, {cell.pipeline for cell in job.cells})
        yield from (agent for agent in takers if not closed(agent, now))


def _who(handed: Handed, attempts: Iterable[Result]) -> set[str]:
    """Machines on which cells were missed: who signed that, was named, or is told to have begun."""
    missed = [result for result in attempts if result.status == "miss"]
    cells = {result.cell for result in missed}
    goes = [name for name, job in handed.jobs.items() if not cells.isdisjoint(job.cells)]
    named = [handed.jobs[name].agent for name in goes]
    told = [handed.takers.get(name, "") for name in goes]
    return {name for name in (*(r.agent for r in missed), *named, *told) if name}


def _vain(result: Result, *, elsewhere: bool) -> str:
    """Why a second go would end like the first; empty: it need not."""
    match kind_of(result.phase, result.message, result.evidence):
        case Kind.JOB:
            return "no machine would run their job: see its message"
        case Kind.UNCLAIMED if not elsewhere:
            return "no machine took their job"
    return ""


def _part(job: Job, cells: Collection[str]) -> Job:
    return dataclasses.replace(job, cells=tuple(cell for cell in job.cells if cell.id in cells))


def _next(name: str, taken: Collection[str]) -> str:
    """`<job>.try2`, or the first after it that is free."""
    number, base = 2, _GO.sub("", name)
    while f"{base}.try{number}" in taken:
        number += 1
    return f"{base}.try{number}"
