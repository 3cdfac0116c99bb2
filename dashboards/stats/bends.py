"""Whether samples look like a step, or like a bend: a level that moves slowly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dashboards.stats.history import Floats, Ints

KNOTS = 8
"""Places at which a bend is tried, evenly spread over the samples."""
_TINY = 1e-12
"""Sum of squared logarithms that is as good as none: a relative error of a millionth."""


def for_a_step(samples: Floats, count: Ints, length: Ints) -> Floats:
    """How much likelier a step is than a bend: logarithm of the ratio of their likelihoods.

    The last `count` samples of each row are explained by two levels, the second one `length`
    samples long, and by two straight lines that meet at a knot, the best of `KNOTS`. Both by least
    squares, so that with normal noise of unknown size the ratio is (rss_bend / rss_step)^(count/2).
    """
    width = samples.shape[1]
    night = np.arange(width)
    inside = night >= (width - count)[:, None]
    new = night >= (width - length)[:, None]
    step = _about_mean(samples, new)[1] + _about_mean(samples, inside & ~new)[1]
    level, _ = _about_mean(samples, inside)
    time, of_time = _about_mean(np.broadcast_to(night - width / 2, samples.shape), inside)
    slope = np.sum(level * time, axis=1) / of_time
    level -= slope[:, None] * time
    straight = np.sum(level**2, axis=1)
    bend = straight.copy()
    for part in range(1, KNOTS):
        after = np.maximum(0, night - (width - 1 - count * (part / KNOTS))[:, None])
        hinge, _ = _about_mean(after, inside)
        hinge -= (np.sum(hinge * time, axis=1) / of_time)[:, None] * time
        explained = np.sum(level * hinge, axis=1) ** 2
        of_hinge = np.sum(hinge**2, axis=1)
        bend = np.minimum(bend, straight - explained / np.maximum(of_hinge, _TINY))
    ratio: Floats = count / 2 * np.log((np.maximum(bend, 0) + _TINY) / (step + _TINY))
    return ratio


def _about_mean(samples: Floats, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """What is left of the samples inside when their mean is taken off, 0 outside; its squares."""
    count = np.maximum(np.count_nonzero(inside, axis=1), 1)
    mean = np.sum(samples, axis=1, where=inside) / count
    left = np.where(inside, samples - mean[:, None], 0)
    return left, np.sum(left**2, axis=1)
