"""Where a bundle's files come from: a folder or an archive, of which neither is trusted."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from orchestrator.errors import DefinitionError, UsageError

_CHUNK = 1 << 20
_INDEX_BYTES = 4 << 20
"""What an archive's table of contents may take: thousands of files."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What `zipfile` raises for archives that are cut short, made up, encrypted, or too new for it."""


class Source(Protocol):
    """Files by name."""

    def read(self, name: str, size: int) -> bytes:
        """The content of a regular file; shorter than `size` bytes where the file is.

        Raises:
            DefinitionError: it is not there, is no regular file, or is larger.
        """


@contextlib.contextmanager
def source_of(path: Path) -> Iterator[Source]:
    """The files of a folder or of a zip archive.

    Raises:
        DefinitionError: it is neither.
        UsageError: there is nothing, or we may not read it.
    """
    try:
        if path.is_dir():
            with _directory(path) as descriptor:
                yield _Folder(path, descriptor)
        elif stat.S_ISREG(path.stat().st_mode):
            with _Bounded(path) as file:
                yield _Archive(path, file)
        else:
            raise DefinitionError(f"{path}: no bundle: neither a folder nor an archive")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no bundle {path}") from None
    except PermissionError as error:
        raise UsageError(f"{path}: {error.strerror}: {error.filename or path}") from error


class _Folder:
    """Files below a folder, no link followed on the way."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read(self, name: str, size: int) -> bytes:
        """See `Source`."""
        *folders, last = name.split("/")
        with contextlib.ExitStack() as stack:
            descriptor = self._descriptor
            try:
                for part in folders:
                    descriptor = stack.enter_context(_directory(part, descriptor))
                # without waiting for the other end of a pipe
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                file = os.open(last, flags, dir_fd=descriptor)
            except FileNotFoundError:
                raise self._bad(name, "missing: the bundle is not whole") from None
            except OSError as error:  # ELOOP, ENOTDIR: a link; or we may not
                raise self._bad(name, f"no file that can be read ({error.strerror})") from error
            with os.fdopen(file, "rb") as stream:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise self._bad(name, "no regular file")
                data = stream.read(size + 1)
        if len(data) > size:
            raise self._bad(name, f"larger than {size:,} bytes")
        return data

    def _bad(self, name: str, what: str) -> DefinitionError:
        return DefinitionError(f"{self._path}: {name}: {what}")


class _Archive:
    """Members of a zip archive."""

    def __init__(self, path: Path, file: io.BufferedIOBase) -> None:
        self._path = path
        try:
            self._archive = zipfile.ZipFile(file)
        except _DAMAGED as error:
            raise DefinitionError(f"{path}: no bundle: no zip archive ({error})") from error

    def read(self, name: str, size: int) -> bytes:
        """See `Source`."""
        try:
            member = self._archive.getinfo(name)
        except KeyError:
            raise self._bad(name, "missing: the bundle is not whole") from None
        if stat.S_ISLNK(member.external_attr >> 16) or member.is_dir():
            raise self._bad(name, "no regular file")
        parts, left = [], size + 1
        try:
            with self._archive.open(member) as stream:
                while left and (part := stream.read(min(left, _CHUNK))):
                    parts.append(part)
                    left -= len(part)
        except _DAMAGED as error:
            raise self._bad(name, f"damaged: {error}") from error
        if not left:
            raise self._bad(name, f"larger than {size:,} bytes")
        return b"".join(parts)

    def _bad(self, name: str, what: str) -> DefinitionError:
        return DefinitionError(f"{self._path}: {name}: {what}")


class _Bounded(io.BufferedReader):
    """A file of which nobody can read much at once: `zipfile` reads its whole index in one go."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))

    def read(self, size: int | None = -1, /) -> bytes:
        """Raises `BadZipFile` for more than an index may have."""
        asked = _INDEX_BYTES + 1 if size is None or size < 0 else size
        data = super().read(min(asked, _INDEX_BYTES + 1))
        if len(data) > _INDEX_BYTES:
            raise zipfile.BadZipFile("its index is too large")
        return data


@contextlib.contextmanager
def _directory(path: str | Path, parent: int | None = None) -> Iterator[int]:
    """A descriptor of a folder; below `parent`, no link is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if parent is None else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
