"""What `judge` says: verdicts night by night, and the steps that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Verdict(IntEnum):
    """What was known of a series on a night, from the samples up to and including that night."""

    MISSING = 0
    """No sample that night: nothing can be said."""
    INSUFFICIENT = 1
    """Too few samples, at all or since the last step, for any step to be called."""
    STEADY = 2
    """Enough samples, and neither a step nor a drift is called."""
    SLOWER = 3
    """On this night a step up was called; the nights after it are judged against the new level."""
    FASTER = 4
    """On this night a step down was called."""
    DRIFT = 5
    """The level moves slowly: over the last weeks, and in no step that could be dated."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """One entry per step, in the order in which they were called, then of series."""

    series: Ints
    """Row of the series."""
    night: Ints
    """Column of the first sample on the new level."""
    previous: Ints
    """Column of the last sample on the old level: the step happened after it, up to `night`."""
    called: Ints
    """Column of the night on which the step was called; what is said of it is from that night."""
    before: Floats
    """Level before, in the unit of the values."""
    after: Floats
    """Level from the step to the night on which it was called, in the unit of the values."""

    @property
    def ratio(self) -> Floats:
        """After / before: above 1 is slower."""
        return self.after / self.before

    def take(self, index: Ints | NDArray[np.bool_]) -> Steps:
        """Some of them: `steps.take(steps.series == 3)`."""
        return Steps(**{each.name: getattr(self, each.name)[index] for each in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """All of them, in order; none, of no parts."""
        columns: dict[str, Any] = {
            each.name: np.concatenate(
                [
                    np.empty(0, np.float64 if each.name in ("before", "after") else np.int64),
                    *(getattr(part, each.name) for part in parts),
                ]
            )
            for each in fields(cls)
        }
        whole = cls(**columns)
        return whole.take(np.lexsort((whole.series, whole.called)))


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Arrays of shape (n_series, n_nights): all nights, or those from `first` on."""

    first: int
    """Column of the values that the first column here belongs to."""
    verdict: NDArray[np.int8]
    """A `Verdict`."""
    ratio: Floats
    """New level / old level: of `SLOWER` and `FASTER` across the step, of `DRIFT` over 32
    samples; NaN otherwise."""
    baseline: Floats
    """The level that the night was judged against, in the unit of the values; NaN without one."""
    low: Floats
    high: Floats
    """The noise band: samples between are no news. In the unit of the values; NaN without one."""
    steps: Steps
    """All steps called so far, those of earlier nights included."""
