"""Following one job's events to their end, and ending it when it has to be ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from orchestrator.backends.clock import Clock
from orchestrator.backends.device import DeviceWatch
from orchestrator.backends.watch import Ending, Limits, Watch
from orchestrator.engines.base import Exit, Session
from orchestrator.errors import InfrastructureError
from orchestrator.health.evidence import Evidence
from orchestrator.health.judge import SEEN, doubtful
from orchestrator.job import Artifact, Done, Event, Hello, Job, Outcome, StageBegan, Started

TICK_S = 1.0
PAUSE_S = 10.0
"""Between two ticks: who notices more was stopped meanwhile, or the clock jumped."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How an attempt of a cell ended."""

    cell: str
    outcome: Outcome
    started: dt.datetime
    seconds: float
    evidence: tuple[Evidence, ...] = ()
    """What was seen of its GPU from outside."""


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
        self,
        job: Job,
        session: Session,
        listener: Listener,
        limits: Limits,
        clock: Clock,
        device: DeviceWatch | None = None,
    ) -> None:
        """Starts to count time at once. `device` watches the job's GPUs, if it has any."""
        self._job = job
        self._session = session
        self._listener = listener
        self._limits = limits
        self._clock = clock
        self._device = device
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
        looked = self._start
        for event in self._events():
            now = self._clock.monotonic()
            self._excuse(now - looked)
            looked = now
            if event is not None:
                self._take(event, now)
            self._look_at_device(now)
            if killed is None and (self._listener.enough() or self._watch.trouble(now)):
                self._session.kill()
                killed = now
            if killed is not None and now > killed + self._limits.drain_s:
                break
        if self._device is not None:
            for verdict in self._device.settle():
                self._ended(verdict.cell, verdict.outcome, verdict.ended, verdict.evidence)
        ending = self._watch.ending(self._exit())
        if not self._listener.enough():
            now = self._clock.monotonic()
            for cell, outcome in ending.missed.items():
                seen = self._device.evidence(cell) if self._device is not None else ()
                self._ended(cell, outcome, now, seen)
        return ending

    def _excuse(self, pause: float) -> None:
        if pause > PAUSE_S:
            self._watch.excuse(pause)
            self._listener.note(
                f"job {self._job.id}: nothing was looked at for {pause:.0f} s: this process or its "
                "machine stood still, or the clock jumped. No deadline counts that time"
            )

    def _look_at_device(self, now: float) -> None:
        if self._device is None:
            return
        self._device.poll(now)
        if self._device.fault is not None:
            self._watch.blame(f"{SEEN}: {self._device.fault.text}")
        for verdict in self._device.ripe(now):
            self._ended(verdict.cell, verdict.outcome, verdict.ended, verdict.evidence)

    def _done(self, cell: str, outcome: Outcome, now: float) -> None:
        """A cell says how it ended; what its GPU may have had a part in is looked at first."""
        if self._device is None or not self._device.hold(cell, outcome, now):
            self._ended(cell, outcome, now)
        elif doubtful(outcome):
            self._watch.give_up(cell)

    def _ended(
        self, cell: str, outcome: Outcome, now: float, evidence: tuple[Evidence, ...] = ()
    ) -> None:
        self._listener.ended(
            Ended(
                cell=cell,
                outcome=outcome,
                started=self._wall.get(cell, self._wall_start),
                seconds=now - self._watch.since(cell, self._start),
                evidence=evidence,
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
                if self._device is not None:
                    self._device.began(cell, stage, now)
            case Artifact():
                self._listener.artifact(event)
            case Done(cell=cell, outcome=outcome):
                self._done(cell, outcome, now)
            case _:
                pass
