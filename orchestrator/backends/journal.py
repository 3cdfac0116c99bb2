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

JOURNAL = "journal.jsonl"
"""Of a run's folder."""

Event = Literal[
    "planned", "submitted", "withdrawn", "claimed", "lost", "collecting", "collected", "abandoned"
]
Aside = Literal["", "health", "control"]
"""Why a job is none of the plan's: it tries a machine, or tells who is to blame for a failure."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line.

    `planned`: the job's folder is there and is about to be submitted. `submitted`: the backend has
    it. `withdrawn`: it is taken back from the backend before a machine took it, and waits again.
    `claimed`: a machine took it. `lost`: nothing came of that, and every cell gets a `miss`.
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
    """Of `planned`: the one agent that the job is for. Of `submitted`: the agent it was given to.
    Else whose go it was."""
    message: str = ""
    """Of `lost`: why. Of a `planned` job that repeats another: why that one was missed."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Attempts that each cell had before `lost` or `collecting` added any."""
    aside: Aside = ""
    of: str = ""
    """Of a job that repeats cells which another one missed: that other one. Of a control run: the
    cell that failed. Of a health job: the green run whose cells it has; empty: there is none."""
    tried: tuple[str, ...] = ()
    """Of a job that repeats another: on whom its cells were missed, one for each time."""


@dataclass(kw_only=True)
class JobState:
    """What the journal tells of one job."""

    job: str
    planned: Entry | None = None
    ticket: str = ""
    """Of the last submission; empty: it was never submitted, or was withdrawn."""
    submissions: int = 0
    """How often it was handed to the backend."""
    given: dict[str, str] = field(default_factory=dict)
    """Ticket to the one agent that it was given to."""
    withdrawn: list[str] = field(default_factory=list)
    """Tickets."""
    claimed: dict[str, str] = field(default_factory=dict)
    """Attempt to machine."""
    lost: dict[str, Entry] = field(default_factory=dict)
    collecting: dict[str, Entry] = field(default_factory=dict)
    over: bool = False

    @property
    def aside(self) -> Aside:
        """See `Entry.aside`."""
        return self.planned.aside if self.planned else ""

    @property
    def only(self) -> str:
        """The one agent that it is for; empty: any."""
        return self.planned.machine if self.planned else ""

    @property
    def tried(self) -> tuple[str, ...]:
        """On whom its cells were missed, one for each time."""
        before = self.planned.tried if self.planned else ()
        return (*before, *(entry.machine for entry in self.lost.values()))

    def missed_by_the_last(self) -> bool:
        """Whether nothing came of what was submitted last."""
        return any(entry.ticket == self.ticket for entry in self.lost.values())


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
            case "planned":
                state.planned = entry
            case "submitted":
                state.ticket = entry.ticket
                state.submissions += 1
                state.given[entry.ticket] = entry.machine
            case "withdrawn":
                state.ticket = ""
                state.withdrawn.append(entry.ticket)
            case "claimed":
                state.claimed[entry.attempt] = entry.machine
            case "lost":
                state.lost[entry.attempt] = entry
            case "collecting":
                state.collecting[entry.attempt] = entry
            case "collected" | "abandoned":
                state.over = True
