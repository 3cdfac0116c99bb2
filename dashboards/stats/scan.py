"""The walk through the nights that `judge` takes with many series at once."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dashboards.stats.bends import for_a_step
from dashboards.stats.history import Floats, Ints, Judged, Steps, Verdict
from dashboards.stats.levels import (
    LEVEL,
    MAD,
    TIE,
    WINDOW,
    Levels,
    correlation,
    mean_variance,
    middle,
)
from dashboards.stats.ranks import critical
from dashboards.stats.samples import Samples

SCALES = (4, 8, 16)
"""How many of the newest samples are held against those before them."""
LAG = SCALES[0]
FALSE_ALARMS = 1e-3
"""Bound on false alarms for each series and night."""
ALPHA = FALSE_ALARMS / (2 * len(SCALES))
"""One-sided level of each rank test: there are so many a night."""
Z = 5.0
"""A level has moved by at least so many standard errors."""
LEAST = log(1.02)
"""It has moved by at least 2 %, however quiet the series is."""
BAND = 3.0
"""Half the width of the noise band, in standard deviations."""
ENOUGH = 10
"""Samples before the newest ones, at least."""
ENOUGH_OWN = 4
"""Of these, samples on the present level, at least."""
BEND = 48
"""Samples of the present level, the newest ones included, in which a bend is looked for."""
SHARP = 1.0
"""A step explains them better than any bend by at least so much: a likelihood ratio of e."""
LOOKBACK = LAG + LEVEL + WINDOW
"""Samples before the first one to judge that matter."""
_MEDIAN = 1.2533
"""Standard error of a median over that of a mean of many normal samples: √(π/2)."""
_PART = 0.1
"""Of a drift's way, what each half of its time has gone at least."""


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
        looked_at = (*SCALES, LAG + LEVEL // 2, LAG + LEVEL)
        ends = {column - back for column in range(first, last) for back in looked_at}
        for end in sorted(end for end in ends if end < first - LAG):
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
        # of numbers at the edge of what there is, a band reaches beyond it
        with np.errstate(over="ignore"):
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
        able = np.any([self._able(rows, column, scale) for scale in SCALES], axis=0)
        self._verdict[rows, column] = np.where(able, Verdict.STEADY, Verdict.INSUFFICIENT)
        end, levels = column - LAG, self._levels
        rows = rows[(levels.own(rows, end) >= ENOUGH_OWN) & (levels.all(rows, end) >= ENOUGH)]
        self._baseline[rows, column] = levels.centre[rows, end]
        self._margin[rows, column] = np.maximum(BAND * levels.sigma[rows, end], LEAST)
        rows = rows[levels.own(rows, end) >= WINDOW]
        moved = levels.centre[rows, end] - levels.centre[rows, end - LEVEL]
        # what drifts widens its own noise: this is but a cheap first look
        far = np.abs(moved) >= np.maximum(LEAST, levels.sigma[rows, end])
        if np.any(far):
            self._look_for_drift(rows[far], column, moved[far])

    def _look_for_drift(self, rows: Ints, column: int, moved: Floats) -> None:
        """A drift moves the level by more than its error, in both halves of the time."""
        end, centre = column - LAG, self._levels.centre
        halfway = centre[rows, end - LEVEL // 2] - centre[rows, end - LEVEL]
        both = np.abs(halfway / moved - 0.5) < 0.5 - _PART
        since = np.arange(1 - WINDOW, 1) + (LEVEL - 1) / 2
        line = centre[rows, end][:, None] + (moved / LEVEL)[:, None] * since
        away = self._samples.logs[rows, end - WINDOW + 1 : end + 1] - line
        window = np.full(len(rows), WINDOW)
        sigma = MAD * middle(np.sort(np.abs(away), axis=1), window)
        variance = 2 * mean_variance(LEVEL, correlation(away, window))
        drifts = both & (np.abs(moved) >= Z * _MEDIAN * sigma * np.sqrt(variance))
        self._verdict[rows[drifts], column] = Verdict.DRIFT
        self._ratio[rows[drifts], column] = np.exp(moved[drifts])

    def _call(self, rows: Ints, column: int, scale: int) -> Iterator[Steps]:
        """Calls steps whose newest samples are so many: large, rare, and no bend."""
        rows = rows[self._able(rows, column, scale)]
        end, levels = column - scale, self._levels
        recent = np.sort(self._recent[scale][rows, end + 1], axis=1)
        shift = middle(recent, np.full(len(rows), scale)) - levels.centre[rows, end]
        large = np.abs(shift) >= np.maximum(LEAST, Z * levels.error(rows, end, scale))
        rows, shift, recent = rows[large], shift[large], recent[large]
        if not len(rows):
            return
        rare = self._rare(rows, end, recent, shift)
        rows, shift = rows[rare], shift[rare]
        starts = self._dated(rows, column, scale, shift)
        sharp = self._sharp(rows, column, scale, shift, starts)
        if np.any(sharp):
            yield self._step(rows[sharp], column, scale, starts[sharp])

    def _rare(self, rows: Ints, end: int, recent: Floats, shift: Floats) -> NDArray[np.bool_]:
        """The rank test: a tie speaks for neither side, so that the level holds with ties too."""
        pool = self._levels.pool(rows, np.full(len(rows), end))[:, :, None]
        recent = recent[:, None, :]
        above = np.count_nonzero(recent > pool + TIE, axis=(1, 2))
        below = np.count_nonzero((recent < pool - TIE) & np.isfinite(pool), axis=(1, 2))
        least = critical(recent.shape[2], WINDOW, ALPHA)[self._levels.all(rows, end)]
        rare: NDArray[np.bool_] = np.where(shift > 0, above, below) >= least
        return rare

    def _sharp(
        self, rows: Ints, column: int, scale: int, shift: Floats, starts: Ints
    ) -> NDArray[np.bool_]:
        """No bend; what lies outside of both noise bands is moved to their edge."""
        end, levels = column - scale, self._levels
        old, edge = levels.centre[rows, end], BAND * levels.sigma[rows, end]
        low, high = old + np.minimum(shift, 0) - edge, old + np.maximum(shift, 0) + edge
        samples = self._samples.logs[rows, column - BEND + 1 : column + 1]
        samples = np.clip(samples, low[:, None], high[:, None])
        count = np.minimum(column + 1 - levels.start[rows], BEND)
        return for_a_step(samples, count, column + 1 - starts) >= SHARP

    def _step(self, rows: Ints, column: int, scale: int, starts: Ints) -> Steps:
        """Writes steps down and starts the new levels."""
        levels, samples = self._levels, self._samples
        before = np.exp(levels.centre[rows, column - scale])
        span = np.arange(column - 2 * scale + 1, column + 1)
        new = np.where(span >= starts[:, None], samples.logs[rows[:, None], span], np.inf)
        after = np.exp(middle(np.sort(new, axis=1), column + 1 - starts))
        # through `before`, so that a later call, which is given no more, does just the same
        levels.close(rows, starts, np.log(before))
        ends = np.arange(column - SCALES[-1], column - LAG + 1)
        again, ends = (each.ravel() for each in np.broadcast_arrays(rows[:, None], ends))
        known = levels.own(again, ends) >= ENOUGH_OWN
        levels.learn(again[known], ends[known])
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
