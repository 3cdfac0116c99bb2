"""What archives say of themselves, kept: a file that has not changed is not opened again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator import __version__, records
from orchestrator.errors import InfrastructureError
from orchestrator.results.declared import Declared
from orchestrator.results.files import write_atomically
from orchestrator.results.history.archive import Archive, read_archive

_KEPT = "archives.json"


class Known:
    """Archives by path, size, times and inode; what is told of one is what was read of it."""

    def __init__(self, folder: Path | None) -> None:
        """Takes what the folder keeps: nothing, where another version kept it. None: no folder."""
        self._path = None if folder is None else folder / _KEPT
        self._old: Mapping[str, Any] = {} if self._path is None else _read(self._path)
        self._new: dict[str, Any] = {}

    def archive(self, path: Path) -> tuple[Archive, bytes]:
        """What a file says of itself, and its SHA-256.

        Raises:
            InfrastructureError: see `read_archive`.
        """
        state = _state(path)
        kept = self._old.get(str(path), {})
        if kept.get("state") == state:
            self._new[str(path)] = kept
            archive = records.decode(Archive, kept["archive"])
            lazy = _DeclaredThere(path, kept["declared"])
            return dataclasses.replace(archive, declared=lazy), bytes.fromhex(kept["sha256"])
        archive = read_archive(path)
        digest = _sha256(path)
        if _state(path) == state:
            said = records.encode(dataclasses.replace(archive, declared={}))
            entry = {"state": state, "sha256": digest.hex(), "archive": said}
            self._new[str(path)] = {**entry, "declared": sorted(archive.declared)}
        return archive, digest

    def keep(self) -> None:
        """Keeps what was asked for, and nothing else.

        Raises:
            InfrastructureError: the disk is full, or cannot be written.
        """
        if self._path is not None and self._new != self._old:
            document = {"version": __version__, "archives": self._new}
            write_atomically(self._path, json.dumps(document, sort_keys=True).encode())


class _DeclaredThere(Mapping[str, Declared]):
    """What was declared, by digest, read when somebody asks."""

    def __init__(self, path: Path, digests: list[str]) -> None:
        self._path = path
        self._digests = digests

    def __getitem__(self, digest: str) -> Declared:
        """Raises KeyError, RecordError where it is no such document, or InfrastructureError."""
        if digest not in self._digests:
            raise KeyError(digest)
        return read_archive(self._path).declared[digest]

    def __contains__(self, digest: object) -> bool:
        return digest in self._digests

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests)

    def __len__(self) -> int:
        return len(self._digests)


def _sha256(path: Path) -> bytes:
    """Of a file. Raises InfrastructureError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error.strerror}") from error


def _state(path: Path) -> list[int]:
    """What differs when a file was written or replaced; nothing, where there is none."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes())
        found = document["archives"] if document["version"] == __version__ else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
