"""The walk through the nights that `judge` takes with many series at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dashboards.stats.history import Floats, Ints, Judged, Steps, Verdict
from dashboards.stats.levels import WINDOW, Levels
from dashboards.stats.ranks import critical
from dashboards.stats.samples import Samples

SCALES = (4, 8, 16)
"""How many of the newest samples are held against those before them."""
LAG = SCALES[0]
FALSE_ALARMS = 1e-3
"""Bound on false alarms for each series and night."""
ALPHA = FALSE_ALARMS / (2 * len(SCALES))
"""One-sided level of each rank test: there are so many a night."""
Z = 6.0
"""A step is at least so many standard errors of the difference of two levels."""
LEAST = log(1.02)
"""A step is at least 2 %, however quiet the series is."""
BAND = 3.0
"""Half the width of the noise band, in standard deviations."""
ENOUGH = 10
"""Samples before the newest ones, at least."""
ENOUGH_OWN = 4
"""Of these, samples on the present level, at least."""
DRIFT = 2.0
"""A drift is at least so many standard deviations of one sample in `WINDOW` samples."""
LOOKBACK = LAG + 2 * WINDOW
"""Samples before the first one to judge that matter."""


class Scan:
    """One chunk of series on its way from the first night to the last."""

    def __init__(self, samples: Samples, earlier: Steps) -> None:
        self._samples = samples
        self._levels = Levels(samples)
        shape = samples.logs.shape
        self._verdict = np.zeros(shape, np.int8)
        self._ratio = np.full(shape, np.nan)
        self._baseline = np.full(shape, np.nan)
        self._margin = np.full(shape, np.nan)
        self._recent = {k: sliding_window_view(samples.logs, k, axis=1) for k in SCALES}
        self._replay(earlier)

    def run(self) -> Iterator[Steps]:
        """Judges all samples from `lookback` on, and gives the steps as they are called."""
        first, last = self._samples.lookback, self._samples.logs.shape[1]
        ends = {i - LAG - d for i in range(first, last) for d in (*SCALES, 0, WINDOW // 2, WINDOW)}
        for end in sorted(e for e in ends if e < first - LAG):
            self._learn(np.arange(len(self._samples.series)), end)
        for column in range(first, last):
            rows = np.flatnonzero(self._samples.end > column)
            self._learn(rows, column - LAG)
            self._look(rows, column)
            for scale in SCALES:
                yield from self._call(rows, column, scale)

    def tell(self, out: Judged) -> None:
        """Writes what was found into the arrays of all series."""
        rows, columns = np.nonzero(self._verdict)
        at = self._samples.series[rows], self._samples.night[rows, columns] - out.first
        centre, margin = self._baseline[rows, columns], self._margin[rows, columns]
        out.verdict[at] = self._verdict[rows, columns]
        out.ratio[at] = self._ratio[rows, columns]
        out.baseline[at] = np.exp(centre)
        out.low[at] = np.exp(centre - margin)
        out.high[at] = np.exp(centre + margin)

    def _replay(self, earlier: Steps) -> None:
        row = {int(series): at for at, series in enumerate(self._samples.series)}
        mine = earlier.take(np.isin(earlier.series, self._samples.series))
        for night in np.unique(mine.called):
            steps = mine.take(mine.called == night)
            rows = np.array([row[int(series)] for series in steps.series], np.int64)
            starts = self._samples.columns(rows, steps.night)
            self._levels.close(rows, starts, np.log(steps.before))

    def _learn(self, rows: Ints, end: int) -> None:
        rows = rows[self._levels.own(rows, end) >= ENOUGH_OWN]
        self._levels.learn(rows, np.full(len(rows), end))

    def _able(self, rows: Ints, column: int, scale: int) -> NDArray[np.bool_]:
        """Whether that many of the newest samples could be called a step."""
        end = column - scale
        count = self._levels.all(rows, end)
        possible = critical(scale, WINDOW, ALPHA)[count] <= scale * count
        own = self._levels.own(rows, end)
        return possible & (own >= ENOUGH_OWN) & (count >= ENOUGH)

    def _look(self, rows: Ints, column: int) -> None:
        """What is said of the night as long as no step is called."""
        able = np.zeros(len(rows), np.bool_)
        for scale in SCALES:
            able |= self._able(rows, column, scale)
        verdict = np.where(able, Verdict.STEADY, Verdict.INSUFFICIENT)
        end = column - LAG
        known = rows[
            (self._levels.own(rows, end) >= ENOUGH_OWN) & (self._levels.all(rows, end) >= ENOUGH)
        ]
        self._baseline[known, column] = self._levels.centre[known, end]
        self._margin[known, column] = np.maximum(BAND * self._levels.sigma[known, end], LEAST)
        self._verdict[rows, column] = verdict
        self._look_for_drift(rows, end, column)

    def _look_for_drift(self, rows: Ints, end: int, column: int) -> None:
        rows = rows[self._levels.own(rows, end - WINDOW) >= WINDOW // 2]
        centre, sigma = self._levels.centre, self._levels.sigma
        old, new = centre[rows, end - WINDOW], centre[rows, end]
        moved = new - old
        noise = np.maximum(sigma[rows, end], sigma[rows, end - WINDOW])
        far = np.abs(moved) >= np.maximum(LEAST, DRIFT * noise)
        part = (centre[rows, end - WINDOW // 2] - old) / np.where(far, moved, 1)
        drifts = far & (part > 0.1) & (part < 0.9)
        self._verdict[rows[drifts], column] = Verdict.DRIFT
        self._ratio[rows[drifts], column] = np.exp(moved[drifts])

    def _call(self, rows: Ints, column: int, scale: int) -> Iterator[Steps]:
        rows = rows[self._able(rows, column, scale)]
        end = column - scale
        levels = self._levels
        recent = np.sort(self._recent[scale][rows, end + 1], axis=1)
        shift = (recent[:, scale // 2 - 1] + recent[:, scale // 2]) / 2 - levels.centre[rows, end]
        errors = levels.sigma[rows, end] * np.sqrt(1 / scale + 1 / levels.own(rows, end))
        large = np.abs(shift) >= np.maximum(LEAST, Z * errors)
        rows, shift, recent = rows[large], shift[large], recent[large]
        if not len(rows):
            return
        ends = np.full(len(rows), end)
        pool = levels.pool(rows, ends)[:, :, None]
        above = np.count_nonzero(recent[:, None, :] > pool, axis=(1, 2))
        below = np.count_nonzero((recent[:, None, :] < pool) & np.isfinite(pool), axis=(1, 2))
        u = np.where(shift > 0, above, below)
        sure = u >= critical(scale, WINDOW, ALPHA)[levels.all(rows, end)]
        if np.any(sure):
            yield self._step(rows[sure], column, scale, shift[sure])

    def _step(self, rows: Ints, column: int, scale: int, shift: Floats) -> Steps:
        """Dates the steps, writes them down and starts the new levels."""
        levels, samples = self._levels, self._samples
        # what a later call is given is what this one uses
        before = np.exp(levels.centre[rows, column - scale])
        starts = self._dated(rows, column, scale, shift)
        after = np.empty(len(rows))
        for at, (row, start) in enumerate(zip(rows, starts, strict=True)):
            after[at] = np.exp(np.median(samples.logs[row, start : column + 1]))
        levels.close(rows, starts, np.log(before))
        ends = np.arange(column - max(SCALES), column - LAG + 1)
        again, ends = (each.ravel() for each in np.broadcast_arrays(rows[:, None], ends))
        own = levels.own(again, ends) >= ENOUGH_OWN
        levels.learn(again[own], ends[own])
        self._verdict[rows, column] = np.where(after > before, Verdict.SLOWER, Verdict.FASTER)
        self._ratio[rows, column] = after / before
        return Steps(
            series=samples.series[rows],
            night=samples.night[rows, starts],
            previous=samples.night[rows, starts - 1],
            called=samples.night[rows, column],
            before=before,
            after=after,
        )

    def _dated(self, rows: Ints, column: int, scale: int, shift: Floats) -> Ints:
        """Where the new levels start: the split at which the evidence for them is largest."""
        columns = np.arange(column - 2 * scale + 1, column + 1)
        half = shift[:, None] / 2
        old = self._levels.centre[rows, column - scale][:, None]
        away = (self._samples.logs[rows[:, None], columns] - old - half) / half
        score = np.cumsum(np.clip(away, -1, 1)[:, ::-1], axis=1)[:, ::-1]
        possible = columns > self._levels.start[rows][:, None]
        best = np.argmax(np.where(possible, score, -np.inf)[:, :-2], axis=1)
        starts: Ints = columns[0] + best
        return starts
