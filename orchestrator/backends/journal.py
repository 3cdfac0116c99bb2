"""What was done for the jobs of a run, a line each, written before the next thing is done.

A dispatcher may be killed at any moment: what comes after it reads these lines and goes on. What a
line would have told that was cut short is done again, and everything that a line announces can be
done twice without anything happening twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from orchestrator.results.lines import Lines

Event = Literal["planned", "submitted", "claimed", "lost", "collecting", "collected", "abandoned"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line.

    `planned`: the job's folder is there and is about to be submitted. `submitted`: the backend has
    it. `claimed`: a machine took it. `lost`: nothing came of that, and every cell gets a `miss`.
    `collecting`: what a machine made of it is taken into the record. `collected`, `abandoned`: the
    job is over.
    """

    event: Event
    job: str
    at: str
    """UTC, ISO 8601."""
    ticket: str = ""
    """The backend's name for what was submitted."""
    attempt: str = ""
    """The backend's name for one machine's go at it."""
    machine: str = ""
    message: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Attempts that each cell had before `lost` or `collecting` added any."""


@dataclass(kw_only=True)
class JobState:
    """What the journal tells of one job."""

    job: str
    ticket: str = ""
    submissions: int = 0
    """How often it was handed to the backend."""
    claimed: dict[str, str] = field(default_factory=dict)
    """Attempt to machine."""
    lost: dict[str, Entry] = field(default_factory=dict)
    collecting: dict[str, Entry] = field(default_factory=dict)
    over: bool = False


class Journal:
    """`journal.jsonl` of a run; only its owner writes."""

    def __init__(self, path: Path) -> None:
        """Reads what is there.

        Raises:
            InfrastructureError: a line is whole, and not what we write.
        """
        self._lines = Lines(path, Entry)
        self.jobs: dict[str, JobState] = {}
        for entry in self._lines.read():
            self._apply(entry)

    def add(self, entry: Entry) -> None:
        """Appends a line; it is on the disk when this returns.

        Raises:
            InfrastructureError: the disk is full, or cannot be written.
        """
        self._lines.add(entry)
        self._apply(entry)

    def open_jobs(self) -> tuple[JobState, ...]:
        """Jobs that are not over, in the order in which they were planned."""
        return tuple(state for state in self.jobs.values() if not state.over)

    def _apply(self, entry: Entry) -> None:
        state = self.jobs.setdefault(entry.job, JobState(job=entry.job))
        match entry.event:
            case "submitted":
                state.ticket = entry.ticket
                state.submissions += 1
            case "claimed":
                state.claimed[entry.attempt] = entry.machine
            case "lost":
                state.lost[entry.attempt] = entry
            case "collecting":
                state.collecting[entry.attempt] = entry
            case "collected" | "abandoned":
                state.over = True
            case "planned":
                pass
