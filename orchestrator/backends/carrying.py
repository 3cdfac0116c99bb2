"""One job, from a submission to the record, whatever happens on the way.

Everything is told to the journal before it is done, and can be done again.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.backends import deriving, executing, intake, parcel, signing
from orchestrator.backends.base import Backend, Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.clock import Clock
from orchestrator.backends.executing import Ordered
from orchestrator.backends.fleetwork import Fleetwork
from orchestrator.backends.journal import JOURNAL, Entry, Event, JobState, Journal
from orchestrator.backends.recorder import Reporter
from orchestrator.backends.signing import UNSIGNED, Signing
from orchestrator.backends.underway import Underway
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, utc
from orchestrator.text import one_line, plural

WORK = "parcels"
"""Folder of a run for what is on its way; gone when nothing is."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often to ask, and how long to wait, in seconds."""

    first_s: float = 1.0
    most_s: float = 15.0
    """Between two looks when nothing changes; the pause doubles up to it."""
    unclaimed_s: float = 6 * 3600.0
    """For a machine to take a job, or for an agent to be there that may."""
    untaken_s: float = 1800.0
    """For an agent to take what it was given, where it cannot be told whether it is there."""
    aside_s: float = 900.0
    """For a health job that has begun, when nothing else is left to do."""


class Carrier:
    """Carries the jobs of one run; `dispatch.Dispatcher` says which, when and to whom."""

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
        fleet: Fleetwork | None = None,
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
            fleet: decides which registered agent gets which job; None: the backend does.

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
        self._fleet = fleet
        self._journal = Journal(run.folder / JOURNAL)
        self._open: dict[str, Underway] = {}
        self._priorities: Mapping[str, int] = {}
        self._away: dict[str, float] = {}
        """Agents, and until when they are taken to be gone."""
        self._quiet: float | None = None
        """Since when there are health jobs alone."""
        self._looked = -1
        """How many jobs were over when control runs were thought of last."""
        self.results: dict[str, Result] = {}
        """The last attempt of each cell that came in."""

    def _take_up(self, state: JobState) -> Underway:
        ordered = self._read(state.job)
        tiers = {terms.tier for terms in ordered.order.cells.values()}
        job = Underway(
            ordered=ordered,
            target=deriving.aside(self._run, state.job) if state.aside else self._run,
            priority=max((self._priorities.get(tier, 0) for tier in tiers), default=0),
            state=state,
            since=self._clock.monotonic(),
        )
        self._open[state.job] = job
        # what an earlier dispatcher had begun to record, or to take back, is finished first
        for entry in state.lost.values():
            self._lose(job, entry)
        if state.withdrawn and not state.ticket:
            self._backend.cancel(state.withdrawn[-1], "it was taken back")
        if not state.ticket:
            self._queue(job)
        elif job.agent and not job.spent(self._retries) and state.missed_by_the_last():
            self._withdraw(job, "its machine was lost")
        return job

    def _queue(self, job: Underway) -> None:
        """Lets a job wait for an agent, or for any machine where there are none."""
        job.waits = self._fleet is not None and self._fleet.serves(job.ordered)
        job.since = self._clock.monotonic()
        if not job.waits:
            self._submit(job)

    def _submit(self, job: Underway, agent: str = "") -> None:
        state, key = job.state, _key(job.state.job, job.state.submissions)
        archive = self._run.folder / WORK / f"{state.job}{parcel.SUFFIX}"
        only: tuple[str, ...] | None = (agent,) if agent else None
        now = self._clock.now()
        warrants = self._signing.warrants(job.target, job.ordered, key, now, only)
        if warrants and not self._signing.unsigned:
            # nobody else's results would be taken; a dispatcher that was killed here may have
            # chosen somebody else, who has it already
            only = tuple(warrants)
            agent = only[0] if agent else ""
        ticket = self._backend.submit(
            Parcel(
                key=key,
                job=state.job,
                pool=job.ordered.job.pool,
                archive=archive,
                sha256=parcel.pack(job.folder, archive, more=signing.files(warrants)),
                priority=job.priority,
                avoid=tuple(dict.fromkeys(state.tried)),
                agents=only,
            )
        )
        self._tell("submitted", state.job, ticket=ticket, machine=agent)
        if not (agent and state.withdrawn):
            job.since = self._clock.monotonic()
        job.waits = job.taken = False
        job.said = ""

    def _withdraw(self, job: Underway, why: str) -> None:
        """Takes a submission back: what a machine makes of it from now on counts for nothing."""
        ticket = job.state.ticket
        self._tell("withdrawn", job.state.job, ticket=ticket)
        self._backend.cancel(ticket, why)
        job.waits = True

    def _look(self, job: Underway, sight: Sight) -> bool:
        state, changed = job.state, False
        for go in sight.goes:
            job.taken = True
            if go.id not in state.claimed:
                changed = True
                job.since = self._clock.monotonic()
                machine = job.agent or go.machine
                self._tell("claimed", state.job, attempt=go.id, machine=machine)
                for cell in () if state.aside else job.ordered.order.cells:
                    self._reporter.began(cell, f"with {machine}")
            if go.lost and not go.cancelled and go.id not in state.lost:
                changed = True
                self._lost(job, go, go.why or f"{go.machine} was lost")
        last = sight.goes[-1] if sight.goes else None
        if sight.ended and (sight.cancelled or (last is not None and last.cancelled)):
            self._cancelled(job)
        elif job.spent(self._retries):
            self._backend.cancel(state.ticket, "given up: nothing came of it too often")
            self._close(job, "abandoned")
        elif sight.ended:
            self._ended(job, sight)
        elif job.agent and last is not None and last.id in state.lost:
            # the backend would wait for the same machine
            self._withdraw(job, "its machine was lost")
        elif not any(not go.ended for go in sight.goes) and self._overdue(job):
            self._unclaimed(job, f"within {self._pace.unclaimed_s / 3600:g} h")
        else:
            return changed
        return True

    def _overdue(self, job: Underway) -> bool:
        return self._clock.monotonic() > job.since + self._pace.unclaimed_s

    def _ended(self, job: Underway, sight: Sight) -> None:
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
        if job.spent(self._retries):
            self._close(job, "abandoned")
        else:
            self._queue(job)

    def _collect(self, job: Underway, go: Go) -> str:
        """Takes in what a go left; why it could not be, empty when it was."""
        state, work = job.state, self._run.folder / WORK
        archive, folder = work / f"{state.job}.back{parcel.SUFFIX}", work / f"{state.job}.back"
        entry = state.collecting.get(go.id)
        # what a dispatcher that was killed had begun to take is taken
        barred = () if entry else self._barred(job)
        if entry is None:
            numbers = self._numbers(job)
            entry = self._tell(
                "collecting", state.job, attempt=go.id, machine=job.agent, numbers=numbers
            )
        shutil.rmtree(folder, ignore_errors=True)
        try:
            self._backend.collect(state.ticket, state.job, go.id, archive)
            taken = self._signing.take(
                job.target,
                job.ordered,
                archive,
                folder,
                key=_key(state.job, state.submissions - 1),
                machine=go.machine,
                numbers=entry.numbers,
                now=self._clock.now(),
                quarantined=barred,
            )
        except (NothingLeftError, parcel.ParcelError, intake.IntakeError) as error:
            return f"{go.machine}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                archive.unlink()
        for note in taken.notes:
            self._reporter.note(f"{go.machine}: {note}")
        if taken.info is not None and self._heard is not None and not state.aside:
            self._heard(taken.info)
        self._settle(job, go, taken.results)
        return ""

    def _barred(self, job: Underway) -> Collection[str]:
        """Agents that were quarantined after they were given this job; a health job ends that."""
        if self._fleet is None or job.state.aside == "health":
            return ()
        return self._fleet.quarantined()

    def _settle(self, job: Underway, go: Go, results: Sequence[Result]) -> None:
        """What follows from results that are in the record: for their machine, and for misses."""
        last = {result.cell: result for result in results}
        missed = {cell: result for cell, result in last.items() if result.status == "miss"}
        if self._fleet is None or not job.agent:
            self._report(results)
            return
        self._fleet.ended(job, job.agent, go.id, [*last.values()], self._clock.now())
        if job.state.aside:
            return
        again = bool(missed) and len(job.state.tried) < self._retries
        self._report(results, pending=missed if again else ())
        if again:
            self._again(job, missed)

    def _again(self, job: Underway, missed: Mapping[str, Result]) -> None:
        """Plans what was missed once more, as a job of its own; once."""
        state = job.state
        if any(each.planned and each.planned.of == state.job for each in self._jobs()):
            return
        folder = self._run.folder / "jobs" / f"{state.job}.again"
        cells = [cell for cell in job.ordered.job.cells if cell.id in missed]
        deriving.derive(job.ordered, folder, cells)
        first = next(iter(missed.values()))
        tried = (*state.tried, job.agent)
        self._tell("planned", folder.name, of=state.job, tried=tried, message=first.message)
        self._reporter.note(
            f"job {state.job}: {plural(len(cells), 'cell')} missed on {job.agent}, tried again: "
            f"{one_line(first.message, 160)}"
        )
        self._take_up(self._journal.jobs[folder.name])

    def _lost(self, job: Underway, go: Go, why: str, *, machine: str | None = None) -> None:
        """`machine`: whom it is told of; None: whose go it was."""
        if machine is None:
            machine = job.agent if job.agent and go.machine != "nobody" else go.machine
        entry = self._tell(
            "lost",
            job.state.job,
            ticket=job.state.ticket,
            attempt=go.id,
            machine=machine,
            message=why,
            numbers=self._numbers(job),
        )
        self._lose(job, entry)
        left = "it was tried often enough"
        if not job.spent(self._retries):
            left = "it is tried again"
        self._reporter.note(f"job {job.state.job}: {why}; {left}")

    def _lose(self, job: Underway, entry: Entry) -> None:
        misses = intake.lose(
            job.target, job.ordered, entry.numbers, entry.message, self._clock.now()
        )
        if not job.state.aside:
            self.results.update({result.cell: result for result in misses})
        if self._fleet is not None:
            at = dt.datetime.fromisoformat(entry.at)
            self._fleet.ended(job, entry.machine, entry.attempt, misses, at)

    def _cancelled(self, job: Underway) -> None:
        """Somebody wants it not to run: that is no machine's fault, and it is not tried again."""
        attempt = f"{job.state.ticket}.cancelled"
        if attempt not in job.state.lost:
            why = f"somebody cancelled it at {self._backend.where}"
            self._lost(job, Go(id=attempt, machine="nobody", ended=True), why, machine="nobody")
        self._close(job, "abandoned")

    def _unclaimed(self, job: Underway, why: str) -> None:
        """Nobody took it: its cells are missed, and it is over."""
        if not job.state.aside:
            go = Go(id=f"{job.state.ticket or job.state.job}.none", machine="nobody", ended=True)
            told = f"no machine of pool {job.ordered.job.pool} took the job {why}"
            self._lost(job, go, told)
        self._give_up(job, why)

    def _give_up(self, job: Underway, why: str) -> None:
        if not job.waits:
            self._backend.cancel(job.state.ticket, why)
        self._close(job, "abandoned")

    def _close(self, job: Underway, event: Event) -> None:
        self._tell(event, job.state.job)
        del self._open[job.state.job]
        self._backend.forget(job.state.job)
        if event == "abandoned" and not job.state.aside:
            given_up = [self.results[c] for c in job.ordered.order.cells if c in self.results]
            self._report(given_up)

    def _report(self, results: Sequence[Result], pending: Collection[str] = ()) -> None:
        """`pending`: cells that are tried again."""
        last = {result.cell: result for result in results}
        for cell, result in last.items():
            known = self.results.get(cell)
            if known is None or known.attempt <= result.attempt:
                self.results[cell] = result
        for result in results:
            final = result is last[result.cell] and result.cell not in pending
            self._reporter.finished(result, final=final)

    def _numbers(self, job: Underway) -> dict[str, int]:
        behind = job.target.attempts()
        return {cell: behind[cell] for cell in job.ordered.order.cells if cell in behind}

    def _read(self, job: str) -> Ordered:
        return executing.read(self._run.folder / "jobs" / job)

    def _jobs(self) -> Iterable[JobState]:
        return self._journal.jobs.values()

    def _tell(self, event: Event, job: str, **told: Any) -> Entry:
        entry = Entry(event=event, job=job, at=utc(self._clock.now()), **told)
        self._journal.add(entry)
        return entry


def _key(job: str, number: int) -> str:
    """What the backend knows a submission by; `number` counts a job's from 0."""
    return job if not number else f"{job}~{number}"
