"""Coverage and speed over the nights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dashboards import documents as doc
from dashboards.cells import flaky_views
from dashboards.facts import Facts
from dashboards.nights import NONE, PASS, SKIP, XFAIL
from dashboards.speed import newest
from dashboards.texts import finite
from dashboards.tonight import days_between
from orchestrator.results.history.table import Floats

_STEPS = 200
_FLAKY = 100
_MOST = 20.0
"""Of a logarithm: times that are e^20 times as long as they were."""


def trends_page(facts: Facts) -> doc.TrendsPage:
    """From the first night to the newest, those that did not happen included."""
    nights = facts.nights.nights
    days = _days(nights)
    at = np.asarray([days.index(night) for night in nights], dtype=np.int64)
    return doc.TrendsPage(
        nights=tuple(days),
        missing=tuple(days_missing(nights)),
        coverage=tuple(_coverage(facts, at, len(days))),
        speed=tuple(_speed(facts, at, len(days))),
        steps=newest(facts, _STEPS),
        flaky=tuple(flaky_views(facts).values())[:_FLAKY],
    )


def days_missing(nights: tuple[str, ...]) -> Iterator[str]:
    """Days between nights on which nothing ran."""
    for first, last in pairwise(nights):
        yield from days_between(first, last)


def _days(nights: tuple[str, ...]) -> list[str]:
    if not nights:
        return []
    last = (dt.date.fromisoformat(nights[-1]) + dt.timedelta(days=1)).isoformat()
    return [nights[0], *days_between(nights[0], last)] if len(nights) > 1 else list(nights)


def _coverage(facts: Facts, at: NDArray[np.int64], days: int) -> Iterator[doc.CoverageSeries]:
    cells = facts.nights.cells
    yield _counted(facts, "all", np.arange(len(cells)), at, days)
    for prefix, key in (("", "pipeline"), ("@", "pool")):
        groups: dict[str, list[int]] = {}
        for index, cell in enumerate(cells):
            groups.setdefault(getattr(cell, key), []).append(index)
        for name in sorted(groups):
            yield _counted(facts, prefix + name, np.asarray(groups[name]), at, days)


def _counted(
    facts: Facts, name: str, cells: NDArray[np.int64], at: NDArray[np.int64], days: int
) -> doc.CoverageSeries:
    """Declared: it has a row; runnable: it was tried; passing: green."""
    status = facts.nights.status[cells]
    there = facts.nights.row[cells] >= 0

    def over(matrix: NDArray[np.bool_]) -> tuple[int, ...]:
        column = np.zeros(days, dtype=np.int64)
        column[at] = matrix.sum(axis=0)
        return tuple(column.tolist())

    return doc.CoverageSeries(
        name=name,
        declared=over(there),
        runnable=over(there & (status != SKIP) & (status != NONE)),
        passing=over((status == PASS) | (status == XFAIL)),
    )


def _speed(facts: Facts, at: NDArray[np.int64], days: int) -> Iterator[doc.SpeedSeries]:
    nights = facts.nights
    groups: dict[tuple[str, str], list[int]] = {}
    for index, cell in enumerate(nights.cells):
        known = int(nights.known_night[index, facts.last])
        stack = nights.text("stack", index, known)
        groups.setdefault((stack, cell.pool), []).append(index)
    execute, lowering = (_relative(m) for m in (nights.execute, nights.lowering))
    for (stack, pool), cells in sorted(groups.items()):
        if np.isfinite(lowering[cells]).any() or np.isfinite(execute[cells]).any():
            yield doc.SpeedSeries(
                stack=stack,
                pool=pool,
                execute=_mean(execute[cells], at, days),
                lowering=_mean(lowering[cells], at, days),
            )


def _relative(seconds: Floats) -> Floats:
    """Logarithms of seconds over the cell's median: 0 is as ever."""
    logs = np.log(np.where(seconds > 0, seconds, np.nan))
    known = np.isfinite(logs).any(axis=1)
    center = np.full((len(logs), 1), np.nan)
    if known.any():
        center[known, 0] = _medians(logs[known])
    relative: Floats = logs - center
    return relative


def _medians(rows: Floats) -> Floats:
    """Of each row, without NaN; every row has a number. As `np.nanmedian`, in a tenth of its time:
    that makes masked arrays.
    """
    ranked = np.sort(rows, axis=1)  # NaN comes last
    count = (~np.isnan(ranked)).sum(axis=1)
    at = np.arange(len(ranked))
    medians: Floats = (ranked[at, (count - 1) // 2] + ranked[at, count // 2]) / 2
    return medians


def _mean(logs: Floats, at: NDArray[np.int64], days: int) -> tuple[float | None, ...]:
    """The geometric mean over cells, for each day; None where none has a sample."""
    known = np.isfinite(logs)
    counts = known.sum(axis=0)
    sums = np.where(known, logs, 0.0).sum(axis=0)
    column = np.full(days, np.nan)
    # the bound is far beyond any change of speed: absurd times from elsewhere may not overflow
    mean = np.clip(sums / np.maximum(counts, 1), -_MOST, _MOST)
    column[at] = np.where(counts > 0, np.exp(mean), np.nan)
    return tuple(finite(float(value)) for value in column)
