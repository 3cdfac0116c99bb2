"""Folders of submissions on one machine, and what files and locks in them say of the jobs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.engines import locks
from orchestrator.errors import InfrastructureError

_TICKET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~-]{0,199}")
FOLDER = "agent"
"""Of all submissions, in the state folder."""
EXIT = "exit"
"""In the folder of a go: its exit code, when what it left is packed."""
GROUP = "group"
"""In the folder of a go: the number of its process group."""
DOCUMENT = "submission.json"
CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """`submission.json`."""

    key: str
    job: str
    number: int
    """In the order of submission."""
    priority: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folder of a submission."""

    folder: Path

    @property
    def ticket(self) -> str:
        """The backend's name for it."""
        return self.folder.name

    def submission(self) -> Submission:
        """Raises InfrastructureError when it is damaged."""
        path = self.folder / DOCUMENT
        try:
            return records.decode(Submission, json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise InfrastructureError(f"{path} cannot be used: {error}") from error

    def goes(self) -> list[Path]:
        """Folders of all goes, in the order of time."""
        with contextlib.suppress(FileNotFoundError):
            return sorted((self.folder / "goes").iterdir(), key=lambda go: int(go.name))
        return []

    def alive(self) -> bool:
        """Whether any process of a go runs."""
        return locks.held(self.folder / "alive")

    def cancelled(self) -> bool:
        """Whether somebody stopped it, whatever its state."""
        return (self.folder / CANCELLED).exists()

    def over(self) -> bool:
        """Whether no go runs, and none will follow."""
        if self.alive():  # first: what it writes last is there when it is gone
            return False
        goes = self.goes()
        return self.cancelled() or (bool(goes) and (goes[-1] / EXIT).exists())


def ticket_of(key: str) -> str:
    """A name for a folder."""
    return key if _TICKET.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()


def name_of(place: Place, go: Path) -> str:
    """Of a go; a job's submissions have none in common."""
    return f"{place.ticket}.{go.name}"


def group_of(place: Place) -> int:
    """The process group of the last go; 0: it has not said yet."""
    try:
        return int((place.goes()[-1] / GROUP).read_text())
    except (IndexError, OSError, ValueError):
        return 0
