"""A plan as jobs, each with the machines that it is for. Pure.

Placing knows neither engines nor services: what is true of a job wherever it goes is said here, and
`buildkite.steps` and `github.matrix` say it in the words of their service.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from orchestrator.backends.base import Parcel
from orchestrator.backends.contract import PRIORITIES
from orchestrator.errors import UsageError
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.serving import Group, RegisteredMachines
from orchestrator.job import Device, Job
from orchestrator.plan import PlannedCell, make_jobs, split_job
from orchestrator.results.schema import RunOptions

CELLS = 25
"""Of a job, unless told otherwise: a container takes seconds to be ready, and a machine that is
lost takes no more than these with it."""
_BUILD_S = 45 * 60.0
"""To make a stack's image, the first time."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A job, and which machines may take it."""

    job: Job
    tier: str
    """Of its best cell."""
    priority: int
    timeout_s: float
    """For an image to be built, and for every cell to take all the time that it may."""
    agent: str = ""
    """The one agent that it is for; empty: any machine of its pool."""
    machines: int = 1
    """How many there are for it, as far as is known."""
    probation: bool = False
    """None of them is trusted: what it comes to is shown, and turns nothing red."""
    hosted: bool = False
    """It is for machines that the service hosts."""

    @property
    def device(self) -> Device:
        """Whose GPU it has to itself."""
        return self.job.device


def place(
    groups: Iterable[Group],
    options: RunOptions,
    *,
    run: str,
    cells: int = CELLS,
) -> tuple[Placed, ...]:
    """Jobs of at most `cells` cells each, in a stable order, with unique ids.

    Args:
        groups: cells by who takes them.
        options: what was asked of the run.
        run: its name.
        cells: the most that a job has.
    """
    placed: list[Placed] = []
    for group in groups:
        tiers = {planned.cell.id: planned.tier for planned in group.cells}
        for whole in _jobs(group.cells, options, run):
            parts = split_job(whole, math.ceil(len(whole.cells) / cells))
            placed += [_placed(job, group, tiers) for job in parts]
    return _with_unique_ids(placed)


def place_parcel(job: Job, parcel: Parcel, machines: RegisteredMachines, *, hosted: bool) -> Placed:
    """Where one job goes that was planned already: a machine that has not failed it, if there is.

    Args:
        job: the job.
        parcel: what it travels as: its priority, who may take it, and whom others come before.
        machines: the agents of the service.
        hosted: no agent serves its pool, and the service does.

    Raises:
        UsageError: no agent takes all of its pipelines, or none of those who may.
    """
    priority = parcel.priority
    needed = _needed(job)
    if hosted:
        return Placed(job=job, tier="", priority=priority, timeout_s=needed, hosted=True)
    pipelines = {cell.pipeline for cell in job.cells}
    able = machines.takers_of_all(job.pool, pipelines)
    if not able:
        names = ", ".join(sorted(pipelines))
        raise UsageError(
            f"no agent of pool {job.pool} runs all of {names}. Run one at a time: --pipeline NAME"
        )
    able = tuple(a for a in able if parcel.agents is None or a.id in parcel.agents)
    if not able:
        names = ", ".join(parcel.agents or ())
        raise UsageError(f"of pool {job.pool}, none of these takes its jobs: {names}")
    fresh = [agent for agent in able if agent.id not in parcel.avoid]
    whole = fresh == list(able) and len(able) == len(machines.serving(job.pool))
    return Placed(
        job=job,
        tier="",
        priority=priority,
        timeout_s=min([needed, *(agent.terms.time for agent in able)]),
        agent="" if whole else (fresh or list(able))[0].id,
        machines=len(able) if whole else 1,
        probation=all(agent.level == "probation" for agent in able),
    )


def place_again(
    job: Job, before: Placed, missed: Collection[str], able: Sequence[AgentFile]
) -> Placed:
    """Where a job goes of which nothing came: to a machine that did not miss it, if there is one.

    Where there is none, or nobody knows who missed it, it goes where it went before. An agent on
    probation is no peer of trusted ones: what it said would turn nothing red.

    Args:
        job: what is to be run once more.
        before: where its cells went before.
        missed: the machines that nothing came of it on.
        able: agents that take all of it, the best first.
    """
    needed = _needed(job)
    same = dataclasses.replace(before, job=job, timeout_s=min(needed, before.timeout_s))
    peers = (
        agent
        for agent in able
        if agent.id not in missed and (before.probation or agent.level != "probation")
    )
    peer = next(peers, None)
    if before.hosted or not missed or peer is None:
        return same
    return dataclasses.replace(
        same,
        agent=peer.id,
        machines=1,
        timeout_s=min(needed, peer.terms.time),
        probation=peer.level == "probation",
    )


def _needed(job: Job) -> float:
    """Seconds."""
    return _BUILD_S + sum(cell.timeout_s for cell in job.cells)


def _jobs(cells: Sequence[PlannedCell], options: RunOptions, run: str) -> tuple[Job, ...]:
    if options.timeout_s is not None:
        cells = [
            dataclasses.replace(
                planned, cell=dataclasses.replace(planned.cell, timeout_s=options.timeout_s)
            )
            for planned in cells
        ]
    return make_jobs(
        cells,
        workers=options.workers,
        toolchain=cast(Literal["auto", "release", "bindings"], options.toolchain),
        keep=options.keep,
        mode="run",
        run=run,
    )


def _placed(job: Job, group: Group, tiers: dict[str, str]) -> Placed:
    tier = max((tiers[cell.id] for cell in job.cells), key=lambda name: PRIORITIES.get(name, 0))
    needed = _needed(job)
    return Placed(
        job=job,
        tier=tier,
        priority=PRIORITIES.get(tier, 0),
        timeout_s=min([needed, *(agent.terms.time for agent in group.agents)]),
        agent="" if group.whole else _first(group.agents),
        machines=len(group.agents) if group.whole and group.agents else 1,
        probation=bool(group.agents) and all(a.level == "probation" for a in group.agents),
        hosted=group.hosted,
    )


def _first(agents: Sequence[AgentFile]) -> str:
    """Agents come with the highest priority first."""
    return agents[0].id if agents else ""


def _with_unique_ids(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Two groups of one pool may have jobs of the same name."""
    seen: dict[str, int] = {}
    unique = []
    for each in placed:
        name = each.job.id
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            job = dataclasses.replace(each.job, id=f"{name}-{seen[name]}")
            unique.append(dataclasses.replace(each, job=job))
        else:
            unique.append(each)
    return tuple(unique)
