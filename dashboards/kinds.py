"""How a cell differs between two nights: one rule for news, histories and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from dashboards.documents import Kind
from dashboards.nights import NONE, Nights, is_red, is_verdict
from orchestrator.results.history.table import Ints


@cache
def kind(before: int, after: int, alike: bool) -> Kind | None:
    """The kind of a change; None where nothing is worth telling.

    Args:
        before: index into `nights.STATUSES`.
        after: likewise.
        alike: both are red in the same way: status, phase, normalised message.
    """
    codes = np.asarray([before, after], dtype=np.int8)
    (judged_before, judged_after), (red_before, red_after) = is_verdict(codes), is_red(codes)
    if red_after:
        if not judged_before:
            return "new-failure"
        if not red_before:
            return "regression"
        return "still-failing" if alike else "new-failure"
    if judged_after:
        if red_before:
            return "fixed"
        return None if judged_before else "new-pass"
    if before == NONE and after != NONE:
        return "appeared"
    if judged_before or (before != NONE and after == NONE):
        return "disappeared"
    return None


def kinds(nights: Nights, before: Sequence[int] | Ints, after: int) -> list[Kind | None]:
    """For every cell: its change from its night in `before` (-1: it has none) to `after`."""
    earlier = np.asarray(before, dtype=np.int32)
    cells = np.arange(len(nights.cells))
    was = np.where(earlier >= 0, nights.status[cells, earlier], np.int8(NONE))
    alike = (earlier >= 0) & (nights.state[cells, earlier] == nights.state[:, after])
    now = nights.status[:, after]
    return [kind(int(b), int(a), bool(s)) for b, a, s in zip(was, now, alike, strict=True)]
