"""Archives as NumPy columns: strings are codes into lists of distinct ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import DICTIONARIES, RunRecord, read_rows
from orchestrator.results.history.derived import DERIVED
from orchestrator.results.history.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

_ASKED_FOR = ("reproduce", "content", "details")
"""Columns of long texts, of which few rows are ever asked for."""
_CODED = tuple(name for name in DICTIONARIES if name not in _ASKED_FOR)
_NUMBERS = ("attempt", "queued_seconds", "error", *DERIVED)


@dataclass(frozen=True, kw_only=True)
class Text:
    """A column of strings, of shape (rows,)."""

    codes: Ints
    values: tuple[str, ...]
    """Distinct; a code is an index."""

    def at(self, row: int) -> str:
        """The string of a row."""
        return self.values[int(self.codes[row])]

    def code(self, value: str) -> int:
        """The code of a string; -1 when no row has it."""
        try:
            return self.values.index(value)
        except ValueError:
            return -1


@dataclass(frozen=True, kw_only=True)
class Table:
    """All attempts of all runs. Columns have shape (rows,), in no particular order."""

    runs: tuple[RunRecord, ...]
    """By start, then name; `run` has indexes into it."""
    run: Ints
    texts: Mapping[str, Text]
    """`cell status phase message expectation tier stack agent stages fingerprint surroundings`,
    as in `rows.Row`."""
    numbers: Mapping[str, Floats]
    """`attempt queued_seconds error`, as in `rows.Row`; `lowering execute`, see `derived`."""
    sources: tuple[Source, ...]
    source: Ints
    """Index into `sources`."""
    position: Ints
    """Of the row in its source."""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.run)

    def declared(self, digest: str) -> Declared | None:
        """What was declared for a run; None when nobody kept it, or it cannot be read."""
        for source in self.sources:
            if digest in source.archive.declared:
                try:
                    return source.archive.declared[digest]
                except records.RecordError:
                    return None
        return None

    def read(self, column: str, rows: Iterable[int]) -> dict[int, str]:
        """Some rows of `reproduce`, `content` or `details`, which are read when asked for.

        Raises:
            InfrastructureError: an archive is damaged.
        """
        wanted = np.unique(np.asarray(list(rows), dtype=np.int64))
        found: dict[int, str] = {}
        for number in np.unique(self.source[wanted]):
            mine = wanted[self.source[wanted] == number]
            texts = _read(self.sources[number], column, self.position[mine].tolist())
            found.update(zip(mine.tolist(), texts, strict=True))
        return found

    def stage_seconds(self, rows: Ints) -> tuple[NDArray[np.int64], Floats]:
        """Seconds of the stages of some rows, one row after the other, and where each begins:
        shapes (stages of all,) and (rows + 1,).

        Raises:
            InfrastructureError: an archive is damaged.
        """
        counts = np.zeros(len(rows), dtype=np.int64)
        found: list[tuple[NDArray[np.intp], NDArray[np.int64], Floats]] = []
        for number in np.unique(self.source[rows]):
            mine = np.flatnonzero(self.source[rows] == number)
            lists = read_rows(self.sources[number].path, ["stage_seconds"])
            taken = lists.column(0).combine_chunks().take(self.position[rows[mine]])
            counts[mine] = taken.value_lengths().to_numpy(zero_copy_only=False)
            values = taken.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
            found.append((mine, counts[mine], values))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        seconds = np.empty(int(offsets[-1]))
        for places, lengths, values in found:
            within = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            seconds[np.repeat(offsets[places], lengths) + within] = values
        return offsets, seconds


def load(sources: Iterable[Source]) -> Table:
    """The columns of all sources; a run that is in several is taken from the first.

    Raises:
        InfrastructureError: an archive is damaged.
    """
    kept = tuple(sources)
    vocabularies: dict[str, dict[str, int]] = {name: {} for name in _CODED}
    parts = [_Part(source, vocabularies) for source in kept]
    taken: set[str] = set()
    for part in parts:
        part.drop(taken)
        taken |= {record.run for record in part.source.archive.runs}
    return _join(kept, parts, vocabularies)


class _Part:
    """One source's columns, coded in the vocabularies of all."""

    def __init__(self, source: Source, vocabularies: dict[str, dict[str, int]]) -> None:
        self.source = source
        names = [*_CODED, *_NUMBERS]
        table = read_rows(source.path, names).unify_dictionaries()
        self.codes = {name: _recoded(table.column(name), vocabularies[name]) for name in _CODED}
        self.numbers = {
            name: np.asarray(table.column(name).to_numpy(), dtype=np.float64) for name in _NUMBERS
        }
        self.position = np.arange(len(table), dtype=np.int32)
        self._run_codes = {
            record.run: vocabularies["run"].get(record.run, -1) for record in source.archive.runs
        }

    def drop(self, taken: set[str]) -> None:
        """Leaves out rows of runs that another source has, or that this one does not name."""
        good = [code for run, code in self._run_codes.items() if run not in taken]
        keep = np.isin(self.codes["run"], good)
        if keep.all():
            return
        self.position = self.position[keep]
        self.codes = {name: codes[keep] for name, codes in self.codes.items()}
        self.numbers = {name: column[keep] for name, column in self.numbers.items()}


def _recoded(column: pa.ChunkedArray, vocabulary: dict[str, int]) -> Ints:
    """Codes in a vocabulary that grows as it must."""
    if column.null_count:
        raise InfrastructureError("an archive has a text that is missing: make it again")
    chunks = column.chunks
    if not chunks:
        return np.zeros(0, dtype=np.int32)
    # unified: every chunk has the same dictionary
    values = chunks[0].dictionary.to_pylist()
    mapped = [vocabulary.setdefault(value, len(vocabulary)) for value in values]
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    found: Ints = np.asarray(mapped or [0], dtype=np.int32)[codes]
    return found


def _join(
    sources: tuple[Source, ...], parts: list[_Part], vocabularies: dict[str, dict[str, int]]
) -> Table:
    records = {r.run: r for source in reversed(sources) for r in source.archive.runs}
    runs = tuple(sorted(records.values(), key=lambda r: (r.started, r.run)))
    order = {record.run: index for index, record in enumerate(runs)}
    ranks = np.asarray([order.get(name, -1) for name in vocabularies["run"]], dtype=np.int32)
    texts = {
        name: Text(
            codes=_cat([part.codes[name] for part in parts], np.int32),
            values=tuple(vocabularies[name]),
        )
        for name in _CODED
    }
    run = texts.pop("run").codes
    return Table(
        runs=runs,
        run=ranks[run] if len(ranks) else run,
        texts=texts,
        numbers={
            name: _cat([part.numbers[name] for part in parts], np.float64) for name in _NUMBERS
        },
        sources=sources,
        source=_cat(
            [np.full(len(p.position), i, dtype=np.int32) for i, p in enumerate(parts)], np.int32
        ),
        position=_cat([part.position for part in parts], np.int32),
    )


def _cat(arrays: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _read(source: Source, column: str, positions: Sequence[int]) -> list[str]:
    """Some rows of a column; only the row groups that they are in are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    coded = [column] if column in DICTIONARIES else []
    try:
        with pq.ParquetFile(source.path, read_dictionary=coded, memory_map=True) as file:
            starts = np.cumsum(
                [0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))]
            )
            groups = np.searchsorted(starts, positions, side="right") - 1
            columns = {
                group: file.read_row_group(group, columns=[column]).column(column)
                for group in dict.fromkeys(groups.tolist())
            }
        return [
            str(columns[group][position - int(starts[group])].as_py())
            for group, position in zip(groups.tolist(), positions, strict=True)
        ]
    except (OSError, ValueError, IndexError, pa.ArrowException) as error:
        raise InfrastructureError(f"{source.path} is damaged: {error}") from error
