"""Running a plan on machines elsewhere."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from orchestrator import __version__
from orchestrator.cli.app import App
from orchestrator.cli.elsewhere import Elsewhere, Fleet, connect
from orchestrator.cli.lending import fleetwork, jobs_of, patience
from orchestrator.cli.running import Ran, interrupted, merged, terms, waiting_jobs
from orchestrator.cli.selecting import Chosen
from orchestrator.cli.trust import signing
from orchestrator.job import Job
from orchestrator.plan import split_job
from orchestrator.results.schema import RunInfo, RunPlan
from orchestrator.results.store import Run, utc
from orchestrator.results.verdict import is_red

if TYPE_CHECKING:
    from orchestrator.backends.fleetwork import Fleetwork
    from orchestrator.backends.ordering import Terms
    from orchestrator.backends.recorder import Reporter
    from orchestrator.plan import Serving

_CELLS = 4
"""A job of fewer is not split: a container takes seconds to be ready."""
_MOST_CELLS = 100
"""A job of more is split: some services take no larger text."""


def serving(app: App, backend: str, master: str, *, unsigned: bool = False) -> Serving | None:
    """The machines to plan for; None: this one.

    Raises:
        UsageError: no password, or it is refused; or nothing can be signed, and has to be.
        InfrastructureError: the master does not answer.
    """
    if backend == "local":
        return None
    import click

    there = connect(app, backend, master, lambda line: click.echo(f"note  {line}", err=True))
    signing(app, backend, unsigned=unsigned)  # before anything is asked, or planned
    return there.fleet()


def execute(
    app: App, run: Run, plan: RunPlan, reporter: Reporter, *, fail_fast: bool = False
) -> Ran:
    """Has every cell of `plan` run that has no verdict yet, and waits for it.

    Raises:
        UsageError: another process works on this run, or the master refuses us.
        Interrupted: Ctrl-C or SIGTERM; jobs go on, and their results can be collected later.
        InfrastructureError: nobody answers, or results cannot be kept.
        DefinitionError: a file that the plan names is no longer what it was.
    """
    from orchestrator.backends import ordering
    from orchestrator.backends.contract import PRIORITIES
    from orchestrator.backends.dispatch import Dispatcher
    from orchestrator.backends.signals import stopping

    clock, options = app.services.clock, plan.options
    backend = connect(app, options.backend, options.master, reporter.note)
    trust = signing(app, options.backend, unsigned=options.unsigned)
    if options.unsigned:
        reporter.note("--unsigned: results of machines that are not registered are taken")
    with run.claimed():
        before, started = run.latest(), clock.monotonic()
        waiting = set(run.unfinished())
        note = f"{backend.name} at {backend.where}"
        note += ", --unsigned" if options.unsigned else ""
        machines = _Machines(run, _info(app, run, note))
        fleet = fleetwork(app, run, plan, reporter.note)
        dispatcher = Dispatcher(
            run,
            backend,
            reporter,
            retries=options.retries,
            clock=clock,
            enough=(lambda results: is_red(results.values())) if fail_fast else None,
            heard=machines.heard,
            signing=trust,
            fleet=fleet,
        )
        try:
            with stopping(reporter.note):
                fresh = waiting - dispatcher.open_cells()
                common = order_terms(app, run, plan)
                for job in _jobs(run, plan, fresh, backend, fleet):
                    folder, told = run.job_folder(job.id), common
                    if fleet is not None:
                        told = patience(fleet, job, common)
                    dispatcher.plan(ordering.write(folder, job, told).id)
                dispatcher.go(PRIORITIES)
        except KeyboardInterrupt:
            machines.close(clock.monotonic() - started, ended=None)
            raise interrupted(app, run, len(dispatcher.results), len(waiting)) from None
        wall = clock.monotonic() - started
        stopped = fail_fast and is_red(dispatcher.results.values())
        info = machines.close(wall, ended=None if stopped else utc(clock.now()))
    return Ran(run=run, info=info, results=merged(plan, before, dispatcher.results), wall=wall)


def order_terms(app: App, run: Run, plan: RunPlan) -> Terms:
    """What all orders of a run have in common."""
    from orchestrator.backends.ordering import Terms

    return Terms(
        run=run.name,
        config=app.config,
        cells=terms(plan),
        files=plan.files,
        engine=plan.options.engine,
        retries=plan.options.retries,
        workers=plan.options.workers or None,
        today=app.today(),
    )


def _jobs(
    run: Run, plan: RunPlan, fresh: set[str], backend: Elsewhere, fleet: Fleetwork | None
) -> Iterable[Job]:
    """Jobs of the cells that nobody has yet."""
    if fleet is not None:
        return jobs_of(fleet, run, plan, fresh)
    jobs = waiting_jobs(run, plan, fresh)
    return _split(jobs, _sizes(jobs, backend.fleet()) if jobs else {})


def _sizes(jobs: Iterable[Job], fleet: Fleet) -> dict[str, int]:
    """Into how many jobs a pool's cells should be split."""
    return {
        job.pool: max(len(fleet.serving(job.pool)), math.ceil(len(job.cells) / _MOST_CELLS))
        for job in jobs
    }


def judged(where: object, chosen: Chosen) -> Chosen:
    """What was chosen, less the cells that no owner of a registered machine wants."""
    from orchestrator.fleet.serving import AnyMachines

    if not isinstance(where, AnyMachines):
        return chosen
    return dataclasses.replace(chosen, cells=where.judged(chosen.cells))


def _split(jobs: Iterable[Job], machines: Mapping[str, int]) -> Iterator[Job]:
    """Jobs of about equal size, as many as there are machines for them."""
    for job in jobs:
        most = max(1, math.ceil(len(job.cells) / _CELLS))
        yield from split_job(job, min(most, max(1, machines.get(job.pool, 1))))


class _Machines:
    """`run.json` of a run whose cells run elsewhere."""

    def __init__(self, run: Run, info: RunInfo) -> None:
        self._run = run
        self._info = info
        run.write_info(info)

    def heard(self, theirs: RunInfo) -> None:
        """A machine tells of its environments, and of times that belong to no cell."""
        known = {(e.stack, e.digest) for e in self._info.environments}
        new = tuple(e for e in theirs.environments if (e.stack, e.digest) not in known)
        self._info = dataclasses.replace(
            self._info,
            environments=(*self._info.environments, *new),
            spans=(*self._info.spans, *theirs.spans),
        )
        self._run.write_info(self._info)

    def close(self, wall: float, *, ended: str | None) -> RunInfo:
        """Adds what this part of the run took."""
        seconds = self._info.seconds + wall
        self._info = dataclasses.replace(self._info, seconds=seconds, ended=ended)
        self._run.write_info(self._info)
        return self._info


def _info(app: App, run: Run, note: str) -> RunInfo:
    if (known := run.info_so_far()) is not None:
        return dataclasses.replace(known, ended=None, engine_note=note)
    return RunInfo(
        run=run.name,
        started=utc(app.services.clock.now()),
        engine="elsewhere",
        engine_note=note,
        version=__version__,
    )
