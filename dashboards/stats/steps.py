"""Steps in performance, from history, night by night: docs/statistics.md says how and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dashboards.stats.history import Judged, Steps, Verdict
from dashboards.stats.samples import chunks
from dashboards.stats.scan import LOOKBACK, Scan


def judge(values: ArrayLike, *, judged: int = 0, steps: Steps | None = None) -> Judged:
    """Judges each series on each night by what was known on that night.

    `values` (n_series, n_nights) are times: lower is better. NaN is a night without a sample, and
    so is what is not positive and finite. What is said is relative: the unit does not matter.

    Later nights never change what was said of earlier ones. So where the nights before column
    `judged` were judged before, and gave `steps`, only the nights from there on are judged, with
    the same outcome as if all were: `values` are still all nights.

    Raises:
        ValueError: `values` has not two dimensions, or `judged` nights are not among them.
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2:
        raise ValueError(f"values must be (n_series, n_nights), not {table.ndim}-dimensional")
    if not 0 <= judged <= table.shape[1]:
        raise ValueError(f"judged must lie between 0 and {table.shape[1]}, the number of nights")
    known = Steps.joined([] if steps is None else [steps])
    out = _unsaid(table.shape[0], table.shape[1] - judged, judged)
    found = [known]
    for samples in chunks(table, judged, LOOKBACK):
        scan = Scan(samples, known)
        found.extend(scan.run())
        scan.tell(out)
    return replace(out, steps=Steps.joined(found))


def _unsaid(series: int, nights: int, first: int) -> Judged:
    shape = (series, nights)
    ratio, baseline, low, high = (np.full(shape, np.nan) for _ in range(4))
    return Judged(
        first=first,
        verdict=np.full(shape, Verdict.MISSING, np.int8),
        ratio=ratio,
        baseline=baseline,
        low=low,
        high=high,
        steps=Steps.joined([]),
    )
