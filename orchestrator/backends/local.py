"""Jobs one after the other, in this process, in an engine of this machine: a `Runner`.

A `miss` is nobody's fault, so it is tried again in a new job, at most `retries` times. Every
attempt is reported. Cells that ran when their job died are tried again apart from the others:
whatever took the job down does so without company.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from orchestrator.backends.base import Attempt, Observer
from orchestrator.backends.clock import Clock
from orchestrator.backends.device import DeviceWatch
from orchestrator.backends.follow import Ended, Follower
from orchestrator.backends.gpu_lock import turn
from orchestrator.backends.recovery import Monitors, Recovery
from orchestrator.backends.watch import Ending, Limits
from orchestrator.engines.base import Engine, Environment, Session
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.health.evidence import Vendor
from orchestrator.health.facts import facts
from orchestrator.health.monitor import Monitor, open_monitor
from orchestrator.host import Gpu
from orchestrator.job import Artifact, Cell, Hello, Job, Outcome

Placer = Callable[[Job], tuple[Job, Path]]
"""Writes a job's folder; returns it, and the job as written."""


class Tally:
    """Which attempt of which cell comes next, and whether another may follow."""

    def __init__(self, before: Mapping[str, int], retries: int) -> None:
        """Takes the attempts that each cell has behind it, and how often a `miss` is retried."""
        self._before = before
        self._retries = retries
        self._tried: collections.Counter[str] = collections.Counter()

    def number(self, cell: str) -> int:
        """The attempt that is under way, or comes next; from 1."""
        return self._before.get(cell, 0) + self._tried[cell] + 1

    def may_retry(self, cell: str) -> bool:
        """Whether the attempt under way may be followed by another."""
        return self._tried[cell] < self._retries

    def close(self, cell: str) -> None:
        """The attempt under way has ended."""
        self._tried[cell] += 1


class LocalRunner:
    """Runs jobs in an engine of this machine."""

    name = "local"

    def __init__(
        self,
        engine: Engine,
        place: Placer,
        *,
        retries: int = 2,
        attempts: Mapping[str, int] | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        gpus: Sequence[Gpu] = (),
        monitors: Monitors | None = None,
        locks: Path | None = None,
    ) -> None:
        """Takes an engine, and what writes job folders; `attempts` lie behind in a resumed run.

        `gpus` are this machine's; `monitors` opens what watches them; in `locks` are the locks that
        everybody on this machine takes for them, None: nobody else uses them.
        """
        self._engine = engine
        self._place = place
        self._tally = Tally(attempts or {}, retries)
        self._limits = limits or Limits()
        self._clock = clock or Clock()
        self._gpus = gpus
        self._monitors = monitors or self._open_monitor
        self._locks = locks
        self._stale: set[str] = set()
        """Stacks whose environment may be gone: nothing could be started in it."""

    def execute(self, jobs: Sequence[Job], observer: Observer) -> None:
        """See `Runner.execute`. KeyboardInterrupt passes through; nothing is left running."""
        environments = {
            stack: self._prepare(stack, jobs, observer)
            for stack in dict.fromkeys(job.stack for job in jobs)
        }
        recovery = Recovery(self._monitors, self._clock, observer.note)
        numbers = itertools.count(1)
        queue = collections.deque((job, job.id) for job in jobs)
        while queue and not observer.enough():
            job, first_id = queue.popleft()
            if job.stack in self._stale:
                waiting = [job, *(other for other, _ in queue)]
                environments[job.stack] = self._prepare(job.stack, waiting, observer)
            if (environment := environments[job.stack]) is None:
                continue
            if job.device and (why := recovery.refusal(job.device)):
                self._refuse(job, environment, observer, why)
                continue
            for cells in filter(None, self._run(job, environment, observer, recovery)):
                # a new job, so that its folder and its container have names of their own
                again = dataclasses.replace(job, id=f"{first_id}.r{next(numbers)}", cells=cells)
                queue.append((again, first_id))

    def _prepare(self, stack: str, jobs: Sequence[Job], observer: Observer) -> Environment | None:
        """None: every cell of the stack was told why. Engines try again by themselves."""
        self._stale.discard(stack)
        observer.preparing(stack)
        began, started = self._clock.monotonic(), self._clock.now()
        try:
            environment = self._engine.prepare(stack, observer.progress)
        except DefinitionError as error:
            outcome = Outcome(status="error", phase="build", message=str(error))
        except InfrastructureError as error:
            outcome = Outcome(status="miss", phase="build", message=str(error))
        else:
            observer.prepared(environment, self._clock.monotonic() - began)
            return environment
        seconds = self._clock.monotonic() - began
        for job in (job for job in jobs if job.stack == stack):
            listener = self._listener(job, None, observer)
            listener.report_all(outcome, started=started, seconds=seconds, retry=False)
        return None

    def _refuse(self, job: Job, environment: Environment, observer: Observer, why: str) -> None:
        """Ends every cell of a job that has no device to run on."""
        outcome = Outcome(status="miss", phase="build", message=f"never started: {why}")
        listener = self._listener(job, environment, observer)
        listener.report_all(outcome, started=self._clock.now(), retry=False)

    def _listener(
        self, job: Job, environment: Environment | None, observer: Observer
    ) -> _JobListener:
        gpu = facts(self._gpus, job.device)
        return _JobListener(job, environment, self._tally, observer, gpu)

    def _open_monitor(self, vendor: Vendor) -> Monitor:
        return open_monitor(vendor, self._clock.monotonic)

    def _gpu_is_ours(self, job: Job, stack: contextlib.ExitStack, observer: Observer) -> bool:
        """Waits until no other process uses the GPU; False: enough.

        Raises:
            InfrastructureError: whoever has it hangs, or it cannot be locked.
        """
        if not job.device or self._locks is None:
            return True
        ours = stack.enter_context(
            turn(
                self._locks,
                job.id,
                job.device,
                limit_s=sum(cell.timeout_s for cell in job.cells),
                clock=self._clock,
                note=observer.note,
                enough=observer.enough,
            )
        )
        if ours.after_death:
            with contextlib.suppress(InfrastructureError):
                for what in self._engine.sweep():
                    observer.note(f"left on the GPU by one who died, now removed: {what}")
        return ours.ours

    def _watch_device(
        self, job: Job, stack: contextlib.ExitStack, observer: Observer
    ) -> DeviceWatch | None:
        if not job.device:
            return None
        device = DeviceWatch(self._monitors(job.device), self._clock, observer.note)
        stack.callback(device.close)
        return device

    def _run(
        self, job: Job, environment: Environment, observer: Observer, recovery: Recovery
    ) -> tuple[tuple[Cell, ...], ...]:
        """Runs one job; the groups of cells that should follow as jobs of their own."""
        job, folder = self._place(job)
        listener = self._listener(job, environment, observer)
        started = self._clock.now()
        with contextlib.ExitStack() as stack:
            try:
                if not self._gpu_is_ours(job, stack, observer):
                    return ()
            except InfrastructureError as error:
                self._refuse(job, environment, observer, str(error))
                return ()
            device = self._watch_device(job, stack, observer)
            try:
                session = stack.enter_context(self._engine.start(job, folder, environment))
            except InfrastructureError as error:
                self._stale.add(job.stack)
                listener.report_all(
                    Outcome(status="miss", phase="build", message=str(error)), started=started
                )
                return (tuple(c for c in job.cells if c.id in listener.retry),)
            listener.session = session
            follower = Follower(job, session, listener, self._limits, self._clock, device)
            ending = follower.follow()
            if job.device and device is not None:
                recovery.report(job.device, device.fault, device.doubt)
        return () if observer.enough() else _regroup(job, listener.retry, ending)


def _regroup(job: Job, retry: set[str], ending: Ending) -> tuple[tuple[Cell, ...], ...]:
    """Cells to run (again): all harmless ones together, each suspect by itself."""
    again = [c for c in job.cells if c.id in retry or c.id in ending.untouched]
    harmless = tuple(c for c in again if c.id not in ending.suspects)
    return (harmless, *((c,) for c in again if c.id in ending.suspects))


class _JobListener:
    """Turns what happens in one job into attempts."""

    def __init__(
        self,
        job: Job,
        environment: Environment | None,
        tally: Tally,
        observer: Observer,
        gpu: Mapping[str, str],
    ) -> None:
        self._job = job
        self._gpu = gpu
        self._cells = {cell.id: cell for cell in job.cells}
        self._environment = environment
        self._tally = tally
        self._observer = observer
        self._hello: Hello | None = None
        self.session: Session | None = None
        self.retry: set[str] = set()
        """Cells whose attempt was a `miss` that may be tried again."""

    def ready(self, hello: Hello, start_seconds: float) -> None:
        self._hello = hello
        self._observer.ready(self._job, hello, start_seconds)

    def began(self, cell: str, stage: str) -> None:
        self._observer.began(cell, stage, self._tally.number(cell))

    def artifact(self, event: Artifact) -> None:
        self._observer.artifact(event, self._tally.number(event.cell))

    def ended(self, ended: Ended) -> None:
        self.report(ended)

    def note(self, line: str) -> None:
        self._observer.note(line)

    def enough(self) -> bool:
        return self._observer.enough()

    def report_all(
        self, outcome: Outcome, *, started: dt.datetime, seconds: float = 0.0, retry: bool = True
    ) -> None:
        """Hands on the same outcome for every cell of the job."""
        for cell in self._cells:
            self.report(
                Ended(cell=cell, outcome=outcome, started=started, seconds=seconds), retry=retry
            )

    def report(self, ended: Ended, *, retry: bool = True) -> None:
        """Hands on one attempt."""
        again = ended.outcome.status == "miss" and retry and self._tally.may_retry(ended.cell)
        if again:
            self.retry.add(ended.cell)
        attempt = Attempt(
            cell=self._cells[ended.cell],
            stack=self._job.stack,
            number=self._tally.number(ended.cell),
            final=not again,
            outcome=ended.outcome,
            started=ended.started,
            seconds=ended.seconds,
            environment=self._environment,
            hello=self._hello,
            isolation=self.session.isolation if self.session else None,
            argv=self.session.argv if self.session else (),
            gpu=self._gpu,
            evidence=ended.evidence,
        )
        self._tally.close(ended.cell)
        self._observer.attempted(attempt)
