"""The columns that charts, filters and comparisons are made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.nights import PASS, Nights, letters
from dashboards.texts import one_line, rounded
from orchestrator.results.alike import normalised
from orchestrator.results.history.rows import STAGE_SEPARATOR
from orchestrator.results.history.table import Floats, Table

_INFINITE = 1e9
"""What an infinite error is drawn as."""


# --- nights ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CellLists:
    """Distinct lists of cells, by digest, and the digest for each night."""

    lists: dict[str, doc.CellList]
    of_night: tuple[str, ...]


def cell_lists(facts: Facts) -> CellLists:
    """Nights on which the same cells were there, in the same stacks and tiers, share a list."""
    nights = facts.nights
    lists: dict[str, doc.CellList] = {}
    of_night = []
    made: dict[bytes, str] = {}
    for night in range(len(nights.nights)):
        cells = np.flatnonzero(nights.row[:, night] >= 0)
        rows = nights.row[cells, night]
        stack, tier = (nights.table.texts[name].codes[rows] for name in ("stack", "tier"))
        key = cells.tobytes() + stack.tobytes() + tier.tobytes()
        if key not in made:
            found = _cell_list(nights, cells, rows)
            made[key] = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
            lists[made[key]] = found
        of_night.append(made[key])
    return CellLists(lists=lists, of_night=tuple(of_night))


def _cell_list(nights: Nights, cells: NDArray[np.int64], rows: NDArray[np.int32]) -> doc.CellList:
    stacks, stack = _shared(nights, "stack", rows)
    tiers, tier = _shared(nights, "tier", rows)
    return doc.CellList(
        cells=tuple(nights.cells[index].id for index in cells),
        stacks=stacks,
        stack=stack,
        tiers=tiers,
        tier=tier,
    )


def _shared(
    nights: Nights, column: str, rows: NDArray[np.int32]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Distinct texts of a column, sorted, and for each row an index into them."""
    texts = [nights.table.texts[column].at(int(row)) for row in rows]
    names = sorted(set(texts))
    index = {name: number for number, name in enumerate(names)}
    return tuple(names), tuple(index[text] for text in texts)


def night_columns(facts: Facts, night: int, cells: str) -> doc.NightColumns:
    """What each cell came to on a night; `cells` is the digest of their list."""
    nights = facts.nights
    rows = nights.row[:, night]
    here = np.flatnonzero(rows >= 0)
    status = nights.status[here, night]
    told = rows[here][status != PASS]
    phases: dict[str, int] = {"": 0}
    messages: dict[str, int] = {"": 0}
    texts = nights.table.texts
    phase = [phases.setdefault(texts["phase"].at(int(row)), len(phases)) for row in told]
    message = [
        messages.setdefault(one_line(texts["message"].at(int(row))), len(messages)) for row in told
    ]
    first: dict[str, int] = {}
    return doc.NightColumns(
        night=nights.nights[night],
        cells=cells,
        statuses=letters(status),
        phases=tuple(phases),
        messages=tuple(messages),
        alike=tuple(first.setdefault(normalised(m), i) for i, m in enumerate(messages)),
        phase=tuple(phase),
        message=tuple(message),
    )


def night_list(facts: Facts, of_night: tuple[str, ...]) -> doc.NightList:
    """All nights that can be compared."""
    nights = facts.nights
    return doc.NightList(
        nights=tuple(
            doc.NightEntry(
                night=name,
                cells=of_night[index],
                counts=nights.counts(index),
                runs=tuple(run.run for run in nights.runs[index]),
            )
            for index, name in enumerate(nights.nights)
        )
    )


# --- months ------------------------------------------------------------------------------------


class Histories:
    """Charts' columns of all cells, cut into groups and months."""

    def __init__(self, facts: Facts) -> None:
        """Rounds once what is written many times."""
        self._facts = facts
        nights = facts.nights
        table = nights.table
        row = nights.row
        error = np.full(row.shape, np.nan)
        there = row >= 0
        error[there] = table.numbers["error"][row[there]]
        self._error = rounded(np.where(np.isinf(error), _INFINITE, error), 3)
        self._lowering, self._execute = (
            rounded(matrix, 3) for matrix in (nights.lowering, nights.execute)
        )
        executes = np.isfinite(nights.execute).any(axis=1)[:, None]
        low, high = (
            np.where(executes, e, lo)
            for e, lo in (
                (facts.execute.low, facts.lowering.low),
                (facts.execute.high, facts.lowering.high),
            )
        )
        self._low, self._high = rounded(low, 3), rounded(high, 3)
        self._stages = _Stages(table)
        self._prints = np.where(there, table.texts["fingerprint"].codes[row], -1)
        months = [night[:7] for night in nights.nights]
        self.months = {
            month: np.flatnonzero(np.asarray(months) == month) for month in dict.fromkeys(months)
        }

    def of(self, month: str, cells: list[int]) -> doc.History:
        """One group's cells in one month; those that have nothing there are left out."""
        nights = self._facts.nights
        columns = self.months[month]
        known = (nights.row[np.ix_(np.asarray(cells), columns)] >= 0).any(axis=1)
        there = [cell for cell, here in zip(cells, known.tolist(), strict=True) if here]
        block = np.ix_(np.asarray(there, dtype=np.int64), columns)
        prints, texts = self._fingerprints(block)
        return doc.History(
            month=month,
            nights=tuple(nights.nights[night] for night in columns),
            fingerprints=texts,
            series={
                nights.cells[cell].key: self._series(cell, columns, prints[index])
                for index, cell in enumerate(there)
            },
        )

    def _fingerprints(
        self, block: tuple[NDArray[np.int64], ...]
    ) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        codes = self._prints[block]
        values = self._facts.nights.table.texts["fingerprint"].values
        distinct, index = np.unique(codes, return_inverse=True)
        names = [values[int(code)] if code >= 0 else "" for code in distinct]
        index = index.reshape(codes.shape)
        known = sorted({name for name in names if name})
        rank = np.asarray([known.index(name) if name else -1 for name in names])
        return (rank[index] if len(rank) else index), tuple(known)

    def _series(
        self, cell: int, columns: NDArray[np.int64], prints: NDArray[np.int64]
    ) -> doc.Series:
        nights = self._facts.nights
        return doc.Series(
            statuses=letters(nights.status[cell, columns]),
            attempts=column(nights.attempts[cell, columns]),
            fingerprints=column(prints),
            error=column(self._error[cell, columns]),
            lowering=column(self._lowering[cell, columns]),
            execute=column(self._execute[cell, columns]),
            stages=self._stages.of(nights.row[cell, columns]),
            low=column(self._low[cell, columns]),
            high=column(self._high[cell, columns]),
        )


class _Stages:
    """Seconds by stage."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._names = [
            text.split(STAGE_SEPARATOR) if text else [] for text in table.texts["stages"].values
        ]
        self._seconds = np.round(table.stage_seconds.astype(np.float64), 4)

    def of(self, rows: NDArray[np.int32]) -> dict[str, doc.Column]:
        """Of some attempts of one cell (-1: none), in the order in which stages appear."""
        table, found = self._table, dict[str, Floats]()
        places = np.flatnonzero(rows >= 0)
        there = rows[places]
        kinds = table.texts["stages"].codes[there]
        for kind in dict.fromkeys(kinds.tolist()):
            names, mine = self._names[kind], kinds == kind
            starts = table.stage_offsets[there[mine]]
            if not names or (table.stage_offsets[there[mine] + 1] - starts != len(names)).any():
                continue
            seconds = self._seconds[starts[:, None] + np.arange(len(names))]
            for index, name in enumerate(names):
                values = found.setdefault(name, np.full(len(rows), np.nan))
                values[places[mine]] = seconds[:, index]
        return {name: column(values) for name, values in found.items()}


def column(values: NDArray[np.generic]) -> doc.Column:
    """Numbers as a document has them; NaN is None."""
    if values.dtype.kind != "f":
        return tuple(values.tolist())
    return tuple(None if value != value else value for value in values.tolist())


def groups(facts: Facts) -> Iterator[tuple[str, list[int]]]:
    """Cells by group, `pytorch_cpu/mlp`, by name."""
    found: dict[str, list[int]] = {}
    for index, cell in enumerate(facts.nights.cells):
        found.setdefault(cell.group, []).append(index)
    yield from sorted(found.items())
