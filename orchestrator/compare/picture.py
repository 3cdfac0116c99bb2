"""Errors at a glance: how many elements are how far off, and where."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BINS = (
    "equal",
    "to 1 % of the tolerance",
    "to 10 %",
    "within it",
    "to 10 times",
    "to 100 times",
    "beyond",
)
"""What `histogram` counts; the first four are within the tolerance."""
_EDGES = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
_ROWS, _COLUMNS = 16, 32


def histogram(error: npt.NDArray[np.float64], allowed: npt.NDArray[np.float64]) -> tuple[int, ...]:
    """The number of elements in each of `BINS`, by error in units of what is allowed.

    An error is never NaN: one that cannot be told is infinite. Where nothing is allowed, every
    error is beyond.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.where(error == 0, 0.0, np.where(allowed > 0, error / allowed, np.inf))
    # an element on an edge belongs to the bin below: exactly the tolerance is within it
    place = np.searchsorted(np.asarray(_EDGES), units.ravel(), side="left")
    return tuple(np.bincount(place, minlength=len(BINS)).tolist())


def picture(wrong: npt.NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """Where elements are off: rows of percentages of a coarse grid, at most 16 by 32.

    Columns are the innermost dimension, rows all others in order. Empty when nothing is off, or
    there is but one element. A tile in which anything is off has at least 1.
    """
    if wrong.size < 2 or not wrong.any():
        return ()
    flat = wrong.reshape(-1, wrong.shape[-1])
    rows, columns = (
        _cuts(size, most) for size, most in zip(flat.shape, (_ROWS, _COLUMNS), strict=True)
    )
    off = np.add.reduceat(np.add.reduceat(flat.astype(np.int64), rows, 0), columns, 1)
    sizes = np.diff([*rows, flat.shape[0]])[:, None] * np.diff([*columns, flat.shape[1]])[None, :]
    percent = np.where(off > 0, np.maximum(1, off * 100 // sizes), 0)
    return tuple(tuple(row) for row in percent.tolist())


def _cuts(size: int, most: int) -> npt.NDArray[np.int64]:
    """Where each of at most `most` pieces begins, which differ by one at most in length."""
    pieces = min(size, most)
    return np.arange(pieces, dtype=np.int64) * size // pieces
