"""Exceptions that end a cell and say which layer is at fault."""

from __future__ import annotations

import signal
from typing import Literal

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""No program sends these to itself: the kernel does when memory runs out, or somebody stops it."""


class Blamed(Exception):  # noqa: N818  a finding about a cell, not a fault of the harness
    """Ends a cell with a status; the stage that runs is the phase."""

    status: Literal["fail", "error", "miss"]

    def __init__(self, message: str) -> None:
        """Takes what to tell people."""
        super().__init__(message)
        self.message = message


class CompilerFault(Blamed):
    """The compiler under test: a pass failed, code was refused, a contract broke."""

    status = "fail"


class DefinitionFault(Blamed):
    """Our own data: the workload, the recipe, the golden."""

    status = "error"


class MachineFault(Blamed):
    """No verdict was reached: a disk is full, a tool vanished."""

    status = "miss"


def killed_from_outside(number: int) -> str:
    """What to say of a process that a signal ended which is nobody's fault in it; else empty."""
    if number not in _FROM_OUTSIDE:
        return ""
    name = signal.Signals(number).name
    cause = ", most likely because memory ran out" if number == signal.SIGKILL else ""
    return f"killed from outside ({name}){cause}"
