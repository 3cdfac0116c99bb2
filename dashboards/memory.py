"""What statistics said of earlier nights, kept so that one more night costs one night.

A memory changes nothing but time: it is used only where the nights that it knows are, value for
value, those at hand, and it was made by the same version.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dashboards.stats import Steps, judge
from orchestrator.results.history.growing import Growing
from orchestrator.results.history.table import Floats

_STEPS = {
    field.name: np.float64 if field.name in ("before", "after") else np.int64
    for field in dataclasses.fields(Steps)
}


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """What is said of one measure: noise bands of shape (cells, nights), and steps."""

    low: Floats
    high: Floats
    steps: Steps


class Memory:
    """A folder with a folder for each measure."""

    def __init__(self, folder: Path | None, version: str) -> None:
        """None: remembers nothing."""
        self._folder = folder
        self._version = version

    def judged(self, name: str, values: Floats) -> Speeds:
        """What `judge` says of all nights, of which only those that are new are judged."""
        if self._folder is None or not values.size:
            found = judge(values)
            return Speeds(low=found.low, high=found.high, steps=found.steps)
        files = Growing(self._folder / name, f"{self._version} {len(values)}")
        first = _recalled(files, values)
        if first < values.shape[1]:
            known = _speeds(files, len(values))
            new = judge(values, judged=first, steps=known.steps)
            steps = new.steps.take(np.arange(len(known.steps.series), len(new.steps.series)))
            files.append(
                _mark(values),
                # a night is a row here: files grow at their ends
                {"low": new.low.T, "high": new.high.T}
                | {column: getattr(steps, column) for column in _STEPS},
            )
            files.keep()
        return _speeds(files, len(values))


def _recalled(files: Growing, values: Floats) -> int:
    """How many nights are known; what is of other nights is forgotten."""
    nights = [int(name.partition(" ")[0]) for name in files.names]
    fit = [count for count, each in enumerate(nights, 1) if each <= values.shape[1]]
    # the newest night may be another than it was, as while its run goes on
    for count in fit[:-3:-1]:
        before = nights[count - 1]
        if files.names[count - 1] == _mark(values[:, :before]):
            files.back_to(count)
            return before
    files.back_to(0)
    return 0


def _mark(values: Floats) -> str:
    """How many nights there are, and a digest of all that was measured."""
    digest = hashlib.sha256(np.ascontiguousarray(values).data)
    return f"{values.shape[1]} {digest.hexdigest()}"


def _speeds(files: Growing, cells: int) -> Speeds:
    low, high = (files.array(each, np.float64, cells).T for each in ("low", "high"))
    steps = Steps(**{name: files.array(name, dtype) for name, dtype in _STEPS.items()})
    return Speeds(low=low, high=high, steps=steps)
