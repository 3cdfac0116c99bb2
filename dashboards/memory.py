"""What statistics said of earlier nights, kept so that one more night costs one night.

A memory changes nothing but time: it is used only where the nights that it knows are, value for
value, those at hand, and it was made by the same version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboards.stats import Steps, judge
from orchestrator.results.files import write_atomically
from orchestrator.results.history.table import Floats

_STEPS = tuple(field.name for field in dataclasses.fields(Steps))


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """What is said of one measure: noise bands of shape (cells, nights), and steps."""

    low: Floats
    high: Floats
    steps: Steps


class Memory:
    """A folder with one file for each measure."""

    def __init__(self, folder: Path | None, version: str) -> None:
        """None: remembers nothing."""
        self._folder = folder
        self._version = version

    def judged(self, name: str, values: Floats) -> Speeds:
        """What `judge` says of all nights, of which only those that are new are judged."""
        known = self._recall(name, values)
        first = 0 if known is None else known.low.shape[1]
        if known is not None and first == values.shape[1]:
            return known
        new = judge(values, judged=first, steps=None if known is None else known.steps)
        found = Speeds(
            low=new.low if known is None else np.concatenate([known.low, new.low], axis=1),
            high=new.high if known is None else np.concatenate([known.high, new.high], axis=1),
            steps=new.steps,
        )
        self._keep(name, values, found)
        return found

    def _recall(self, name: str, values: Floats) -> Speeds | None:
        if self._folder is None:
            return None
        try:
            with np.load(self._folder / f"{name}.npz", allow_pickle=False) as file:
                found = {key: file[key] for key in file.files}
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None
        low, high = found.get("low"), found.get("high")
        if low is None or high is None or low.ndim != 2 or low.shape != high.shape:
            return None
        before = low.shape[1]
        if low.shape[0] != values.shape[0] or not 0 < before <= values.shape[1]:
            return None
        if str(found.get("key")) != self._key(values[:, :before]):
            return None
        steps = Steps(**{key: found[key] for key in _STEPS})
        return Speeds(low=low, high=high, steps=steps)

    def _keep(self, name: str, values: Floats, found: Speeds) -> None:
        if self._folder is None:
            return
        columns: dict[str, NDArray[Any]] = {key: getattr(found.steps, key) for key in _STEPS}
        buffer = io.BytesIO()
        np.savez(
            buffer,
            allow_pickle=False,
            low=found.low,
            high=found.high,
            key=np.asarray(self._key(values)),
            **columns,
        )
        write_atomically(self._folder / f"{name}.npz", buffer.getvalue())

    def _key(self, values: Floats) -> str:
        digest = hashlib.sha256(f"{self._version} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()
