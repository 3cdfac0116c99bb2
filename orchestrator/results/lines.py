"""Journals: files of records, one JSON object a line, to which lines are only ever added.

Whoever writes may be killed at any moment. A line that was cut short was not written: readers pass
over it, and the next one that is added begins on a line of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.results.files import unwritable

T = TypeVar("T")


class Lines(Generic[T]):
    """One journal, of records of one kind; one process at a time writes."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        """Nothing is read, and the file need not be there."""
        self.path = path
        self._kind = kind

    def add(self, record: T) -> None:
        """Appends a line; it is on the disk when this returns.

        Raises:
            InfrastructureError: the disk is full, or cannot be written.
        """
        line = records.dumps(record).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() and not self._whole():
                    line = b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable(self.path, error) from error

    def read(self) -> Iterator[T]:
        """All records, the oldest first; none when there is no file.

        Raises:
            InfrastructureError: it cannot be read, or a line is whole and not what we write.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InfrastructureError(f"{self.path}: {error.strerror or error}") from error
        for number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
            except ValueError:
                continue  # cut short, or what follows the last line
            try:
                yield records.decode(self._kind, document)
            except records.RecordError as error:
                raise InfrastructureError(f"{self.path}:{number} is damaged: {error}") from error

    def _whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
