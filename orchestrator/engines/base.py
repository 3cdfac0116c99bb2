"""Where a job runs: the Protocol that every engine satisfies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.job import Event, Job

Progress = Callable[[str], None]
"""Takes one line about long work, for people."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Whether an engine can be used here."""

    usable: bool
    reason: str
    """Why not, with where it was looked for; or what answered."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A stack made ready by an engine: an image, or a virtual environment."""

    stack: str
    engine: str
    reference: str
    """Image tag, or the environment's folder."""
    digest: str
    """Identity of what the cells run in: image id, or hash of the pins that were installed."""
    cached: bool
    """It was there before."""
    facts: Mapping[str, str]
    """More to show and to record: engine version, LLVM, …"""


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What kept a cell from the machine, recorded with its result."""

    contained: bool
    network: str
    root: str
    user: str
    limits: Mapping[str, str | int | float]


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a job's process ended, as the engine saw it from outside."""

    code: int | None
    """None: the engine lost sight of it."""
    reason: str
    """In words: `exit 0`, `killed: out of memory (limit 8 GiB)`, `the engine stopped answering`."""
    stderr_tail: str = ""


class Session(Protocol):
    """One running job. Leaving the `with` block leaves nothing behind, whatever happened."""

    isolation: Isolation
    argv: tuple[str, ...]

    def __enter__(self) -> Session: ...

    def __exit__(self, *exc: object) -> None: ...

    def events(self, tick_s: float) -> Iterator[Event | None]:
        """The harness's events as they come; None at least every `tick_s` seconds without one.

        Ends when the job's process has ended. A line that is no event is kept for the exit's
        stderr, never raised.
        """

    def kill(self) -> None:
        """Ends the job's processes at once; `events` then ends."""

    def exit(self) -> Exit:
        """How it ended; only after `events` has ended."""


class Engine(Protocol):
    """Makes stacks ready and runs jobs in them."""

    name: str

    def probe(self) -> Availability:
        """Whether it answers, within a few seconds and without raising."""

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:
        """Builds what is missing for a stack; idempotent.

        Raises:
            DefinitionError: a pin that does not exist, a Dockerfile that is wrong.
            InfrastructureError: the engine, the network or the disk failed.
        """

    def recall(self, stack: str, digest: str) -> Environment | None:
        """What earlier jobs of a stack ran in, by its digest; None: it is not here any more.

        Raises:
            InfrastructureError: the engine failed.
        """

    def start(self, job: Job, job_dir: Path, environment: Environment) -> Session:
        """Starts a job whose files are in `job_dir` (with `job.json`), which it only reads.

        Raises:
            InfrastructureError: it could not be started.
        """

    def sweep(self) -> tuple[str, ...]:
        """Removes what dead orchestrators of this workspace left; returns what was removed."""
