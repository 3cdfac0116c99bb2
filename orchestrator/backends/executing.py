"""An order, carried out on this machine: what stands behind `lh-ci exec`, on every backend."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator import __version__, records
from orchestrator.backends import jobdir
from orchestrator.backends.clock import Clock
from orchestrator.backends.perform import Machine, Work, default_workers, perform, sweep
from orchestrator.backends.recorder import Reporter
from orchestrator.engines.base import Availability, Engine, Environment, Progress, Session
from orchestrator.engines.images import stack_definition
from orchestrator.engines.pins import read_pins
from orchestrator.errors import DefinitionError, InfrastructureError, UsageError
from orchestrator.host import Host
from orchestrator.job import Cell, Job
from orchestrator.order import (
    EXEC_FILE,
    ORDER_FILE,
    ExecSummary,
    JobOrder,
    read_order,
    read_summary,
)
from orchestrator.results.files import unwritable, write_atomically
from orchestrator.results.store import Run, utc
from orchestrator.results.verdict import exit_code


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """An order that was read and fits its job."""

    folder: Path
    order: JobOrder
    job: Job
    sha256: str
    """Of the order's bytes."""


def read(folder: Path) -> Ordered:
    """The order in a job's folder.

    Raises:
        InfrastructureError: it is missing, damaged, or of another job.
    """
    order, job, sha256 = read_order(folder)
    return Ordered(folder=folder, order=order, job=job, sha256=sha256)


def claim(ordered: Ordered, out: Path) -> ExecSummary | None:
    """Makes `out` the folder of this order's results; what came of it, if it was finished before.

    Raises:
        UsageError: `out` belongs to another order, or is a folder that is not ours.
        InfrastructureError: it cannot be made, or its summary is damaged.
    """
    document = (ordered.folder / ORDER_FILE).read_bytes()
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
        theirs = (out / ORDER_FILE).read_bytes() if ORDER_FILE in names else b""
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--out {out} is no folder") from None
    except OSError as error:
        raise unwritable(out, error) from error
    if not names:
        write_atomically(out / ORDER_FILE, document)
    elif theirs != document:
        raise UsageError(f"--out {out} is of another job, or of something else. Use another folder")
    return read_summary(out)


def carry_out(
    ordered: Ordered,
    out: Path,
    root: Path,
    host: Host,
    choose: Callable[[str], Machine],
    clock: Clock,
    reporter: Reporter,
) -> ExecSummary:
    """Runs what has no verdict in `out` yet, and closes it with its summary.

    Why this machine cannot do it, if it cannot, becomes the `miss` of every cell.

    Args:
        ordered: see `read`.
        out: claimed for it; goes on where an earlier call was stopped.
        root: of the checkout that defines the stack.
        host: this machine.
        choose: gives the engine of a name, or raises InfrastructureError.
        clock: what the record goes by.
        reporter: is told what happens.

    Raises:
        UsageError: another process works on `out`.
        KeyboardInterrupt: stopped; the same call goes on.
        InfrastructureError: results cannot be kept.
    """
    order = ordered.order
    run = Run(out, order.run)
    with run.claimed():
        machine = _machine(ordered, root, host, choose, clock)
        with contextlib.suppress(InfrastructureError):
            sweep(machine.engine, reporter.note)
        work = Work(
            jobs=_jobs(run, ordered, host),
            place=lambda job: _place(run, job, ordered.folder),
            terms=order.cells,
            expectations=order.expected(),
            today=order.date(),
            retries=order.retries,
            harness=order.harness_sha256,
        )
        info = perform(run, work, machine, reporter).info
        shutil.rmtree(out / "jobs", ignore_errors=True)
        results, problems = run.results()
        for problem in problems:
            reporter.note(problem)
        summary = ExecSummary(
            job=order.job,
            order_sha256=ordered.sha256,
            run=order.run,
            started=info.started,
            ended=utc(clock.now()),
            seconds=round(info.seconds, 3),
            engine=info.engine,
            engine_note=info.engine_note,
            environments=info.environments,
            results=len(results),
            exit=int(exit_code(run.latest().values())),
            host=socket.gethostname(),
            version=__version__,
        )
        write_atomically(out / EXEC_FILE, records.dumps(summary, indent=1).encode() + b"\n")
    return summary


def _machine(
    ordered: Ordered, root: Path, host: Host, choose: Callable[[str], Machine], clock: Clock
) -> Machine:
    """What to run with; an engine that refuses, with the reason, where nothing can be run."""
    try:
        machine = choose(ordered.order.engine)
        _check(ordered, root, host)
        if ordered.order.image:
            engine = _Recalled(machine.engine, ordered.order)
            machine = dataclasses.replace(machine, engine=engine)
    except (InfrastructureError, DefinitionError) as error:
        return Machine(engine=_NoEngine(str(error)), note="", clock=clock)
    return machine


def _check(ordered: Ordered, root: Path, host: Host) -> None:
    order = ordered.order
    if why := order.pool.refusal(host):
        raise InfrastructureError(why)
    pins = read_pins(root)
    if not order.image and (
        order.stack not in pins.stacks
        or stack_definition(root, pins, order.stack) != order.stack_sha256
    ):
        raise InfrastructureError(
            f"the checkout in {root} defines stack {order.stack} in another way than the one that "
            "this job was planned in: bring it to the same commit"
        )
    damaged = [*jobdir.changed(ordered.folder, ordered.job.cells)]
    if jobdir.harness_sha256(ordered.folder / jobdir.HARNESS) != order.harness_sha256:
        damaged.append("the harness")
    if damaged:
        raise InfrastructureError(f"{ordered.folder}: {damaged[0]} is not what was ordered")


def _jobs(run: Run, ordered: Ordered, host: Host) -> tuple[Job, ...]:
    """The job, less the cells that have their last attempt behind them."""
    latest, job = run.latest(), ordered.job

    def waits(cell: Cell) -> bool:
        result = latest.get(cell.id)
        return result is None or (
            result.status == "miss" and result.attempt <= ordered.order.retries
        )

    cells = tuple(filter(waits, job.cells))
    if not cells:
        return ()
    workers = ordered.order.workers or default_workers(host)
    workers = 1 if job.device else max(1, min(workers, len(cells)))
    return (dataclasses.replace(job, cells=cells, workers=workers),)


def _place(run: Run, job: Job, source: Path) -> tuple[Job, Path]:
    """The files come from the job's own folder, each checked against its digest."""
    folder = run.job_folder(job.id)
    files = jobdir.files_of(source, job.cells)
    return jobdir.write(folder, job, files, source / jobdir.HARNESS), folder


class _Recalled:
    """An engine, with an environment of an earlier job. See `engines.base.Engine`."""

    def __init__(self, engine: Engine, order: JobOrder) -> None:
        """Raises InfrastructureError: the environment is not there any more."""
        found = engine.recall(order.stack, order.image)
        if found is None:
            raise InfrastructureError(
                f"{order.image:.19}, which stack {order.stack} was green in, is gone from this "
                "machine, and its definition from this checkout"
            )
        self._engine = engine
        self._found = found
        self.name = engine.name

    def probe(self) -> Availability:
        return self._engine.probe()

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:  # noqa: ARG002
        return self._found

    def recall(self, stack: str, digest: str) -> Environment | None:
        return self._engine.recall(stack, digest)

    def start(self, job: Job, job_dir: Path, environment: Environment) -> Session:
        return self._engine.start(job, job_dir, environment)

    def sweep(self) -> tuple[str, ...]:
        return self._engine.sweep()


class _NoEngine:
    """Stands for an engine where there is none to be had. See `engines.base.Engine`."""

    name = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    def probe(self) -> Availability:
        return Availability(usable=False, reason=self._why)

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:  # noqa: ARG002
        raise InfrastructureError(self._why)

    def recall(self, stack: str, digest: str) -> Environment | None:  # noqa: ARG002
        return None

    def start(self, job: Job, job_dir: Path, environment: Environment) -> Session:  # noqa: ARG002
        raise InfrastructureError(self._why)

    def sweep(self) -> tuple[str, ...]:
        return ()
