"""The columns that charts, filters and comparisons are made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.nights import PASS, STATUSES, Nights, letters, slug
from dashboards.texts import one_line, rounded
from orchestrator.results.alike import likeness
from orchestrator.results.history.rows import STAGE_SEPARATOR
from orchestrator.results.history.table import Floats, Ints, Table

_INFINITE = 1e9
"""What an infinite error is drawn as."""


# --- nights ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Column:
    """What can be compared: a night, or one of several runs of a night."""

    name: str
    night: int
    rows: Ints
    """Shape (cells,): the row that counts; -1: none."""
    runs: tuple[str, ...]


def columns(facts: Facts) -> Iterator[Column]:
    """Every night, after its runs where it had several; the oldest first."""
    nights = facts.nights
    index = {record.run: number for number, record in enumerate(nights.table.runs)}
    for night, name in enumerate(nights.nights):
        records = nights.runs[night]
        for record in records if len(records) > 1 else ():
            rows = _rows_of(nights, index[record.run])
            yield Column(name=slug(record.run), night=night, rows=rows, runs=(record.run,))
        runs = tuple(record.run for record in records)
        yield Column(name=name, night=night, rows=nights.row[:, night], runs=runs)


def _rows_of(nights: Nights, run: int) -> Ints:
    """The last attempt of each cell in one run."""
    mine = np.flatnonzero((nights.table.run == run) & (nights.row_cell >= 0))
    mine = mine[np.argsort(nights.table.numbers["attempt"][mine], kind="stable")]
    rows = np.full(len(nights.cells), -1, dtype=np.int32)
    rows[nights.row_cell[mine]] = mine
    return rows


@dataclass(frozen=True, kw_only=True)
class CellLists:
    """Distinct lists of cells, by digest, and the digest for each column."""

    lists: dict[str, doc.CellList]
    of_column: tuple[str, ...]


def cell_lists(facts: Facts, compared: Sequence[Column]) -> CellLists:
    """Columns that have the same cells, in the same stacks and tiers, share a list."""
    nights = facts.nights
    lists: dict[str, doc.CellList] = {}
    of_column = []
    made: dict[bytes, str] = {}
    for each in compared:
        cells = np.flatnonzero(each.rows >= 0)
        rows = each.rows[cells]
        stack, tier = (nights.table.texts[name].codes[rows] for name in ("stack", "tier"))
        key = cells.tobytes() + stack.tobytes() + tier.tobytes()
        if key not in made:
            found = _cell_list(nights, cells, rows)
            made[key] = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
            lists[made[key]] = found
        of_column.append(made[key])
    return CellLists(lists=lists, of_column=tuple(of_column))


def _cell_list(nights: Nights, cells: NDArray[np.int64], rows: NDArray[np.int32]) -> doc.CellList:
    stacks, stack = _shared(nights, "stack", rows)
    tiers, tier = _shared(nights, "tier", rows)
    found = [nights.cells[index] for index in cells]
    return doc.CellList(
        cells=tuple(cell.id for cell in found),
        hrefs={cell.id: cell.href for cell in found if "~" in cell.href},
        stacks=stacks,
        stack=stack,
        tiers=tiers,
        tier=tier,
    )


def _shared(
    nights: Nights, column: str, rows: NDArray[np.int32]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Distinct texts of a column, sorted, and for each row an index into them."""
    text = nights.table.texts[column]
    codes, places = np.unique(text.codes[rows], return_inverse=True)
    names = sorted(text.values[code] for code in codes.tolist())
    ranks = np.asarray([names.index(text.values[code]) for code in codes.tolist()], np.int64)
    return tuple(names), tuple(ranks[places].tolist())


def night_columns(facts: Facts, column: Column, cells: str) -> doc.NightColumns:
    """What each cell came to; `cells` is the digest of their list."""
    nights = facts.nights
    here = column.rows[column.rows >= 0]
    status = nights.row_status[here]
    told = here[status != PASS]
    phases: dict[str, int] = {"": 0}
    messages: dict[tuple[str, str], int] = {("", likeness("")): 0}
    texts = nights.table.texts
    phase = [phases.setdefault(texts["phase"].at(int(row)), len(phases)) for row in told]
    said = [texts["message"].at(int(row)) for row in told]
    forms = {text: (one_line(text), likeness(text)) for text in set(said)}
    message = [messages.setdefault(forms[text], len(messages)) for text in said]
    return doc.NightColumns(
        night=column.name,
        cells=cells,
        statuses=letters(status),
        phases=tuple(phases),
        messages=tuple(shown for shown, _ in messages),
        alike=tuple(form for _, form in messages),
        phase=tuple(phase),
        message=tuple(message),
    )


def night_list(facts: Facts, compared: Sequence[Column], of_column: Sequence[str]) -> doc.NightList:
    """All that can be compared."""
    return doc.NightList(
        nights=tuple(
            doc.NightEntry(
                night=each.name, cells=cells, counts=_counts(facts, each), runs=each.runs
            )
            for each, cells in zip(compared, of_column, strict=True)
        )
    )


def _counts(facts: Facts, column: Column) -> dict[str, int]:
    codes = facts.nights.row_status[column.rows[column.rows >= 0]]
    found = np.bincount(codes, minlength=len(STATUSES))
    return {name: int(found[i]) for i, name in enumerate(STATUSES) if found[i]}


# --- months ------------------------------------------------------------------------------------


class Histories:
    """Charts' columns of all cells, cut into groups and months."""

    def __init__(self, facts: Facts) -> None:
        """Looks at nothing before it is asked to."""
        self._facts = facts
        months = [night[:7] for night in facts.nights.nights]
        self.months = {
            month: np.flatnonzero(np.asarray(months) == month) for month in dict.fromkeys(months)
        }

    @lru_cache(maxsize=1)  # noqa: B019  it lives as long as a build
    def _series(self, month: str) -> list[doc.Series]:
        """Of all cells: together they take less time than one after the other."""
        nights, columns = self._facts.nights, self.months[month]
        statuses, width = letters(nights.status[:, columns]), len(columns)
        many = nights.attempts[:, columns]
        attempts = _columns(many)
        again = set(np.flatnonzero((many > 1).any(axis=1)).tolist())
        rows = np.ascontiguousarray(nights.row[:, columns])
        error, lowering, execute, low, high = self._numbers(month)
        return [
            doc.Series(
                statuses=statuses[cell * width : (cell + 1) * width],
                attempts=attempts[cell] if cell in again else (),
                error=error[cell],
                lowering=lowering[cell],
                execute=execute[cell],
                stages=stages,
                low=low[cell],
                high=high[cell],
            )
            for cell, stages in enumerate(_stages(nights.table, rows))
        ]

    def _numbers(self, month: str) -> tuple[list[doc.Column], ...]:
        """Error, lowering, execute, low, high of all cells in a month, rounded."""
        nights, columns = self._facts.nights, self.months[month]
        rows = nights.row[:, columns]
        error = np.where(rows >= 0, nights.table.numbers["error"][rows], np.nan)
        lowering, execute = nights.lowering[:, columns], nights.execute[:, columns]
        bands = []
        executes = np.isfinite(execute).any(axis=1, keepdims=True)
        for name in ("low", "high"):
            of_execute, of_lowering = (
                getattr(judged, name)[:, columns]
                for judged in (self._facts.execute, self._facts.lowering)
            )
            bands.append(np.where(executes, of_execute, of_lowering))
        error = np.where(np.isinf(error), _INFINITE, error)
        return tuple(_columns(rounded(each, 3)) for each in (error, lowering, execute, *bands))

    def there(
        self, month: str, found: Iterable[tuple[str, list[int]]]
    ) -> Iterator[tuple[str, list[int]]]:
        """The groups that have something in a month, with the cells that do."""
        known = np.logical_or.reduce(self._facts.nights.row[:, self.months[month]] >= 0, axis=1)
        for group, cells in found:
            if there := [cell for cell in cells if known[cell]]:
                yield group, there

    def of(self, month: str, there: list[int]) -> doc.History:
        """Cells of one group that have something in a month."""
        nights, series = self._facts.nights, self._series(month)
        return doc.History(
            month=month,
            nights=tuple(nights.nights[night] for night in self.months[month]),
            series={nights.cells[cell].key: series[cell] for cell in there},
        )


def _stages(table: Table, rows: Ints) -> list[dict[str, doc.Column]]:
    """Milliseconds by stage and night, of each cell: the stages of which it has any.

    `rows` are those that count, by cell and night; -1: none.
    """
    flat = rows.ravel()
    order = np.flatnonzero(flat >= 0)
    order = order[np.argsort(flat[order])]
    offsets, seconds = table.stage_seconds(flat[order])
    milliseconds, counts = rounded(seconds * 1e3, 3), np.diff(offsets)
    kinds = table.texts["stages"].codes[flat[order]]
    values: dict[str, Floats] = {}
    for kind in np.unique(kinds).tolist():
        text = table.texts["stages"].values[kind]
        names = text.split(STAGE_SEPARATOR) if text else []
        mine = np.flatnonzero((kinds == kind) & (counts == len(names)))
        block = milliseconds[offsets[mine][:, None] + np.arange(len(names))]
        for name in dict.fromkeys(names):
            # a stage comes again for each chip
            same = [index for index, each in enumerate(names) if each == name]
            column = values.setdefault(name, np.full(len(flat), np.nan))
            # times of forged results can be infinite, both ways
            with np.errstate(invalid="ignore", over="ignore"):
                column[order[mine]] = block[:, same].sum(axis=1)
    found: list[dict[str, doc.Column]] = [{} for _ in rows]
    for name, column in values.items():
        shaped = column.reshape(rows.shape)
        cells = np.flatnonzero(np.isfinite(shaped).any(axis=1))
        for cell, numbers in zip(cells.tolist(), _columns(shaped[cells]), strict=True):
            found[cell][name] = numbers
    return found


def _columns(values: NDArray[np.generic]) -> list[doc.Column]:
    """A list for each cell: the writer of JSON gives null for NaN, and takes no array as fast."""
    return cast(list[doc.Column], values.tolist())


def groups(facts: Facts) -> Iterator[tuple[str, list[int]]]:
    """Cells by group, `pytorch_cpu/mlp`, by name."""
    found: dict[str, list[int]] = {}
    for index, cell in enumerate(facts.nights.cells):
        found.setdefault(cell.group, []).append(index)
    yield from sorted(found.items())
