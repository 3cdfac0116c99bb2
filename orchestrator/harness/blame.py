"""Exceptions that end a cell and say which layer is at fault."""

from __future__ import annotations

from typing import Literal


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
