"""Jobs, on this machine, into a record: what `run` and `exec` do alike."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator import __version__
from orchestrator.backends.clock import Clock
from orchestrator.backends.local import LocalRunner, Placer
from orchestrator.backends.recorder import Recorder, Reporter
from orchestrator.backends.recovery import Monitors
from orchestrator.backends.signals import stopping
from orchestrator.backends.watch import Limits
from orchestrator.config.models import Expectation
from orchestrator.engines.base import Engine
from orchestrator.host import Gpu, Host
from orchestrator.job import Job
from orchestrator.order import CellTerms
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, utc

_GIB = 1 << 30
_CELL_GIB = 3
"""Memory to count on for each cell that runs at the same time."""
_MAX_WORKERS = 16


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What jobs are run with."""

    engine: Engine
    note: str
    """One line about the choice of the engine."""
    gpus: Sequence[Gpu] = ()
    monitors: Monitors | None = None
    """Opens what watches GPUs; None: what watches this machine's."""
    locks: Path | None = None
    """Where this machine's GPUs are locked; None: nobody else uses them."""
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Which jobs, and how what they come to is judged."""

    jobs: Sequence[Job]
    place: Placer
    terms: Mapping[str, CellTerms]
    """Of every cell."""
    expectations: Sequence[Expectation]
    today: dt.date
    retries: int = 2
    fail_fast: bool = False
    harness: str | None = None
    """Digest of the one that the jobs bring; None: it is this package's."""


@dataclass(frozen=True, kw_only=True)
class Performed:
    """What that came to."""

    info: RunInfo
    results: Mapping[str, Result]
    """The last attempt of each cell."""
    wall: float
    """Seconds."""


def default_workers(host: Host) -> int:
    """Cells at the same time: one for each core, as far as memory goes."""
    by_memory = host.memory_bytes // (_CELL_GIB * _GIB) if host.memory_bytes else host.cpus
    return max(1, min(host.cpus, by_memory, _MAX_WORKERS))


def sweep(engine: Engine, note: Callable[[str], None]) -> None:
    """Removes what dead orchestrators left; a start is the time to do so."""
    for what in engine.sweep():
        note(f"left behind by an earlier run, now removed: {what}")


def perform(run: Run, work: Work, machine: Machine, reporter: Reporter) -> Performed:
    """Runs all jobs and writes every attempt into `run`, which is claimed by this process.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM; nothing is left running, what finished is kept.
        InfrastructureError: results cannot be kept.
        DefinitionError: a file that a job names is no longer what it was.
    """
    clock = machine.clock
    started = clock.monotonic()
    recorder = Recorder(
        run,
        _info(run, machine),
        work.terms,
        expectations=work.expectations,
        today=work.today,
        reporter=reporter,
        fail_fast=work.fail_fast,
        harness=work.harness,
    )
    run.write_info(recorder.info)
    runner = LocalRunner(
        machine.engine,
        work.place,
        retries=work.retries,
        attempts=run.attempts(),
        limits=machine.limits,
        clock=clock,
        gpus=machine.gpus,
        monitors=machine.monitors,
        locks=machine.locks,
    )
    try:
        with stopping(reporter.note):
            runner.execute(work.jobs, recorder)
    except KeyboardInterrupt:
        _close(run, recorder.info, clock.monotonic() - started, ended=None)
        raise
    wall = clock.monotonic() - started
    ended = None if recorder.enough() else utc(clock.now())
    info = _close(run, recorder.info, wall, ended=ended)
    return Performed(info=info, results=recorder.results, wall=wall)


def _close(run: Run, info: RunInfo, wall: float, *, ended: str | None) -> RunInfo:
    """Adds what this part of the run took."""
    info = dataclasses.replace(info, seconds=info.seconds + wall, ended=ended)
    run.write_info(info)
    return info


def _info(run: Run, machine: Machine) -> RunInfo:
    """Of a new run, or of one that goes on: times add up."""
    engine, note = machine.engine.name, machine.note
    if (known := run.info_so_far()) is not None:
        return dataclasses.replace(known, ended=None, engine=engine, engine_note=note)
    return RunInfo(
        run=run.name,
        started=utc(machine.clock.now()),
        engine=engine,
        engine_note=note,
        version=__version__,
    )
