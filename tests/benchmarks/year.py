"""A small history, read back."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.history.events import Event, Planted
from orchestrator.results.history.archive import Archive, arrow_schema, read_archive, read_rows
from orchestrator.results.history.rows import STAGE_SEPARATOR, Row


@dataclass(frozen=True)
class Year:
    """What was written, and what was planted."""

    folder: Path
    planted: Planted

    @property
    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    @cached_property
    def archives(self) -> dict[str, Archive]:
        return {path.name: read_archive(path) for path in self.paths}

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(**{**each, "stage_seconds": tuple(each["stage_seconds"])})
            for path in self.paths
            for each in read_rows(path, arrow_schema().names).to_pylist()
        )

    @cached_property
    def nights(self) -> Mapping[str, Mapping[str, list[Row]]]:
        """Date to cell to attempts, in order; nights without rows are there and empty."""
        found: dict[str, defaultdict[str, list[Row]]] = {
            night.night: defaultdict(list) for night in self.planted.nights
        }
        for row in self.rows:
            found[row.run[:10]][row.cell].append(row)
        return {night: dict(cells) for night, cells in found.items()}

    @property
    def dates(self) -> list[str]:
        """Of nights that happened and were complete."""
        thin = {event.night for event in self.planted.of("thin-night")}
        return [n.night for n in self.planted.nights if n.run and n.night not in thin]

    def last(self, night: str, cell: str) -> Row | None:
        """The last attempt."""
        attempts = self.nights[night].get(cell, [])
        return attempts[-1] if attempts else None

    def status(self, night: str, cell: str) -> str:
        """Of the last attempt; empty without a row."""
        row = self.last(night, cell)
        return row.status if row else ""

    def before(self, night: str) -> str:
        """The last complete night before."""
        return max(each for each in self.dates if each < night)

    def during(self, event: Event) -> list[str]:
        """The complete nights on which an event shows."""
        return [n for n in self.dates if event.night <= n and (not event.until or n < event.until)]

    def times(self, event: Event, cell: str, nights: list[str]) -> list[float]:
        """Seconds of what an event is about, where the cell passed."""
        rows = (self.last(night, cell) for night in nights)
        return [_time(row, event.metric) for row in rows if row and row.status == "pass"]

    def document(self, row: Row, column: str) -> dict[str, object]:
        """A JSON column."""
        found = json.loads(getattr(row, column))
        assert isinstance(found, dict)
        return found

    def attempts(self) -> Iterator[Row]:
        """Rows of attempts that were made."""
        return (row for row in self.rows if row.attempt)


def _time(row: Row, metric: str) -> float:
    names = row.stages.split(STAGE_SEPARATOR)
    stop = names.index("execute") if "execute" in names else len(names)
    if metric == "lowering":
        return sum(row.stage_seconds[:stop])
    return row.kernel_seconds if not math.isnan(row.kernel_seconds) else row.stage_seconds[stop]
