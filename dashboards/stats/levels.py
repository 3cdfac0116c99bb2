"""Level and noise of many series, from their newest samples before a given one."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dashboards.stats.history import Floats, Ints
from dashboards.stats.samples import Samples

WINDOW = 32
"""Samples that a level and its noise are learned from: about a month of nights."""
_MAD = 1.482602
"""Standard deviation over median absolute deviation of a normal distribution: 1 / Φ⁻¹(3/4)."""
_TAIL = 0.9
_TAIL_Z = 1.644854
"""Standard deviations within which that share of a normal distribution lies: Φ⁻¹(0.95)."""


class Levels:
    """The last `WINDOW` samples up to some column: their median, and the noise around it.

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
        """(rows, columns): median of the present level's samples up to that column."""
        self.sigma = np.full_like(samples.logs, np.nan)
        """(rows, columns): their noise, on the scale of a normal distribution's deviation."""

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
        """Fills `centre` and `sigma` at these columns."""
        logs, present = self._window(rows, ends)
        own = np.maximum(self.own(rows, ends), 1)
        ordered = np.sort(np.where(present, logs, np.inf), axis=1)
        centre = middle(ordered, own)
        self.centre[rows, ends] = centre
        away = logs - centre[:, None]
        np.copyto(away, self._residual_windows[rows, ends - WINDOW + 1], where=~present)
        away = np.sort(np.abs(away, out=away), axis=1)
        count = np.maximum(self.all(rows, ends), 1)
        tail = (_TAIL * (count - 1)).astype(np.int64)
        far = np.take_along_axis(away, tail[:, None], axis=1)[:, 0]
        self.sigma[rows, ends] = np.maximum(_MAD * middle(away, count), far / _TAIL_Z)

    def close(self, rows: Ints, starts: Ints, before: Floats) -> None:
        """Ends the present levels, which were at `before`, where new ones start."""
        columns = np.arange(self._logs.shape[1])
        ended = (columns >= self.start[rows][:, None]) & (columns < starts[:, None])
        away = self._logs[rows] - before[:, None]
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
