"""What a plan handed out: each of its jobs, to whom, and what its cells had behind them.

A document in the plan's folder, beside its run. It travels with the plan: who collects, or gives
out once more what was missed, knows no more than it says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator import records
from orchestrator.backends.placing import Placed
from orchestrator.errors import InfrastructureError
from orchestrator.fleet.serving import Machines
from orchestrator.job import Job
from orchestrator.results.files import write_atomically

_FILE = "handed.json"


@dataclass(frozen=True, kw_only=True)
class HandedJob:
    """A job, as it was placed. See `Placed`."""

    cells: tuple[str, ...]
    tier: str
    priority: int
    timeout_s: float
    agent: str
    machines: int
    probation: bool
    hosted: bool
    before: Mapping[str, int] = field(default_factory=dict)
    """Attempts that its cells had when it was made; of those that had any."""

    def placed(self, job: Job) -> Placed:
        """It, with its document."""
        return Placed(
            job=job,
            tier=self.tier,
            priority=self.priority,
            timeout_s=self.timeout_s,
            agent=self.agent,
            machines=self.machines,
            probation=self.probation,
            hosted=self.hosted,
        )


@dataclass(frozen=True, kw_only=True)
class Handed:
    """All jobs of a plan."""

    backend: str
    """The service that hands them out; `local`: nobody knows which."""
    machines: Machines
    """Whose."""
    branch: str
    """Of the code."""
    jobs: Mapping[str, HandedJob] = field(default_factory=dict)
    """By id, in the order in which they were made."""
    takers: Mapping[str, str] = field(default_factory=dict)
    """The machine that began a job, as far as the service tells. Nobody signed that: it decides
    who is asked once more, and nothing else."""
    lost: tuple[str, ...] = ()
    """Jobs of which nothing had come when the plan was collected last."""
    schema: int = 1

    def newest(self) -> dict[str, str]:
        """Of each cell, the last job that it was in."""
        return {cell: name for name, job in self.jobs.items() for cell in job.cells}

    def quiet(self) -> frozenset[str]:
        """Cells that no trusted agent has run: they turn nothing red."""
        return frozenset(c for c, name in self.newest().items() if self.jobs[name].probation)

    def settled(self) -> frozenset[str]:
        """Jobs of which nothing came, and that were given out again: what comes now is too late."""
        newest = self.newest()
        return frozenset(
            name for name in self.lost if any(newest[c] != name for c in self.jobs[name].cells)
        )

    def tells(self, job: str) -> bool:
        """Whether the service would have told who took a job."""
        return self.backend == "github" and not self.jobs[job].hosted


def handed_job(placed: Placed, before: Mapping[str, int]) -> HandedJob:
    """What is kept of a job."""
    return HandedJob(
        cells=tuple(cell.id for cell in placed.job.cells),
        tier=placed.tier,
        priority=placed.priority,
        timeout_s=placed.timeout_s,
        agent=placed.agent,
        machines=placed.machines,
        probation=placed.probation,
        hosted=placed.hosted,
        before=before,
    )


def write(folder: Path, handed: Handed) -> None:
    """Writes it into a plan's folder, over an older one.

    Raises:
        InfrastructureError: it cannot be written.
    """
    write_atomically(folder / _FILE, records.dumps(handed, indent=1).encode() + b"\n")


def read(folder: Path) -> Handed:
    """What a plan's folder has.

    Raises:
        InfrastructureError: it is missing or damaged.
    """
    path = folder / _FILE
    try:
        return records.decode(Handed, json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise InfrastructureError(
            f"{folder} is no folder that `lh-ci plan --out` wrote: {_FILE} is missing"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InfrastructureError(f"{path} is damaged: {error}") from error
