"""A run's registered agents: from checkout, workspace and plan to what hands out jobs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.app import App
from orchestrator.cli.elsewhere import head
from orchestrator.cli.running import waiting_jobs
from orchestrator.job import Job
from orchestrator.plan import split_job
from orchestrator.results.schema import RunPlan
from orchestrator.results.store import Run

if TYPE_CHECKING:
    from orchestrator.backends.fleetwork import Fleetwork
    from orchestrator.backends.ordering import Terms
    from orchestrator.fleet.models import AgentFile


def fleetwork(app: App, run: Run, plan: RunPlan, note: Callable[[str], None]) -> Fleetwork | None:
    """What decides who gets which job of a run; None: no agent is registered for its backend.

    Raises:
        UsageError: this is no checkout, so that nobody knows what owners are asked to run.
        DefinitionError: files of agents are wrong.
        InfrastructureError: the journal of agents is damaged.
    """
    from orchestrator.backends.checkups import Checkups
    from orchestrator.backends.controls import Controls
    from orchestrator.backends.fleetwork import Fleetwork
    from orchestrator.backends.roster import Code, Roster
    from orchestrator.fleet.agents import load_fleet

    registered = load_fleet(app.root).agents
    agents = {n: agent for n, agent in registered.items() if agent.backend == plan.options.backend}
    if plan.options.unsigned or not agents:
        return None
    commit, branch = head(app)
    expected = [each.cells for each in app.config.matrix.expectations]
    earlier = [each for each in app.runs.all() if each.name != run.name]
    return Fleetwork(
        Roster(agents, app.state, Code(branch=branch, commit=commit)),
        Checkups(plan, expected, earlier),
        note,
        Controls(run, app.runs),
    )


def jobs_of(fleet: Fleetwork, run: Run, plan: RunPlan, waiting: set[str]) -> Iterator[Job]:
    """Jobs of the cells that are waited for: each has cells that the same agents take, and is done
    within the time that their owners give, if no cell takes longer than it may.
    """
    from orchestrator.fleet.serving import RegisteredMachines

    machines = RegisteredMachines(fleet.roster.agents, None, fleet.roster.code.branch)
    cells = [planned for planned in plan.cells if planned.cell.id in waiting]
    for group in machines.groups(cells):
        for job in waiting_jobs(run, plan, {planned.cell.id for planned in group.cells}):
            yield from split_job(job, _parts(job, group.agents))


def patience(fleet: Fleetwork, job: Job, terms: Terms) -> Terms:
    """The terms of a job's order: what an agent misses is tried again on a peer first."""
    return dataclasses.replace(terms, retries=0) if fleet.roster.serves(job.pool) else terms


_CELLS = 4
"""A job of fewer is not split for the sake of speed: a container takes seconds to be ready."""


def _parts(job: Job, agents: Sequence[AgentFile]) -> int:
    """Into how many jobs a group's cells are split."""
    longest = max(cell.timeout_s for cell in job.cells)
    times = [agent.terms.time for agent in agents if agent.terms.time >= longest]
    in_time = math.floor(min(times) / longest) if times else len(job.cells)
    shared = min(math.ceil(len(job.cells) / _CELLS), sum(agent.terms.jobs for agent in agents))
    return max(1, shared, math.ceil(len(job.cells) / in_time))
