"""Level and noise of many series, from their newest samples up to a given one."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dashboards.stats.history import Floats, Ints
from dashboards.stats.samples import Samples

LEVEL = 32
"""Samples that a level is learned from: about a month of nights."""
WINDOW = 64
"""Samples that the noise around it is learned from."""
MAD = 1.482602
"""Standard deviation over median absolute deviation of a normal distribution: 1 / Φ⁻¹(3/4)."""
_TAIL, _TAIL_Z = 0.9, 1.644854
"""Of a normal distribution that share lies within so many standard deviations: Φ⁻¹(0.95)."""
_PRIOR, _PRIOR_PAIRS = 0.2, 16
"""Correlation that is taken for granted, and how many pairs of samples it weighs as much as."""
_MOST = 0.95
TIE = 1e-9
"""Logarithms that differ by less are of equal values: rounding is no noise."""


class Levels:
    """The last samples up to some column: their median, and the noise around it.

    Samples from before the last step are kept for the noise alone: each is remembered by how far it
    was from the level of its own time, so that a step widens nothing and nothing is forgotten.
    """

    def __init__(self, samples: Samples) -> None:
        self._first = samples.first
        self._offsets = np.arange(1 - WINDOW, 1)
        self._logs = samples.logs
        self._residuals = np.full_like(samples.logs, np.inf)
        self._log_windows = sliding_window_view(self._logs, WINDOW, axis=1)
        self._residual_windows = sliding_window_view(self._residuals, WINDOW, axis=1)
        self.start = samples.first.copy()
        """(rows,): column of the first sample on the present level."""
        self.centre = np.full_like(samples.logs, np.nan)
        """(rows, columns): median of the present level's last `LEVEL` samples up to that column."""
        self.sigma = np.full_like(samples.logs, np.nan)
        """(rows, columns): noise of one sample, as a normal distribution's standard deviation."""
        self.rho = np.full_like(samples.logs, np.nan)
        """(rows, columns): correlation of one sample with the next, 0 to `_MOST`."""

    def own(self, rows: Ints, ends: Ints | int) -> Ints:
        """How many samples of the present level there are up to that column, `WINDOW` at most."""
        return np.clip(ends - self.start[rows] + 1, 0, WINDOW)

    def all(self, rows: Ints, ends: Ints | int) -> Ints:
        """How many samples of any level there are up to that column, `WINDOW` at most."""
        return np.clip(ends - self._first[rows] + 1, 0, WINDOW)

    def pool(self, rows: Ints, ends: Ints) -> Floats:
        """(len(rows), WINDOW): the samples up to a column, old levels moved to the present one."""
        logs, present = self._window(rows, ends)
        old = self._residual_windows[rows, ends - WINDOW + 1] + self.centre[rows, ends][:, None]
        return np.where(present, logs, old)

    def learn(self, rows: Ints, ends: Ints) -> None:
        """Fills `centre`, `sigma` and `rho` at columns where the present level has samples."""
        logs, present = self._window(rows, ends)
        ordered = np.sort(np.where(present, logs, np.inf)[:, -LEVEL:], axis=1)
        centre = middle(ordered, np.minimum(self.own(rows, ends), LEVEL))
        away = logs - centre[:, None]
        np.copyto(away, self._residual_windows[rows, ends - WINDOW + 1], where=~present)
        count = self.all(rows, ends)
        self.centre[rows, ends] = centre
        self.rho[rows, ends] = correlation(away, count)
        away = np.sort(np.abs(away, out=away), axis=1)
        tail = (_TAIL * (count - 1)).astype(np.int64)
        far = np.take_along_axis(away, tail[:, None], axis=1)[:, 0]
        self.sigma[rows, ends] = np.maximum(MAD * middle(away, count), far / _TAIL_Z)

    def error(self, rows: Ints, end: int, recent: int) -> Floats:
        """Standard error of the level of the next `recent` samples less the level at a column."""
        own = np.minimum(self.own(rows, end), LEVEL)
        rho = self.rho[rows, end]
        parts: Floats = mean_variance(recent, rho) + mean_variance(own, rho)
        error: Floats = self.sigma[rows, end] * np.sqrt(parts)
        return error

    def close(self, rows: Ints, starts: Ints, before: Floats) -> None:
        """Ends the present levels, which were at `before`, where new ones start."""
        columns = np.arange(self._logs.shape[1])
        ended = (columns >= self.start[rows][:, None]) & (columns < starts[:, None])
        away = self._logs[rows] - before[:, None]
        away[np.abs(away) < TIE] = 0
        self._residuals[rows] = np.where(ended, away, self._residuals[rows])
        self.start[rows] = starts

    def _window(self, rows: Ints, ends: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        present = (ends - self.start[rows])[:, None] + self._offsets >= 0
        return self._log_windows[rows, ends - WINDOW + 1], present


def middle(ordered: Floats, count: Ints) -> Floats:
    """Medians of the first `count` numbers of each row, which are in order."""
    low = np.take_along_axis(ordered, ((count - 1) // 2)[:, None], axis=1)
    high = np.take_along_axis(ordered, (count // 2)[:, None], axis=1)
    return ((low + high) / 2)[:, 0]


def correlation(residuals: Floats, count: Ints) -> Floats:
    """Correlation of each of `count` residuals in a row with the next: by their signs alone.

    With q the mean product of neighbouring signs it is sin(q π/2) for normal noise: N. Blomqvist,
    "On a measure of dependence between two random variables", Ann. Math. Stat. 21 (1950) 593-600,
    https://doi.org/10.1214/aoms/1177729754. No outlier can sway it. What is not finite is no
    residual.
    """
    signs = np.where(np.isfinite(residuals), np.sign(residuals), 0).astype(np.int8)
    products = np.sum(signs[:, 1:] * signs[:, :-1], axis=1)
    q = (products + _PRIOR * _PRIOR_PAIRS) / (count - 1 + _PRIOR_PAIRS)
    rho: Floats = np.clip(np.sin(np.pi / 2 * q), 0, _MOST)
    return rho


def mean_variance(count: Ints | int, rho: Floats) -> Floats:
    """Variance of the mean of so many samples of unit variance, each correlated `rho` to the next.

    First-order autoregression: the sum of ρ^|i-j| over all pairs of samples, over their number.
    """
    pairs = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
    return np.asarray(pairs / count, np.float64)
