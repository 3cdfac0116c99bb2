"""Running a plan on this machine: what `run` and `repro` share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from orchestrator.backends import jobdir
from orchestrator.backends.perform import Work, perform
from orchestrator.backends.recorder import Reporter
from orchestrator.cli import commands
from orchestrator.cli.app import App
from orchestrator.engines.base import Engine
from orchestrator.errors import Interrupted
from orchestrator.job import Job
from orchestrator.order import CellTerms
from orchestrator.plan import PlannedCell, make_jobs
from orchestrator.results.schema import Result, RunInfo, RunPlan
from orchestrator.results.store import Run
from orchestrator.text import plural


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a run came to."""

    run: Run
    info: RunInfo
    results: dict[str, Result]
    """The last attempt of each cell that was run, in the plan's order, earlier ones included."""
    wall: float
    """Seconds, of this part of the run alone."""


def execute(
    app: App,
    run: Run,
    plan: RunPlan,
    engine: Engine,
    note: str,
    reporter: Reporter,
    *,
    fail_fast: bool = False,
) -> Ran:
    """Runs every cell of `plan` that has no verdict yet.

    Raises:
        UsageError: another process works on this run.
        Interrupted: Ctrl-C or SIGTERM; says how to go on.
        InfrastructureError: results cannot be kept.
        DefinitionError: a file that the plan names is no longer what it was.
    """
    with run.claimed():
        before, attempts = run.latest(), run.attempts()
        waiting = set(run.unfinished())
        work = Work(
            jobs=waiting_jobs(run, plan, waiting),
            place=lambda job: _place(run, job, plan),
            terms=terms(plan),
            expectations=app.config.matrix.expectations,
            today=app.today(),
            retries=plan.options.retries,
            fail_fast=fail_fast,
        )
        try:
            done = perform(run, work, app.machine(engine, note), reporter)
        except KeyboardInterrupt:
            tried = run.attempts()
            count = sum(tried.get(cell, 0) > attempts.get(cell, 0) for cell in waiting)
            raise interrupted(app, run, count, len(waiting)) from None
    return Ran(run=run, info=done.info, results=merged(plan, before, done.results), wall=done.wall)


def terms(plan: RunPlan) -> dict[str, CellTerms]:
    """What the record says of each cell of a plan."""
    return {
        p.cell.id: CellTerms(tier=p.tier, reproduce=commands.rerun(p, plan)) for p in plan.cells
    }


def merged(plan: RunPlan, *parts: Mapping[str, Result]) -> dict[str, Result]:
    """The last result of each cell, in the plan's order; later parts win."""
    found = {cell: result for part in parts for cell, result in part.items()}
    return {p.cell.id: found[p.cell.id] for p in plan.cells if p.cell.id in found}


def waiting_jobs(run: Run, plan: RunPlan, waiting: set[str]) -> Sequence[Job]:
    """Jobs of the cells that are waited for, as the plan's options say."""
    cells = [_with_timeout(p, plan) for p in plan.cells if p.cell.id in waiting]
    return make_jobs(
        cells,
        workers=plan.options.workers,
        toolchain=cast(Literal["auto", "release", "bindings"], plan.options.toolchain),
        keep=plan.options.keep,
        mode="run",
        run=run.name,
    )


def interrupted(app: App, run: Run, done: int, total: int) -> Interrupted:
    """What is told after Ctrl-C: what is kept, and how to go on."""
    return Interrupted(
        f"stopped. {done:,} of {plural(total, 'cell')} have a result, kept in "
        f"{app.shown(run.folder)}. Go on with: {commands.resume(run.name)}"
    )


def _with_timeout(planned: PlannedCell, plan: RunPlan) -> PlannedCell:
    if plan.options.timeout_s is None:
        return planned
    cell = dataclasses.replace(planned.cell, timeout_s=plan.options.timeout_s)
    return dataclasses.replace(planned, cell=cell)


def _place(run: Run, job: Job, plan: RunPlan) -> tuple[Job, Path]:
    folder = run.job_folder(job.id)
    return jobdir.write(folder, job, plan.files), folder
