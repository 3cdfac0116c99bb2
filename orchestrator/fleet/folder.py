"""The digest of a job's folder: the SHA-256 of

    lighthouse-ci job 1
    <sha256 of the file, hexadecimal> <its size in bytes> <its path>

as UTF-8, one line for each file, every line with a newline, sorted by path as bytes; paths are
relative, with `/`. Warrants travel in the folder's own folder `warrants`, which is left out.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.fleet.refusal import Kind, Refused
from orchestrator.job import is_plain_path

WARRANTS = "warrants"
"""At the top of a job's folder: `<agent>.json` for each agent that may run it."""

_MAX_JOB_FILES = 10_000
_CHUNK = 1 << 20


def folder_digest(folder: Path) -> str:
    """The digest of a job's folder.

    Raises:
        Refused: it holds what no job has: a link, a device, an odd name, too many files.
        OSError: it cannot be read.
    """
    lines = []
    for path in sorted(_files(folder), key=os.fsencode):
        sha256, size = _hashed(folder / path)
        lines.append(f"{sha256} {size} {path}\n")
    text = "lighthouse-ci job 1\n" + "".join(lines)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Every file's path, with `/`."""
    count = 0
    for parent, folders, names in os.walk(folder, onerror=_raise):
        if Path(parent) == folder and not (folder / WARRANTS).is_symlink():
            folders[:] = [name for name in folders if name != WARRANTS]
        for name in (*folders, *names):
            path = Path(parent) / name
            relative = path.relative_to(folder).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise Refused(Kind.LINK, f"{relative} is a link")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise Refused(Kind.SPECIAL, f"{relative} is no plain file")
            if not is_plain_path(relative):
                raise Refused(Kind.PATH, f"{relative!r:.80} is no name of a job's file")
            count += 1
            if count > _MAX_JOB_FILES:
                raise Refused(Kind.TOO_MANY, f"more than {_MAX_JOB_FILES:,} files")
            if stat.S_ISREG(mode):
                yield relative


def _raise(error: OSError) -> None:
    raise error


def _hashed(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file; a link that took its place is not followed."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size
