"""A folder of files that is written again: only what changed, and nothing stale is left."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.files import unwritable

MANIFEST = "manifest.json"
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a build did to a site."""

    files: int
    """That the site has now."""
    written: int
    removed: int


@dataclass(frozen=True, kw_only=True)
class Part:
    """Files of a site, and how many of them were written."""

    files: dict[str, str]
    """Path to digest."""
    written: int


class Site:
    """A site's folder, while it is written.

    The manifest has a digest of what each file was made from. A build that is cut short leaves a
    manifest that says so, and the next one writes everything.
    """

    def __init__(self, out: Path, version: str) -> None:
        """Opens or makes a site; `version` is of whatever pages are made with.

        Raises:
            UsageError: the folder has something else in it.
            InfrastructureError: it cannot be read or written.
        """
        self.out = out
        self._version = version
        old = _manifest(out)
        same = old.get("version") == version and old.get("whole") is True
        known = old.get("files")
        self._old: dict[str, str] = known if isinstance(known, dict) else {}
        self._same = same
        self._said: dict[str, Any] = old if same else {}
        self._there = _files(out) if old else frozenset()
        self._new: dict[str, str] = {}
        self._folders: set[str] = set()
        self._root = str(out)
        self._written = 0

    def made_of(self, origin: str) -> Mapping[str, Any] | None:
        """What `finish` was told of the same origin, where the site is whole; None: it has to be
        written.
        """
        if self._said.get("origin") != origin or not self._there.issuperset(self._old):
            return None
        return dict(self._said["says"])

    @property
    def unchanged(self) -> Written:
        """Of a build that had nothing to do."""
        return Written(files=len(self._old), written=0, removed=0)

    def begin(self) -> None:
        """Says that the site is not whole, until it is."""
        self._write(MANIFEST, self._state(self._old, whole=False))

    def add(self, path: str, source: bytes, make: Callable[[], bytes] | None = None) -> None:
        """A file; `make` gives its bytes if they are not `source` itself.

        What `source` does not say must follow from the path.

        The file is left as it is when it was made from the same source by the same version.
        """
        digest = hashlib.sha256(source).hexdigest()[:24]
        if path in self._new:
            raise _two(path)
        self._new[path] = digest
        if self._same and self._old.get(path) == digest and path in self._there:
            return
        self._write(path, source if make is None else make())
        self._written += 1

    def part(self, write: Callable[[], None]) -> Part:
        """What some writing adds, to be taken: perhaps by a copy of this site."""
        before = self._new, self._written
        self._new, self._written = {}, 0
        try:
            write()
            return Part(files=self._new, written=self._written)
        finally:
            self._new, self._written = before

    def take(self, part: Part) -> None:
        """Adds what was written elsewhere.

        Raises:
            InfrastructureError: a file is also here.
        """
        for path in part.files.keys() & self._new.keys():
            raise _two(path)
        self._new |= part.files
        self._written += part.written

    def finish(self, origin: str = "", says: Mapping[str, Any] | None = None) -> Written:
        """Removes what no build wants any more, and says that the site is whole.

        Args:
            origin: a digest of all that it was made of.
            says: what to tell whoever makes it of the same again.
        """
        stale = [path for path in self._old if path not in self._new and path in self._there]
        for path in stale:
            _remove(self.out, path)
        self._write(
            MANIFEST, self._state(self._new, whole=True, origin=origin, says=dict(says or {}))
        )
        return Written(files=len(self._new), written=self._written, removed=len(stale))

    def _state(self, files: Mapping[str, str], *, whole: bool, **said: Any) -> bytes:
        document = {
            "schema": _SCHEMA,
            "version": self._version,
            "whole": whole,
            **said,
            "files": dict(sorted(files.items())),
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"

    def _write(self, path: str, data: bytes) -> None:
        # text instead of pathlib: there are tens of thousands of files
        target = f"{self._root}/{path}"
        folder = target.rpartition("/")[0]
        try:
            if folder not in self._folders:
                Path(folder).mkdir(parents=True, exist_ok=True)
                self._folders.add(folder)
            # over what is there, and cut afterwards: to empty or to replace a file makes file
            # systems write it out at once
            with open(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:  # noqa: PTH123
                file.write(data)
                file.truncate()
        except OSError as error:
            raise unwritable(self.out / path, error) from error


def _two(path: str) -> InfrastructureError:
    return InfrastructureError(f"two pages want to be {path}: names differ too little")


def _manifest(out: Path) -> dict[str, object]:
    """That of the site there; empty for a folder that is new or empty."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file. A site is a folder: give another with --out")
    try:
        found = orjson.loads((out / MANIFEST).read_bytes())
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{out / MANIFEST} is damaged ({error}). "
            f"Remove {out}, or give another folder with --out"
        ) from error
    if isinstance(found, dict) and found.get("schema") == _SCHEMA:
        return found
    if found is not None or (out.is_dir() and any(out.iterdir())):
        raise UsageError(
            f"{out} has files that are no site of ours. Empty it, or give another with --out"
        )
    return {}


def _files(out: Path) -> frozenset[str]:
    found = []
    for folder, _, names in os.walk(out):
        below = os.path.relpath(folder, out).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        found += [prefix + name for name in names]
    return frozenset(found)


def _remove(out: Path, path: str) -> None:
    """A file, and the folders that it leaves empty."""
    target = out / path
    target.unlink(missing_ok=True)
    for folder in target.parents:
        if folder == out or any(folder.iterdir()):
            return
        folder.rmdir()
