"""Folders as single files: jobs on their way out, results on their way back.

A parcel is a gzipped tar of regular files with plain relative names. What comes back was written
by somebody else's machine: it is bounded in every way while it is unpacked, and a name that leads
anywhere else, a link, a device or one byte too many refuses it as a whole.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from orchestrator.errors import InfrastructureError
from orchestrator.job import is_plain_path
from orchestrator.results.files import unwritable

SUFFIX = ".tar.gz"
_BLOCK = 1 << 20


class ParcelError(InfrastructureError):
    """A parcel that is refused; says why."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a parcel may hold, unpacked."""

    files: int = 50_000
    file_bytes: int = 256 << 20
    total_bytes: int = 4 << 30


def pack(
    folder: Path,
    archive: Path,
    skip: Iterable[str] = (),
    more: Mapping[str, bytes] | None = None,
) -> str:
    """Writes all files below a folder to `archive`; returns its SHA-256.

    The same files give the same bytes. Links and names that are not plain are left out; `skip`
    names what else is, at the top. `more`: files, by name, that are not in the folder.

    Raises:
        InfrastructureError: it cannot be written.
    """
    left_out = set(skip)
    try:
        with _beside(archive) as temporary:
            with (
                temporary.open("wb") as raw,
                gzip.GzipFile(
                    filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6
                ) as zipped,
                tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
            ):
                for name, path in sorted(_files(folder)):
                    if name.partition("/")[0] not in left_out:
                        _add(tar, name, path.read_bytes())
                for name, data in sorted((more or {}).items()):
                    _add(tar, name, data)
            sha256 = digest(temporary)
            temporary.replace(archive)
    except OSError as error:
        raise unwritable(archive, error) from error
    return sha256


def unpack(archive: Path, folder: Path, bounds: Bounds | None = None) -> None:
    """Fills `folder`, which must not exist, from a parcel; it is there whole or not at all.

    Raises:
        ParcelError: no parcel, or one that breaks the bounds.
        InfrastructureError: the folder cannot be written.
    """
    try:
        with _beside(folder, as_folder=True) as temporary:
            try:
                _unpack(archive, temporary, bounds or Bounds())
            except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
                raise ParcelError(f"{archive.name} is no parcel: {error}") from error
            temporary.chmod(0o755)
            temporary.rename(folder)
    except OSError as error:
        raise unwritable(folder, error) from error


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if is_plain_path(name) and path.is_file() and not path.is_symlink():
            yield name, path


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def _unpack(archive: Path, folder: Path, bounds: Bounds) -> None:
    files, left = 0, bounds.total_bytes
    with gzip.open(archive, "rb") as zipped:
        with tarfile.open(fileobj=cast(IO[bytes], _Measured(zipped)), mode="r:") as tar:
            for member in tar:
                if member.isdir():
                    continue
                name = member.name.removeprefix("./")
                files += 1
                left -= member.size
                _check(member, name, bounds, files, left)
                source = tar.extractfile(member)
                assert source is not None
                _write(source, folder, name)
        # the checksum stands at the very end
        for _ in range(bounds.total_bytes // _BLOCK + 2):
            if not zipped.read(_BLOCK):
                return
    raise ParcelError("parcel refused: it does not end")


class _Measured(io.RawIOBase):
    """A file that is read in small pieces: no header can make us hold a large one."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _BLOCK:
            raise ParcelError("parcel refused: a header is too large")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _check(member: tarfile.TarInfo, name: str, bounds: Bounds, files: int, left: int) -> None:
    if not member.isreg() or member.issparse():
        raise ParcelError(f"parcel refused: {name!r:.80} is no regular file")
    if not is_plain_path(name):
        raise ParcelError(f"parcel refused: {name!r:.80} is no plain relative path")
    if files > bounds.files:
        raise ParcelError(f"parcel refused: more than {bounds.files:,} files")
    if member.size > bounds.file_bytes or left < 0:
        raise ParcelError(
            f"parcel refused: {name!r:.80} is too large ({bounds.file_bytes:,} bytes in a file, "
            f"{bounds.total_bytes:,} in all)"
        )


def _write(source: IO[bytes], folder: Path, name: str) -> None:
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise ParcelError(f"parcel refused: {name!r:.80} is there twice") from None
    with file:
        shutil.copyfileobj(source, file, _BLOCK)


@contextlib.contextmanager
def _beside(path: Path, *, as_folder: bool = False) -> Iterator[Path]:
    """A temporary file or folder on the same disk; gone afterwards unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if as_folder:
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=".", suffix=".tmp"))
    else:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        temporary.chmod(0o644)
    try:
        yield temporary
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
