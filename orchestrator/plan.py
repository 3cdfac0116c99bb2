"""Configuration to plan: a pure function. No engine, no network, no clock."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.job import Cell


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """A cell of the matrix, with why it is or is not runnable on this machine."""

    cell: Cell
    stack: str
    tier: str
    runnable: bool
    reason: str
    """Why not; empty when runnable."""
