"""The lower end of Wilson's score interval: how large a rate is at least, given few trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z = 1.96
"""Two-sided 95 %, so one-sided 97.5 %."""


def wilson_lower(successes: ArrayLike, trials: ArrayLike, z: float = Z) -> NDArray[np.float64]:
    """The least rate that `successes` of `trials` are compatible with; 0 where there are no trials.

    Both are broadcast against each other. With p = s/n the bound is
    (p + z²/2n - z √(p(1-p)/n + z²/4n²)) / (1 + z²/n): E. B. Wilson, "Probable inference, the law of
    succession, and statistical inference", J. Am. Stat. Assoc. 22 (1927) 209-212,
    https://doi.org/10.1080/01621459.1927.10502953.

    Raises:
        ValueError: a count is negative, or there are more successes than trials.
    """
    s, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    if not bool(np.all((s >= 0) & (s <= n))):
        raise ValueError("successes must lie between 0 and the number of trials")
    some = np.maximum(n, 1)
    p = s / some
    centre = p + z * z / (2 * some)
    margin = z * np.sqrt(p * (1 - p) / some + (z / (2 * some)) ** 2)
    # of no successes the difference is 0 but for rounding
    bound = np.where(s == 0, 0.0, (centre - margin) / (1 + z * z / some))
    return np.asarray(bound, np.float64)
