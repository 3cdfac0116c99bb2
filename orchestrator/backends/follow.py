"""Following one job's events to their end, and ending it when it has to be ended."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from orchestrator.backends.watch import Ending, Limits, Watch
from orchestrator.engines.base import Exit, Session
from orchestrator.errors import InfrastructureError
from orchestrator.job import Artifact, Done, Event, Hello, Job, Outcome, StageBegan, Started

TICK_S = 1.0


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time, so that tests can make it pass."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds, for durations and deadlines."""
    now: Callable[[], dt.datetime] = _utc_now
    """Wall time, for records."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an attempt of a cell ended."""

    cell: str
    outcome: Outcome
    started: dt.datetime
    seconds: float


class Listener(Protocol):
    """Who is told what happens in a job."""

    def ready(self, hello: Hello, start_seconds: float) -> None:
        """The harness answered."""

    def began(self, cell: str, stage: str) -> None:
        """A cell entered a stage; empty for its very beginning."""

    def artifact(self, event: Artifact) -> None:
        """A cell leaves a file."""

    def ended(self, ended: Ended) -> None:
        """A cell ended."""

    def note(self, line: str) -> None:
        """Something odd that is nobody's result."""

    def enough(self) -> bool:
        """Whether to stop at once."""


class Follower:
    """One job in one session, which is open and stays open."""

    def __init__(
        self, job: Job, session: Session, listener: Listener, limits: Limits, clock: Clock
    ) -> None:
        """Starts to count time at once."""
        self._job = job
        self._session = session
        self._listener = listener
        self._limits = limits
        self._clock = clock
        self._start = clock.monotonic()
        self._wall_start = clock.now()
        self._wall: dict[str, dt.datetime] = {}
        self._engine_lost: str | None = None
        self._odd = 0
        self._watch = Watch(job, limits, self._start)

    def follow(self) -> Ending:
        """Until the job has ended by itself, or was killed because it had to be.

        Reports every cell whose attempt counts; returns the ending for what it says of the rest.
        """
        killed: float | None = None
        for event in self._events():
            now = self._clock.monotonic()
            if event is not None:
                self._take(event, now)
            if killed is None and (self._listener.enough() or self._watch.trouble(now)):
                self._session.kill()
                killed = now
            if killed is not None and now > killed + self._limits.drain_s:
                break
        ending = self._watch.ending(self._exit())
        if not self._listener.enough():
            for cell, outcome in ending.missed.items():
                self._ended(cell, outcome)
        return ending

    def _ended(self, cell: str, outcome: Outcome) -> None:
        now = self._clock.monotonic()
        self._listener.ended(
            Ended(
                cell=cell,
                outcome=outcome,
                started=self._wall.get(cell, self._wall_start),
                seconds=now - self._watch.since(cell, self._start),
            )
        )

    def _events(self) -> Iterator[Event | None]:
        """The session's events; an engine that fails under way ends them."""
        try:
            yield from self._session.events(TICK_S)
        except InfrastructureError as error:
            self._engine_lost = str(error)

    def _exit(self) -> Exit:
        if self._engine_lost is not None:
            return Exit(code=None, reason=self._engine_lost)
        try:
            return self._session.exit()
        except InfrastructureError as error:
            return Exit(code=None, reason=str(error))

    def _take(self, event: Event, now: float) -> None:
        if not self._watch.feed(event, now):
            self._odd += 1
            if self._odd == 1:
                self._listener.note(
                    f"job {self._job.id}: a `{event.event}` event that makes no sense was ignored"
                )
            return
        match event:
            case Hello():
                self._listener.ready(event, now - self._start)
            case Started(cell=cell):
                self._wall[cell] = self._clock.now()
                self._listener.began(cell, "")
            case StageBegan(cell=cell, stage=stage):
                self._listener.began(cell, stage)
            case Artifact():
                self._listener.artifact(event)
            case Done(cell=cell, outcome=outcome):
                self._ended(cell, outcome)
            case _:
                pass
