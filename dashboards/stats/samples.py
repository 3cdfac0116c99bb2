"""Series without their gaps, laid out so that many can be walked through at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dashboards.stats.history import Floats, Ints

_ROWS = 2048
"""Series at a time: a few megabytes of work space, and few enough calls of NumPy."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """One series a row, one sample a column, those to be judged from column `lookback` on.

    Rows with the most samples to be judged come first.
    """

    series: Ints
    """(rows,): which series."""
    logs: Floats
    """(rows, columns): natural logarithm of the value, so that a ratio is a difference; +inf where
    there is no sample."""
    night: Ints
    """(rows, columns): which night."""
    first: Ints
    """(rows,): column of the first sample ever; negative where it lies before the first column."""
    end: Ints
    """(rows,): the column after the last sample."""
    lookback: int
    """Columns of samples that were judged earlier."""

    def columns(self, rows: Ints, nights: Ints) -> Ints:
        """Columns of the samples of these nights; the first one's, of nights before it."""
        older = (self.night[rows] >= 0) & (self.night[rows] < nights[:, np.newaxis])
        columns: Ints = np.maximum(self.first[rows], 0) + np.count_nonzero(older, axis=1)
        return columns


def chunks(values: Floats, judged: int, lookback: int) -> Iterator[Samples]:
    """Lays out values (n_series, n_nights), of which the first `judged` nights were judged.

    What is not a finite, positive number is no sample: a time of 0 is below the clock's resolution,
    and nothing is so many times slower than it.
    """
    valid = np.isfinite(values) & (values > 0)
    old = np.count_nonzero(valid[:, :judged], axis=1)
    new = np.count_nonzero(valid[:, judged:], axis=1)
    order = np.argsort(-new, kind="stable")
    for at in range(0, len(order), _ROWS):
        series = order[at : at + _ROWS]
        some = valid[series]
        rows, nights = np.nonzero(some)
        columns = (np.cumsum(some, axis=1)[rows, nights] - 1) - old[series][rows] + lookback
        kept = columns >= 0
        rows, nights, columns = rows[kept], nights[kept], columns[kept]
        shape = (len(series), lookback + int(new[series[0]]))
        logs = np.full(shape, np.inf)
        logs[rows, columns] = np.log(values[series[rows], nights])
        night = np.full(shape, -1, np.int64)
        night[rows, columns] = nights
        yield Samples(
            series=series,
            logs=logs,
            night=night,
            first=lookback - old[series],
            end=lookback + new[series],
            lookback=lookback,
        )
