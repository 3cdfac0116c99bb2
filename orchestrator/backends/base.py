"""Who runs jobs: the Protocol that every backend satisfies, and what it tells as it goes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.engines.base import Environment, Isolation
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


class Backend(Protocol):
    """Runs jobs to their end."""

    name: str

    def execute(self, jobs: Sequence[Job], observer: Observer) -> None:
        """Runs all jobs and reports at least one attempt of every cell, unless told `enough`.

        Raises:
            InfrastructureError: results cannot be kept; whatever runs is stopped first.
        """
