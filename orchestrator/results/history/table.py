"""Archives as NumPy columns: strings are codes into lists of distinct ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orchestrator import __version__, records
from orchestrator.errors import InfrastructureError
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import (
    ARCHIVE_SCHEMA,
    DICTIONARIES,
    RunRecord,
    read_rows,
)
from orchestrator.results.history.derived import DERIVED
from orchestrator.results.history.growing import Growing, common, lines
from orchestrator.results.history.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

_ASKED_FOR = ("reproduce", "content", "details")
"""Columns of long texts, of which few rows are ever asked for."""
_CODED = tuple(name for name in DICTIONARIES if name not in _ASKED_FOR)
_NUMBERS = ("attempt", "queued_seconds", "error", *DERIVED)
_KEY = " ".join((__version__, str(ARCHIVE_SCHEMA), *_CODED, *_NUMBERS))
"""Of what is kept: another version reads archives anew."""
_Vocabularies = dict[str, dict[str, int]]
"""Distinct strings of each column of texts, and their codes."""


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


def load(sources: Iterable[Source], kept: Path | None = None) -> Table:
    """The columns of all sources; a run that is in several is taken from the first.

    Args:
        sources: those that count more first.
        kept: a folder that keeps the columns, so that next time only sources that are new, or come
            after one that is, are read; whoever gives it is alone with it.

    Raises:
        InfrastructureError: an archive is damaged, or `kept` cannot be written.
    """
    every = tuple(sources)
    if kept is None:
        vocabularies: _Vocabularies = {name: {} for name in _CODED}
        parts = list(_parts(every, 0, vocabularies))

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate(
                [np.zeros(0, _dtype(name)), *(part.columns[name] for part in parts)]
            )

        return _table(every, joined, vocabularies)
    files = Growing(kept, _KEY)
    vocabularies = _grown(files, every)
    return _table(every, lambda name: files.array(name, _dtype(name)), vocabularies)


def _grown(files: Growing, sources: tuple[Source, ...]) -> _Vocabularies:
    """Brings what is kept up to date with all sources, and gives its texts."""
    names = [source.digest.hex() for source in sources]
    known = common(files.names, names)
    current = known == len(names) == len(files.names)
    files.back_to(known)
    vocabularies = {name: _numbered(files.texts(f"{name}.texts")) for name in _CODED}
    sizes = {name: len(texts) for name, texts in vocabularies.items()}
    for name, part in zip(names[known:], _parts(sources, known, vocabularies), strict=True):
        texts = {
            f"{column}.texts": lines(list(islice(vocabularies[column], sizes[column], None)))
            for column in _CODED
        }
        sizes = {column: len(texts) for column, texts in vocabularies.items()}
        files.append(name, {**part.columns, **texts})
    if not current:
        files.keep()
    return vocabularies


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(texts)}


def _parts(sources: tuple[Source, ...], first: int, vocabularies: _Vocabularies) -> Iterator[_Part]:
    """The columns of each source from the `first` on."""
    taken = {record.run for source in sources[:first] for record in source.archive.runs}
    for index, source in enumerate(sources[first:], first):
        part = _Part(source, index, vocabularies)
        part.drop(taken)
        taken |= {record.run for record in source.archive.runs}
        yield part


class _Part:
    """One source's columns, coded in the vocabularies of all."""

    def __init__(self, source: Source, index: int, vocabularies: _Vocabularies) -> None:
        table = read_rows(source.path, [*_CODED, *_NUMBERS]).unify_dictionaries()
        self.columns: dict[str, NDArray[Any]] = {
            **{name: _recoded(table.column(name), vocabularies[name]) for name in _CODED},
            **{name: table.column(name).to_numpy().astype(np.float64) for name in _NUMBERS},
            "source": np.full(len(table), index, dtype=np.int32),
            "position": np.arange(len(table), dtype=np.int32),
        }
        self._run_codes = {
            record.run: vocabularies["run"].get(record.run, -1) for record in source.archive.runs
        }

    def drop(self, taken: set[str]) -> None:
        """Leaves out rows of runs that another source has, or that this one does not name."""
        good = [code for run, code in self._run_codes.items() if run not in taken]
        keep = np.isin(self.columns["run"], good)
        if not keep.all():
            self.columns = {name: column[keep] for name, column in self.columns.items()}


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


def _table(
    sources: tuple[Source, ...], column: Callable[[str], NDArray[Any]], vocabularies: _Vocabularies
) -> Table:
    records = {r.run: r for source in reversed(sources) for r in source.archive.runs}
    runs = tuple(sorted(records.values(), key=lambda r: (r.started, r.run)))
    order = {record.run: index for index, record in enumerate(runs)}
    ranks = np.asarray([order.get(name, -1) for name in vocabularies["run"]], dtype=np.int32)
    in_order = bool(np.all(ranks == np.arange(len(ranks))))
    return Table(
        runs=runs,
        run=column("run") if in_order else ranks[column("run")],
        texts={
            name: Text(codes=column(name), values=tuple(vocabularies[name]))
            for name in _CODED
            if name != "run"
        },
        numbers={name: column(name) for name in _NUMBERS},
        sources=sources,
        source=column("source"),
        position=column("position"),
    )


def _dtype(column: str) -> type:
    return np.float64 if column in _NUMBERS else np.int32


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
                group: file.read_row_group(group, columns=[column]).column(0)
                for group in dict.fromkeys(groups.tolist())
            }
        # positions ascend, and so do groups
        taken = (
            column.take(np.asarray(positions)[groups == group] - starts[group])
            for group, column in columns.items()
        )
        return [str(text) for texts in taken for text in texts.to_pylist()]
    except (OSError, ValueError, IndexError, pa.ArrowException) as error:
        raise InfrastructureError(f"{source.path} is damaged: {error}") from error
