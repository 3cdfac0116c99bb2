"""Keeping an eye on one job from outside, whatever its harness believes. Pure: the clock is given.

The harness enforces each cell's deadline. This is for the harness itself: it may hang, be killed,
or fall silent, and a cell may take its whole container along.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.engines.base import Exit
from orchestrator.job import (
    Alive,
    Artifact,
    Broken,
    Cell,
    Done,
    Event,
    Hello,
    Job,
    Outcome,
    StageBegan,
    Started,
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long to wait for what, in seconds."""

    start_s: float = 180.0
    """From a job's start to its first event: a first import from a cold disk is slow."""
    silence_s: float = 60.0
    """Between two events; a heartbeat comes every few seconds."""
    grace_s: float = 15.0
    """Beyond a cell's deadline, for the harness to report it."""
    drain_s: float = 30.0
    """After a kill, for the last events to arrive."""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a job has to be killed, and whose attempt is spoilt by it."""

    message: str
    cells: tuple[str, ...]


@dataclass(kw_only=True)
class _Running:
    since: float
    stage: str = ""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What became of the cells that reported nothing when their job had ended."""

    missed: dict[str, Outcome]
    """Their attempt counts."""
    suspects: frozenset[str]
    """Cells of which one may have been the cause: those of `missed` that ran at that moment, and
    those that the job was given up for."""
    untouched: tuple[str, ...]
    """Their attempt does not count: we killed the job because of others."""


class Watch:
    """The state of one job, as its events tell it."""

    def __init__(self, job: Job, limits: Limits, now: float) -> None:
        """Starts to count at `now`, in seconds of any monotonic clock."""
        self._limits = limits
        self._cells = {cell.id: cell for cell in job.cells}
        self._pending = dict(self._cells)
        self._running: dict[str, _Running] = {}
        self._heard: float | None = None
        self._start = now
        self.hello: Hello | None = None
        self.broken: str | None = None
        self._trouble: Trouble | None = None
        self._doubted: set[str] = set()

    @property
    def pending(self) -> tuple[Cell, ...]:
        """The cells that have not ended."""
        return tuple(self._pending.values())

    def since(self, cell: str, default: float) -> float:
        """When a cell began; `default` when it never did."""
        running = self._running.get(cell)
        return default if running is None else running.since

    def feed(self, event: Event, now: float) -> bool:
        """Takes an event; False when it makes no sense for this job and should be ignored."""
        self._heard = now
        match event:
            case Hello():
                self.hello = event
            case Broken(message=message):
                self.broken = message
            case Started(cell=cell) if cell in self._pending:
                self._running[cell] = _Running(since=now)
            case StageBegan(cell=cell, stage=stage) if cell in self._running:
                self._running[cell].stage = stage
            case Done(cell=cell) if cell in self._pending:
                del self._pending[cell]
            case Artifact(cell=cell) if cell in self._pending:
                pass
            case Alive():
                pass
            case _:
                return False
        return True

    def excuse(self, seconds: float) -> None:
        """So much time went by in which nobody could look: it counts against nobody."""
        self._start += seconds
        if self._heard is not None:
            self._heard += seconds
        for running in self._running.values():
            running.since += seconds

    def trouble(self, now: float) -> Trouble | None:
        """Why the job should be killed now; remembers the first reason."""
        if self._trouble is None:
            self._trouble = self._overdue(now) or self._silent(now)
        return self._trouble

    def blame(self, message: str) -> None:
        """Something outside has spoilt the cells that run, or, when none does, all the others."""
        if self._trouble is None and self._pending:
            self._trouble = Trouble(message=message, cells=self._at_work())

    def give_up(self, cell: str) -> None:
        """A cell that has ended may have spoilt the ground for the others: they go elsewhere."""
        self._doubted.add(cell)
        if self._trouble is None and self._pending:
            self._trouble = Trouble(message=f"given up because of {cell}", cells=())

    def ending(self, exit_: Exit) -> Ending:
        """What to make of the cells that have not ended, now that the job has."""
        running = frozenset(self._running) & frozenset(self._pending)
        if self.broken is not None:
            missed = {c: _miss("build", self.broken, exit_) for c in self._pending}
            return Ending(missed=missed, suspects=frozenset(), untouched=())
        if self._trouble is not None:
            missed = {
                c: _miss(self._stage(c), self._trouble.message, exit_)
                for c in self._trouble.cells
                if c in self._pending
            }
            rest = tuple(c for c in self._pending if c not in missed)
            suspects = (running & frozenset(missed)) | self._doubted
            return Ending(missed=missed, suspects=suspects, untouched=rest)
        missed = {c: self._lost(c, exit_, sorted(running)) for c in self._pending}
        return Ending(missed=missed, suspects=running | self._doubted, untouched=())

    def _at_work(self) -> tuple[str, ...]:
        """The cells that run; when none does, all that have not ended."""
        running = tuple(cell for cell in self._running if cell in self._pending)
        return running or tuple(self._pending)

    def _overdue(self, now: float) -> Trouble | None:
        late = {
            cell: running
            for cell, running in self._running.items()
            if cell in self._pending
            and now > running.since + self._cells[cell].timeout_s + self._limits.grace_s
        }
        if not late:
            return None
        return Trouble(
            message="the harness stopped answering: nothing about this cell "
            f"{self._limits.grace_s:g} s after its deadline of "
            f"{self._cells[next(iter(late))].timeout_s:g} s",
            cells=tuple(late),
        )

    def _silent(self, now: float) -> Trouble | None:
        if self._heard is None:
            if now <= self._start + self._limits.start_s:
                return None
            text = f"the harness did not answer within {self._limits.start_s:g} s of its start"
            return Trouble(message=text, cells=tuple(self._pending))
        if now <= self._heard + self._limits.silence_s:
            return None
        text = f"the harness stopped answering: not a word for {self._limits.silence_s:g} s"
        return Trouble(message=text, cells=self._at_work())

    def _stage(self, cell: str) -> str:
        running = self._running.get(cell)
        return (running.stage if running else "") or "build"

    def _lost(self, cell: str, exit_: Exit, running: list[str]) -> Outcome:
        if cell in self._running:
            text = f"the job ended under this cell: {exit_.reason}"
        elif running:
            names = ", ".join(running[:3])
            text = f"never started: the job ended while {names} ran: {exit_.reason}"
        else:
            text = f"never started: the job ended: {exit_.reason}"
        return _miss(self._stage(cell), text, exit_)


def _miss(phase: str, message: str, exit_: Exit) -> Outcome:
    return Outcome(
        status="miss", phase=phase, message=message, last_words=exit_.stderr_tail[-4096:]
    )
