"""Jobs to play with."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.backends.base import Attempt
from orchestrator.backends.local import LocalRunner
from orchestrator.engines.base import Environment
from orchestrator.job import Artifact, Cell, Hello, Job, Workload
from tests.fakes import FakeEngine


def cell(name: str, timeout_s: float = 60.0) -> Cell:
    """A cell called `name`."""
    return Cell(
        id=name,
        pipeline="torch_cpu",
        workload=Workload(name=name, file=f"workloads/{name}.py", sha256="00"),
        variant="f32",
        pool="intel-cpu",
        ingress="torch_mlir",
        timeout_s=timeout_s,
    )


def job(*names: str, stack: str = "pytorch") -> Job:
    """A job with cells of those names."""
    return Job(id=f"run.{stack}", stack=stack, pool="intel-cpu", cells=tuple(map(cell, names)))


@dataclass
class Notebook:
    """An observer that writes everything down."""

    attempts: list[Attempt] = field(default_factory=list)
    environments: list[Environment] = field(default_factory=list)
    began_stages: list[tuple[str, str, int]] = field(default_factory=list)
    artifacts: list[tuple[str, int]] = field(default_factory=list)
    starts: list[tuple[str, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stop_after: int | None = None

    def preparing(self, stack: str) -> None:
        """Nothing to note."""

    def progress(self, line: str) -> None:
        """Nothing to note."""

    def prepared(self, environment: Environment, seconds: float) -> None:
        """Noted."""
        self.environments.append(environment)

    def ready(self, job: Job, hello: Hello, start_seconds: float) -> None:
        """Noted."""
        self.starts.append((job.id, start_seconds))

    def began(self, cell: str, stage: str, attempt: int) -> None:
        """Noted."""
        self.began_stages.append((cell, stage, attempt))

    def artifact(self, event: Artifact, attempt: int) -> None:
        """Noted."""
        self.artifacts.append((event.name, attempt))

    def attempted(self, attempt: Attempt) -> None:
        """Noted."""
        self.attempts.append(attempt)

    def note(self, line: str) -> None:
        """Noted."""
        self.notes.append(line)

    def enough(self) -> bool:
        """After so many attempts."""
        return self.stop_after is not None and len(self.attempts) >= self.stop_after

    def story(self) -> list[tuple[str, int, str, bool]]:
        """Cell, attempt, status and whether it was the last one, in order."""
        return [(a.cell.id, a.number, a.outcome.status, a.final) for a in self.attempts]

    def last(self, cell: str) -> Attempt:
        """The last attempt of a cell."""
        return [a for a in self.attempts if a.cell.id == cell][-1]


def run(
    engine: FakeEngine, *jobs: Job, notebook: Notebook | None = None, **options: object
) -> Notebook:
    """Runs jobs in an engine and returns what was told."""
    notebook = notebook or Notebook()
    runner = LocalRunner(
        engine,
        lambda job: (job, Path(job.id)),
        clock=engine.time.clock(),
        **options,  # type: ignore[arg-type]
    )
    runner.execute(jobs, notebook)
    return notebook


MOMENT = dt.datetime(2026, 11, 20, 21, 4, 11, tzinfo=dt.UTC)
