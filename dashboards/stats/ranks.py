"""Critical values of the Mann-Whitney test, exact for small samples."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray


@cache
def critical(recent: int, most: int, alpha: float) -> NDArray[np.int64]:
    """The least U that is called at one-sided level `alpha`, for 0..`most` reference samples.

    U is the number of pairs in which the recent sample is above the reference sample. Under the
    null hypothesis, that both come from one continuous distribution, every arrangement of the
    `recent` + n samples is as likely as any other; with f(m, n, u) arrangements that give u,
    f(m, n, u) = f(m-1, n, u-n) + f(m, n-1, u): H. B. Mann and D. R. Whitney, "On a test of whether
    one of two random variables is stochastically larger than the other", Ann. Math. Stat. 18
    (1947) 50-60, https://doi.org/10.1214/aoms/1177730491. Where no U is rare enough the value is
    one more than the largest U.
    """
    size = recent * most + 1
    # counts[m]: f(m, n, ·) for the n of the outer loop; they stay exact in 64 bits up to 2^63
    counts = np.zeros((recent + 1, size), np.int64)
    counts[:, 0] = 1
    values = np.full(most + 1, 1, np.int64)
    for n in range(1, most + 1):
        for m in range(1, recent + 1):
            counts[m, n:] += counts[m - 1, : size - n]
        # by symmetry the upper tail is the lower one mirrored
        tail = np.cumsum(counts[recent, : recent * n + 1])
        fits = int(np.searchsorted(tail, alpha * comb(recent + n, n), side="right"))
        values[n] = recent * n + 1 - fits
    values.flags.writeable = False
    return values
