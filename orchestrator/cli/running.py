"""Running a plan on this machine: what `run` and `repro` share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from orchestrator import __version__
from orchestrator.backends import jobdir
from orchestrator.backends.local import LocalBackend
from orchestrator.backends.recorder import Recorder, Reporter
from orchestrator.backends.signals import stopping
from orchestrator.cli import commands
from orchestrator.cli.app import App
from orchestrator.engines.base import Engine
from orchestrator.errors import Interrupted
from orchestrator.host import Host
from orchestrator.job import Job
from orchestrator.plan import PlannedCell, make_jobs
from orchestrator.results.schema import Result, RunInfo, RunPlan
from orchestrator.results.store import Run, utc
from orchestrator.text import plural

_GIB = 1 << 30
_CELL_GIB = 3
"""Memory to count on for each cell that runs at the same time."""
_MAX_WORKERS = 16


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a run came to."""

    run: Run
    info: RunInfo
    results: dict[str, Result]
    """The last attempt of each cell that was run, in the plan's order, earlier ones included."""
    wall: float
    """Seconds, of this part of the run alone."""


def default_workers(host: Host) -> int:
    """One for each core, as far as memory goes."""
    by_memory = host.memory_bytes // (_CELL_GIB * _GIB) if host.memory_bytes else host.cpus
    return max(1, min(host.cpus, by_memory, _MAX_WORKERS))


def sweep(engine: Engine, reporter: Reporter) -> None:
    """Removes what dead orchestrators left; a start is the time to do so."""
    for what in engine.sweep():
        reporter.note(f"left behind by an earlier run, now removed: {what}")


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
        return _execute(app, run, plan, engine, note, reporter, fail_fast=fail_fast)


def _execute(
    app: App,
    run: Run,
    plan: RunPlan,
    engine: Engine,
    note: str,
    reporter: Reporter,
    *,
    fail_fast: bool,
) -> Ran:
    clock = app.services.clock
    before = run.latest()
    waiting = set(run.unfinished())
    started = clock.monotonic()
    recorder = Recorder(
        run,
        _info(app, run, engine, note),
        plan.cells,
        expectations=app.config.matrix.expectations,
        today=app.today(),
        reproduce=lambda planned: commands.rerun(planned, plan),
        reporter=reporter,
        fail_fast=fail_fast,
    )
    run.write_info(recorder.info)
    backend = LocalBackend(
        engine,
        lambda job: _place(run, job, plan),
        retries=plan.options.retries,
        attempts=run.attempts(),
        limits=app.services.limits,
        clock=clock,
        gpus=app.host.gpus,
        monitors=app.services.monitors,
    )
    try:
        with stopping(reporter.note):
            backend.execute(_jobs(run, plan, waiting), recorder)
    except KeyboardInterrupt:
        _write_info(run, recorder.info, clock.monotonic() - started, ended=None)
        raise _interrupted(app, run, len(recorder.results), len(waiting)) from None
    wall = clock.monotonic() - started
    ended = None if recorder.enough() else utc(clock.now())
    info = _write_info(run, recorder.info, wall, ended=ended)
    merged = {**before, **recorder.results}
    ordered = {p.cell.id: merged[p.cell.id] for p in plan.cells if p.cell.id in merged}
    return Ran(run=run, info=info, results=ordered, wall=wall)


def _write_info(run: Run, info: RunInfo, wall: float, *, ended: str | None) -> RunInfo:
    """Adds what this part of the run took."""
    info = dataclasses.replace(info, seconds=info.seconds + wall, ended=ended)
    run.write_info(info)
    return info


def _jobs(run: Run, plan: RunPlan, waiting: set[str]) -> Sequence[Job]:
    cells = [_with_timeout(p, plan) for p in plan.cells if p.cell.id in waiting]
    return make_jobs(
        cells,
        workers=plan.options.workers,
        toolchain=cast(Literal["auto", "release", "bindings"], plan.options.toolchain),
        keep=plan.options.keep,
        mode="run",
        run=run.name,
    )


def _with_timeout(planned: PlannedCell, plan: RunPlan) -> PlannedCell:
    if plan.options.timeout_s is None:
        return planned
    cell = dataclasses.replace(planned.cell, timeout_s=plan.options.timeout_s)
    return dataclasses.replace(planned, cell=cell)


def _place(run: Run, job: Job, plan: RunPlan) -> tuple[Job, Path]:
    folder = run.job_folder(job.id)
    return jobdir.write(folder, job, plan.files), folder


def _info(app: App, run: Run, engine: Engine, note: str) -> RunInfo:
    """Of a new run, or of one that goes on: times add up."""
    if (run.folder / "run.json").exists():
        return dataclasses.replace(run.info(), ended=None, engine=engine.name, engine_note=note)
    return RunInfo(
        run=run.name,
        started=utc(app.services.clock.now()),
        engine=engine.name,
        engine_note=note,
        version=__version__,
    )


def _interrupted(app: App, run: Run, done: int, total: int) -> Interrupted:
    return Interrupted(
        f"stopped. {done:,} of {plural(total, 'cell')} have a result, kept in "
        f"{app.shown(run.folder)}. Go on with: {commands.resume(run.name)}"
    )
