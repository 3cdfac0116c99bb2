"""Cells counted by status."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dashboards.facts import Facts
from dashboards.nights import STATUSES


def tally(facts: Facts, cells: Iterable[int]) -> dict[str, int]:
    """Status to number, of tonight."""
    codes = facts.nights.status[list(cells), facts.last]
    found = np.bincount(codes, minlength=len(STATUSES))
    return {name: int(found[i]) for i, name in enumerate(STATUSES) if found[i]}
