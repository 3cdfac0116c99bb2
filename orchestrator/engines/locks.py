"""One at a time, among all processes of this machine; the kernel lets go when one dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.engines.base import Progress
from orchestrator.errors import InfrastructureError


@contextlib.contextmanager
def exclusive(file: Path, what: str, progress: Progress) -> Iterator[None]:
    """Holds a lock file, and waits for it while another process does: that is told once.

    Raises:
        InfrastructureError: the file cannot be made or locked.
    """
    descriptor = _opened(file)
    try:
        if not _take(descriptor, wait=False):
            progress(f"{what}: waiting for another run that prepares it")
            _take(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def if_free(file: Path) -> Iterator[bool]:
    """Holds a lock file if nobody else does; says whether."""
    descriptor = _opened(file)
    try:
        yield _take(descriptor, wait=False)
    finally:
        os.close(descriptor)


def take(file: Path) -> int | None:
    """A descriptor that holds a lock file, also when only a process that it was passed to has it.

    None: somebody else holds or looks at it.
    """
    descriptor = _opened(file)
    if _take(descriptor, wait=False):
        return descriptor
    os.close(descriptor)
    return None


def held(file: Path) -> bool:
    """Whether somebody holds a lock file; nobody holds one that is not there."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be read: {error.strerror}") from error
    try:
        # shared: of two who look, neither takes the other for a holder
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _opened(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InfrastructureError(f"{file} cannot be written: {error.strerror}") from error


def _take(descriptor: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        raise InfrastructureError(f"the file system cannot lock files: {error.strerror}") from error
    return True
