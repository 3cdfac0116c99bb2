"""Who runs jobs: the Protocols of what runs them here and elsewhere, and what they tell."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orchestrator.engines.base import Environment, Isolation
from orchestrator.errors import InfrastructureError
from orchestrator.health.evidence import Evidence
from orchestrator.job import Artifact, Cell, Hello, Job, Outcome


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a cell, as it happened; no expectation has been applied."""

    cell: Cell
    stack: str
    number: int
    """From 1, over the whole run."""
    final: bool
    """False: it was a `miss` and the cell will be tried again."""
    outcome: Outcome
    started: dt.datetime
    seconds: float
    environment: Environment | None
    """None: the stack could not be made ready."""
    hello: Hello | None
    """None: the harness never answered."""
    isolation: Isolation | None
    argv: tuple[str, ...]
    gpu: Mapping[str, str] = field(default_factory=dict)
    """Facts of the GPUs that its job was given; see `health.facts`."""
    evidence: tuple[Evidence, ...] = ()
    """What was seen of them from outside."""


class Observer(Protocol):
    """Who is told what a backend does. Nothing here may block for long."""

    def preparing(self, stack: str) -> None:
        """A stack's environment is being made ready."""

    def progress(self, line: str) -> None:
        """One line about that work, for people."""

    def prepared(self, environment: Environment, seconds: float) -> None:
        """It is ready."""

    def ready(self, job: Job, hello: Hello, start_seconds: float) -> None:
        """A job's harness answered; `start_seconds` went by since it was started, all in all."""

    def began(self, cell: str, stage: str, attempt: int) -> None:
        """A cell entered a stage; empty for its very beginning."""

    def artifact(self, event: Artifact, attempt: int) -> None:
        """A cell leaves a file. Comes before the attempt it belongs to."""

    def attempted(self, attempt: Attempt) -> None:
        """An attempt ended."""

    def note(self, line: str) -> None:
        """Something odd that is nobody's result."""

    def enough(self) -> bool:
        """Whether to stop at once; what did not end by then is not reported."""


class Runner(Protocol):
    """Runs jobs to their end, in this process, and tells of them as they go."""

    name: str

    def execute(self, jobs: Sequence[Job], observer: Observer) -> None:
        """Runs all jobs and reports at least one attempt of every cell, unless told `enough`.

        Raises:
            InfrastructureError: results cannot be kept; whatever runs is stopped first.
        """


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A job on its way to a backend."""

    key: str
    """What the backend knows this submission by; the same key again is the same submission."""
    job: str
    pool: str
    archive: Path
    """The job's folder as one file; see `backends.parcel`."""
    sha256: str
    priority: int = 0
    """Jobs with a higher one are begun first."""
    avoid: tuple[str, ...] = ()
    """Machines that nothing came of it on: others come first."""
    agents: tuple[str, ...] | None = None
    """Who alone may take it; None: any machine of the pool."""


@dataclass(frozen=True, kw_only=True)
class Go:
    """One machine's go at a job."""

    id: str
    """The backend's name for it, in the order of time."""
    machine: str
    ended: bool
    lost: bool = False
    """Nothing will come of it: the machine or what hands out jobs went away, or it was stopped."""
    cancelled: bool = False
    """Somebody stopped it on purpose: no fault of the machine's. It is `lost` then, too."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What a backend knows of a submission."""

    goes: tuple[Go, ...]
    ended: bool
    """No further go will follow."""
    cancelled: bool = False
    """It was withdrawn on purpose, whether or not a machine had taken it."""


class Backend(Protocol):
    """Machines elsewhere: a job is planned, submitted, watched, and its results are collected.

    All calls can be repeated; whoever repeats one after being killed changes nothing by it, and a
    new object sees what the one before it saw. `tests/backends/conformance` holds all to it. All
    may raise InfrastructureError when nobody answers for long, UsageError when we are refused.
    """

    name: str
    where: str
    """The address that people know it by."""

    def online(self) -> Collection[str] | None:
        """Names of the machines that are connected at this moment; None: it cannot be told."""

    def submit(self, parcel: Parcel) -> str:
        """Hands a job over, unless it has that key already; gives its ticket."""

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """What has become of submissions, at this moment; one that is not known has ended."""

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        """Fetches what a go left, as one file.

        Raises:
            NothingLeftError: there is nothing.
        """

    def cancel(self, ticket: str, why: str) -> None:
        """Stops a submission, whatever its state; what is over is left as it is."""

    def forget(self, job: str) -> None:
        """The job is over, and in the record: nothing of it need be kept."""


class NothingLeftError(InfrastructureError):
    """A machine's go at a job left no results."""
