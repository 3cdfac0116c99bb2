"""A part of the work in a copy of this process, beside the rest: two processors, half the time."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


@contextlib.contextmanager
def beside(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Begins `work` in a copy of this process, and gives what waits for its outcome.

    The outcome must be one that `pickle` takes. Where processes cannot be copied, and where a copy
    failed, the work is done when its outcome is asked for, and raises what it raises. When the
    block is left, the copy is gone.
    """
    if sys.platform != "linux":
        yield work
        return
    reader, writer = os.pipe()
    life, death = os.pipe()
    pid = _fork()
    if not pid:
        os.close(death)
        _copy(work, writer, life)
    for descriptor in (writer, life):
        os.close(descriptor)
    try:
        yield lambda: _outcome(reader, work)
    finally:
        for descriptor in (reader, death):
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns where there are threads: those of NumPy and Arrow begin anew in a copy
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _copy(work: Callable[[], Any], writer: int, life: int) -> None:
    """Does the work, tells its outcome, and ends; also when the process that it is a copy of does.

    Nothing of what the other process would do at its end is done here.
    """

    def follow() -> None:
        os.read(life, 1)
        os._exit(1)

    try:
        threading.Thread(target=follow, daemon=True).start()
        with open(writer, "wb") as pipe:
            pickle.dump(work(), pipe)
        os._exit(0)
    finally:
        os._exit(1)


def _outcome(reader: int, work: Callable[[], T]) -> T:
    with open(reader, "rb", closefd=False) as pipe:
        data = pipe.read()
    try:
        found: T = pickle.loads(data)  # noqa: S301  a copy of this very process wrote it
    except (EOFError, pickle.UnpicklingError):
        return work()
    return found
