"""Jobs to machines elsewhere and their results back, whatever happens on the way.

Everything is told to the journal before it is done, and can be done again: a dispatcher that is
killed at any moment loses nothing, and nothing runs twice into the record.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends import executing, intake, parcel, signing
from orchestrator.backends.base import Backend, Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.clock import Clock
from orchestrator.backends.executing import Ordered
from orchestrator.backends.journal import Entry, Event, JobState, Journal
from orchestrator.backends.recorder import Reporter
from orchestrator.backends.signing import UNSIGNED, Signing
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, utc

JOURNAL = "journal.jsonl"
_WORK = "parcels"
"""Folder of a run for what is on its way; gone when nothing is."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often to ask, and how long to wait, in seconds."""

    first_s: float = 1.0
    most_s: float = 15.0
    """Between two looks when nothing changes; the pause doubles up to it."""
    unclaimed_s: float = 6 * 3600.0
    """For a machine to take a job."""


@dataclass(kw_only=True)
class _Job:
    """A job that is under way."""

    ordered: Ordered
    folder: Path
    priority: int
    state: JobState
    since: float
    """When it was submitted, or a machine was last seen at it."""


class Dispatcher:
    """One run's jobs, under way."""

    def __init__(
        self,
        run: Run,
        backend: Backend,
        reporter: Reporter,
        *,
        retries: int,
        clock: Clock,
        pace: Pace | None = None,
        enough: Callable[[Mapping[str, Result]], bool] | None = None,
        heard: Callable[[RunInfo], None] | None = None,
        signing: Signing = UNSIGNED,
    ) -> None:
        """Reads the run's journal; `run` is claimed by this process.

        Args:
            run: where everything goes.
            backend: the machines.
            reporter: is told what happens.
            retries: how often a job of which nothing came is given to a machine again.
            clock: what waiting goes by.
            pace: see there.
            enough: whether to stop, from the last result of each cell so far; None: never.
            heard: is told what machines say of their environments.
            signing: signs what is handed out, and checks what comes back.

        Raises:
            InfrastructureError: the journal is damaged.
        """
        self._run = run
        self._backend = backend
        self._reporter = reporter
        self._retries = retries
        self._clock = clock
        self._pace = pace or Pace()
        self._enough = enough
        self._heard = heard
        self._signing = signing
        self._journal = Journal(run.folder / JOURNAL)
        self._open: dict[str, _Job] = {}
        self.results: dict[str, Result] = {}
        """The last attempt of each cell that came in."""

    def open_cells(self) -> frozenset[str]:
        """Cells of jobs that an earlier dispatcher left under way."""
        return frozenset(
            cell.id
            for state in self._journal.open_jobs()
            for cell in self._read(state.job).job.cells
        )

    def plan(self, job: str) -> None:
        """Takes on a job whose folder is in the run's `jobs`."""
        self._tell("planned", job)

    def go(self, priorities: Mapping[str, int]) -> None:
        """Until every job is over. `priorities`: by tier; a job has that of its best cell.

        Raises:
            InfrastructureError: nobody answers, or the record cannot be written.
            UsageError: the backend refuses us.
        """
        for state in self._journal.open_jobs():
            self._take_up(state, priorities)
        pause = self._pace.first_s
        while self._open:
            changed = self._round()
            if self._enough is not None and self._enough(self.results):
                self._stop("a core cell is red, and the first one was to be the last")
                break
            pause = self._pace.first_s if changed else min(2 * pause, self._pace.most_s)
            if self._open:
                self._clock.sleep(pause)
        shutil.rmtree(self._run.folder / _WORK, ignore_errors=True)

    # --- one job ----------------------------------------------------------------------------

    def _take_up(self, state: JobState, priorities: Mapping[str, int]) -> None:
        ordered = self._read(state.job)
        tiers = {terms.tier for terms in ordered.order.cells.values()}
        job = _Job(
            ordered=ordered,
            folder=ordered.folder,
            priority=max((priorities.get(tier, 0) for tier in tiers), default=0),
            state=state,
            since=self._clock.monotonic(),
        )
        self._open[state.job] = job
        # what an earlier dispatcher had begun to record is finished first
        for entry in state.lost.values():
            self._lose(job, entry)
        if not state.ticket:
            self._submit(job)

    def _submit(self, job: _Job) -> None:
        state, key = job.state, _key(job.state.job, job.state.submissions)
        archive = self._run.folder / _WORK / f"{state.job}{parcel.SUFFIX}"
        warrants = self._signing.warrants(self._run, job.ordered, key, self._clock.now())
        ticket = self._backend.submit(
            Parcel(
                key=key,
                job=state.job,
                pool=job.ordered.job.pool,
                archive=archive,
                sha256=parcel.pack(job.folder, archive, more=signing.files(warrants)),
                priority=job.priority,
                avoid=tuple(dict.fromkeys(entry.machine for entry in state.lost.values())),
                # nobody else's results would be taken
                agents=tuple(warrants) if warrants and not self._signing.unsigned else None,
            )
        )
        self._tell("submitted", state.job, ticket=ticket)
        job.since = self._clock.monotonic()

    def _round(self) -> bool:
        """Looks at all jobs once; whether anything changed."""
        sights = self._backend.watch([job.state.ticket for job in self._open.values()])
        changed = False
        for job in list(self._open.values()):
            if (sight := sights.get(job.state.ticket)) is not None:
                changed |= self._look(job, sight)
        return changed

    def _look(self, job: _Job, sight: Sight) -> bool:
        state, changed = job.state, False
        for go in sight.goes:
            if go.id not in state.claimed:
                changed = True
                job.since = self._clock.monotonic()
                self._tell("claimed", state.job, attempt=go.id, machine=go.machine)
                for cell in job.ordered.order.cells:
                    self._reporter.began(cell, f"with {go.machine}")
            if go.lost and go.id not in state.lost:
                changed = True
                self._lost(job, go, go.why or f"{go.machine} was lost")
        if len(state.lost) > self._retries:
            self._backend.cancel(state.ticket, "given up: nothing came of it too often")
            self._close(job, "abandoned")
        elif sight.ended:
            self._ended(job, sight)
            return True
        elif self._clock.monotonic() > job.since + self._pace.unclaimed_s and not any(
            not go.ended for go in sight.goes
        ):
            self._unclaimed(job)
            return True
        return changed

    def _ended(self, job: _Job, sight: Sight) -> None:
        """No further go will follow: takes in what the last one left, or tries again."""
        state = job.state
        last = next((go for go in reversed(sight.goes) if not go.lost), None)
        if last is None:
            last = Go(id=f"{state.ticket}.none", machine="nobody", ended=True)
            why = "it was cancelled before a machine took it"
        elif last.id not in state.lost and not (why := self._collect(job, last)):
            self._close(job, "collected")
            return
        if last.id not in state.lost:
            self._lost(job, last, why)
        if len(state.lost) > self._retries:
            self._close(job, "abandoned")
        else:
            self._submit(job)

    def _collect(self, job: _Job, go: Go) -> str:
        """Takes in what a go left; why it could not be, empty when it was."""
        state, work = job.state, self._run.folder / _WORK
        archive, folder = work / f"{state.job}.back{parcel.SUFFIX}", work / f"{state.job}.back"
        entry = state.collecting.get(go.id)
        if entry is None:
            numbers = self._numbers(job)
            entry = self._tell("collecting", state.job, attempt=go.id, numbers=numbers)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self._backend.collect(state.ticket, state.job, go.id, archive)
            taken = self._signing.take(
                self._run,
                job.ordered,
                archive,
                folder,
                key=_key(state.job, state.submissions - 1),
                machine=go.machine,
                numbers=entry.numbers,
                now=self._clock.now(),
            )
        except (NothingLeftError, parcel.ParcelError, intake.IntakeError) as error:
            return f"{go.machine}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                archive.unlink()
        for note in taken.notes:
            self._reporter.note(f"{go.machine}: {note}")
        if taken.info is not None and self._heard is not None:
            self._heard(taken.info)
        self._report(taken.results)
        return ""

    def _lost(self, job: _Job, go: Go, why: str) -> None:
        numbers = self._numbers(job)
        entry = self._tell(
            "lost", job.state.job, attempt=go.id, machine=go.machine, message=why, numbers=numbers
        )
        self._lose(job, entry)
        left = self._retries + 1 - len(job.state.lost)
        self._reporter.note(
            f"job {job.state.job}: {why}; "
            + ("it is tried again" if left > 0 else "it was tried often enough")
        )

    def _lose(self, job: _Job, entry: Entry) -> None:
        misses = intake.lose(
            self._run, job.ordered, entry.numbers, entry.message, self._clock.now()
        )
        self.results.update({result.cell: result for result in misses})

    def _unclaimed(self, job: _Job) -> None:
        hours = self._pace.unclaimed_s / 3600
        why = f"no machine of pool {job.ordered.job.pool} took the job within {hours:g} h"
        self._lost(job, Go(id=f"{job.state.ticket}.none", machine="nobody", ended=True), why)
        self._backend.cancel(job.state.ticket, why)
        self._close(job, "abandoned")

    def _stop(self, why: str) -> None:
        for job in list(self._open.values()):
            self._backend.cancel(job.state.ticket, why)
            self._close(job, "abandoned")

    def _close(self, job: _Job, event: Event) -> None:
        self._tell(event, job.state.job)
        del self._open[job.state.job]
        self._backend.forget(job.state.job)
        if event == "abandoned":
            given_up = [self.results[c] for c in job.ordered.order.cells if c in self.results]
            self._report(given_up)

    # --- small things -----------------------------------------------------------------------

    def _report(self, results: Sequence[Result]) -> None:
        last = {result.cell: result for result in results}
        self.results.update(last)
        for result in results:
            self._reporter.finished(result, final=result is last[result.cell])

    def _numbers(self, job: _Job) -> dict[str, int]:
        behind = self._run.attempts()
        return {cell: behind[cell] for cell in job.ordered.order.cells if cell in behind}

    def _read(self, job: str) -> Ordered:
        return executing.read(self._run.folder / "jobs" / job)

    def _tell(
        self,
        event: Event,
        job: str,
        *,
        ticket: str = "",
        attempt: str = "",
        machine: str = "",
        message: str = "",
        numbers: Mapping[str, int] | None = None,
    ) -> Entry:
        entry = Entry(
            event=event,
            job=job,
            at=utc(self._clock.now()),
            ticket=ticket,
            attempt=attempt,
            machine=machine,
            message=message,
            numbers=numbers or {},
        )
        self._journal.add(entry)
        return entry


def _key(job: str, number: int) -> str:
    """What the backend knows a submission by; `number` counts a job's from 0."""
    return job if not number else f"{job}~{number}"
