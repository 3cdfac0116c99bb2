"""Rows to nights: what each cell came to on each night, and since when."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dashboards.documents import LETTERS
from orchestrator.results.alike import normalised
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import RunRecord
from orchestrator.results.history.table import Floats, Ints, Table

Codes = NDArray[np.int8]

STATUSES = ("none", "skip", "miss", "pass", "xfail", "fail", "error", "xpass")
"""In order of what they say: nothing, green, red."""
NONE, SKIP, MISS, PASS, XFAIL, FAIL, ERROR, XPASS = range(8)
_VERDICT = PASS
"""From here on a status is a verdict."""
_RED = FAIL


_PLAIN = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.@+-]{0,99}")


def slug(name: str) -> str:
    """The name itself where it is fit for files and addresses, else what stands for it."""
    if _PLAIN.fullmatch(name) and not name.endswith("."):
        return name
    return f"~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def is_verdict(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Green or red: the cell was judged."""
    return codes >= _VERDICT


def is_red(codes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """`fail`, `error`, `xpass`."""
    return codes >= _RED


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The coordinates of a cell, from its id."""

    id: str
    pipeline: str
    workload: str
    variant: str
    pool: str

    @cached_property
    def group(self) -> str:
        """Where its pages are: `pytorch_cpu/mlp`."""
        return f"{slug(self.pipeline)}/{slug(self.workload)}"

    @property
    def key(self) -> str:
        """What tells it from others of its group: `f32@amd-cpu`."""
        return f"{self.variant}@{self.pool}"

    @cached_property
    def href(self) -> str:
        """Its page, from the site's root."""
        return f"cells/{self.group}/{slug(self.key)}.html"


def parse(cell: str) -> Cell | None:
    """The coordinates in an id; None for what is no id of a cell."""
    path, at, pool = cell.partition("@")
    parts = path.split(".")
    if not at or len(parts) < 3 or not all((*parts, pool)):
        return None
    pipeline, *workload, variant = parts
    return Cell(id=cell, pipeline=pipeline, workload=".".join(workload), variant=variant, pool=pool)


@dataclass(frozen=True, kw_only=True)
class Nights:
    """All cells on all nights. Matrices have shape (cells, nights)."""

    table: Table
    cells: tuple[Cell, ...]
    """By id."""
    nights: tuple[str, ...]
    """ISO 8601 dates with at least one run, the oldest first."""
    runs: tuple[tuple[RunRecord, ...], ...]
    """Of each night, by start."""
    row: NDArray[np.int32]
    """Matrix: the row of the table that counts; -1: none."""
    attempts: NDArray[np.int16]
    """Matrix: attempts of that night."""
    status: Codes
    """Matrix: index into `STATUSES`; `none` where there is no row."""
    lowering: Floats
    """Matrix: seconds; NaN where the cell did not pass."""
    execute: Floats
    """Matrix: seconds; NaN where the cell did not pass."""
    row_status: Codes
    """Shape (rows,): index into `STATUSES`."""
    row_cell: Ints
    """Shape (rows,): the cell of a row; -1 for what is no cell."""
    row_night: Ints
    """Shape (rows,)."""

    @cached_property
    def state(self) -> Ints:
        """Matrix: equal for two nights on which a cell was in the same state: the same status
        and, where it is red, the same phase and normalised message.
        """
        texts = self.table.texts
        alike: dict[str, int] = {}
        forms = np.asarray(
            [alike.setdefault(normalised(m), len(alike)) for m in texts["message"].values] or [0],
            dtype=np.int64,
        )
        phases = max(1, len(texts["phase"].values))
        red = np.flatnonzero(is_red(self.status))
        rows = self.row.reshape(-1)[red]
        detail = forms[texts["message"].codes[rows]] * phases + texts["phase"].codes[rows]
        detail = detail * len(STATUSES) + self.status.reshape(-1)[red]
        _, codes = np.unique(detail, return_inverse=True)
        state = np.array(self.status, dtype=np.int32, order="C")
        state.reshape(-1)[red] = len(STATUSES) + codes
        return state

    @cached_property
    def verdict_night(self) -> Ints:
        """Matrix: the newest night up to this one on which the cell was judged; -1: none."""
        nights = np.arange(len(self.nights), dtype=np.int32)
        judged = np.where(is_verdict(self.status), nights[None, :], np.int32(-1))
        return np.maximum.accumulate(judged, axis=1) if len(self.nights) else judged

    @cached_property
    def known_night(self) -> Ints:
        """Matrix: the newest night up to this one on which the cell had a row; -1: none."""
        nights = np.arange(len(self.nights), dtype=np.int32)
        known = np.where(self.row >= 0, nights[None, :], np.int32(-1))
        return np.maximum.accumulate(known, axis=1) if len(self.nights) else known

    def since(self, night: int) -> Ints:
        """Shape (cells,): the first night of the state in which each cell is on `night`.

        A verdict's state goes back over nights without one; a gap, all nights without a verdict
        since the last, goes back to the first night on which the cell was there at all.
        """
        first = np.full(len(self.cells), night, dtype=np.int32)
        open_ = np.ones(len(self.cells), dtype=bool)
        judged = is_verdict(self.status[:, night])
        for earlier in range(night - 1, -1, -1):
            was = is_verdict(self.status[:, earlier])
            alike = self.state[:, earlier] == self.state[:, night]
            open_ &= np.where(judged, ~was | alike, ~was & (self.known_night[:, earlier] >= 0))
            if not open_.any():
                break
            first[open_ & (was | ~judged)] = earlier
        return first

    def text(self, column: str, cell: int, night: int) -> str:
        """A text column of the row that counts; empty without one."""
        row = int(self.row[cell, night])
        return self.table.texts[column].at(row) if row >= 0 else ""

    def declared(self, night: int) -> Declared | None:
        """What was declared on a night, or on the newest before it that says."""
        for number in range(night, -1, -1):
            for run in reversed(self.runs[number]):
                if found := self.table.declared(run.declared):
                    return found
        return None

    def counts(self, night: int) -> dict[str, int]:
        """Status to the number of cells, of those that have a row that night."""
        codes = self.status[self.row[:, night] >= 0, night]
        found = np.bincount(codes, minlength=len(STATUSES))
        return {name: int(found[i]) for i, name in enumerate(STATUSES) if found[i]}


def nights_of(table: Table) -> Nights:
    """What each cell came to on each night: the last attempt of the last run that has one.

    A run that skipped a cell, or did not get to it, does not hide what another run of the same
    night found.
    """
    parsed = [parse(value) for value in table.texts["cell"].values]
    cells = tuple(sorted((c for c in parsed if c is not None), key=lambda c: c.id))
    rank = {cell.id: index for index, cell in enumerate(cells)}
    to_cell = np.asarray([rank[c.id] if c else -1 for c in parsed] or [-1], dtype=np.int32)
    days = [run.started[:10] for run in table.runs]
    nights = tuple(sorted({day for day in days if _is_date(day)}))
    index = {night: number for number, night in enumerate(nights)}
    # the last one is of rows without a run
    to_night = np.asarray([*(index.get(day, -1) for day in days), -1], dtype=np.int32)
    row_cell = to_cell[table.texts["cell"].codes] if len(table) else np.zeros(0, np.int32)
    row_night = to_night[table.run]
    row, attempts = _counting(table, row_cell, row_night, (len(cells), len(nights)))
    status = _statuses(table)
    matrix = np.where(row >= 0, status[row], np.int8(NONE)) if len(table) else row.astype(np.int8)
    passed = matrix == PASS
    return Nights(
        table=table,
        cells=cells,
        nights=nights,
        runs=tuple(
            tuple(r for r, day in zip(table.runs, days, strict=True) if day == night)
            for night in nights
        ),
        row=row,
        attempts=attempts,
        status=matrix.astype(np.int8, copy=False),
        lowering=_seconds(table.numbers["lowering"], row, passed),
        execute=_seconds(table.numbers["execute"], row, passed),
        row_status=status,
        row_cell=row_cell,
        row_night=row_night,
    )


def _seconds(column: Floats, row: Ints, passed: NDArray[np.bool_]) -> Floats:
    """What no clock can have measured is no sample: results come from other machines."""
    seconds = column[row[passed]]
    seconds[~((seconds > _SHORTEST_S) & (seconds < _LONGEST_S))] = np.nan
    matrix = np.full(row.shape, np.nan)
    matrix[passed] = seconds
    return matrix


def _statuses(table: Table) -> Codes:
    """Index into `STATUSES` of every row; a status of a later version says nothing here."""
    column = table.texts["status"]
    codes = [STATUSES.index(v) if v in STATUSES else NONE for v in column.values]
    return np.asarray(codes or [NONE], dtype=np.int8)[column.codes]


def _counting(
    table: Table, row_cell: Ints, row_night: Ints, shape: tuple[int, int]
) -> tuple[Ints, NDArray[np.int16]]:
    """The row that counts for each cell and night, and how many attempts there were."""
    size = shape[0] * shape[1]
    place = row_cell.astype(np.int64) * shape[1] + row_night
    place[(row_cell < 0) | (row_night < 0)] = size
    attempt = table.numbers["attempt"]
    row = np.full(size + 1, -1, dtype=np.int32)
    row[place] = np.arange(len(place), dtype=np.int32)
    # most places have one row: the others are looked at again
    several = np.flatnonzero((np.bincount(place, minlength=size + 1) > 1)[place])
    told = attempt[several]
    several = several[np.lexsort((told, table.run[several], told > 0))]
    # of several assignments to one place NumPy keeps the last
    row[place[several]] = several
    counts = np.bincount(place[attempt > 0], minlength=size + 1)
    attempts = np.minimum(counts, _MOST_ATTEMPTS).astype(np.int16)
    return row[:size].reshape(shape), attempts[:size].reshape(shape)


_SHORTEST_S, _LONGEST_S = 1e-9, 1e7
_MOST_ATTEMPTS = (1 << 15) - 1


def _is_date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def letters(codes: Codes) -> str:
    """Statuses as letters, one for each."""
    return bytes(_LETTERS[codes]).decode("ascii")


_LETTERS = np.frombuffer("".join(LETTERS[name] for name in STATUSES).encode(), dtype=np.uint8)


def mapping_of(text: Mapping[str, object] | object) -> dict[str, str]:
    """What results say of versions or hardware, as texts; nothing where it is no mapping."""
    return {str(k): str(v) for k, v in text.items()} if isinstance(text, Mapping) else {}
