"""Limits that the kernel keeps for a cell's process and all it starts."""

from __future__ import annotations

import ctypes
import resource
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def limit(memory_bytes: int) -> None:
    """Bounds private memory (heap and anonymous mappings) and forbids core files.

    RLIMIT_DATA and not RLIMIT_AS: frontends map many gigabytes that they never touch.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
