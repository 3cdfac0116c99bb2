"""Where bundles are unpacked while they are checked: all of one is kept, or nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from orchestrator.fleet.refusal import Kind, Refused

_INCOMING = ".incoming-"


def unanswered(final: Path) -> None:
    """Raises Refused when a bundle was taken into this folder already."""
    if final.exists():
        raise Refused(Kind.REPLAY, f"warrant {final.name} was answered before")


@contextlib.contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A folder inside `target` that is gone afterwards, unless it was renamed.

    Its owner holds a lock on it, which the kernel lets go when the owner dies: so what a killed one
    left behind is told apart from what another one is at work in, and goes.
    """
    target.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    folder, lock = _locked(target)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(target: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=target, prefix=_INCOMING))
        with contextlib.suppress(FileNotFoundError):  # another one swept it before it was locked
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _sweep(target: Path) -> None:
    """Removes what was left by who was killed."""
    for folder in target.glob(f"{_INCOMING}*"):
        with contextlib.suppress(OSError):  # gone, or renamed, or still somebody's
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def settle(folder: Path, final: Path) -> None:
    """Into place, atomically; somebody else may have been faster."""
    folder.chmod(0o755)
    try:
        folder.rename(final)
    except OSError:
        unanswered(final)
        raise
