"""What is in an archive, read as something that anybody may have written.

Texts are read as codes into distinct ones, and measured before any is repeated: a small file
cannot become a large one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.job import Status
from orchestrator.results.history.archive import Archive, RunRecord, arrow_schema, read_archive
from orchestrator.results.store import RUN_NAME

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DIGITS = 16
"""Of a digest, in an object's name."""
_MOST_ROWS = 1 << 24
_MOST_GROUP_BYTES = 4 << 30
"""Of a row group, as the file says it."""
_MOST_TEXT_BYTES = 1 << 30
"""Of a column of a row group, with every text as often as it is there."""
_LONGEST = {"cell": 300, "status": 20, "details": 16 << 20}
_LONGEST_OTHER = 1 << 20
"""Bytes of a text."""
_DEEPEST = 64
_JSON = ("surroundings", "content", "details")
_CELL = re.compile(r"[A-Za-z0-9_.@+-]+")
_STATUSES = frozenset({*get_args(Status), "none"})


@dataclass(frozen=True, kw_only=True)
class Contents:
    """An archive, and a digest of each run in it."""

    archive: Archive
    digests: Mapping[str, str]
    """64 hexadecimal digits over a run's record and its rows, by run."""


def contents(path: Path, *, thorough: bool = False) -> Contents:
    """Reads an archive to its end.

    Args:
        path: of the file.
        thorough: whether to look into JSON, too.

    Raises:
        InfrastructureError: it is damaged, or is not what this program would have written; begins
            with its path.
    """
    archive = read_archive(path)
    named = {record.run: record for record in archive.runs}
    if thorough:
        _check_declared(path, archive)
    digests = {}
    for run, table in runs_in(path):
        if run not in named:
            raise _bad(path, f"has rows of a run {run!r:.60} that it does not name")
        if thorough:
            _check_json(path, table)
        digests[run] = digest(named[run], table)
    for run, record in named.items():
        digests.setdefault(run, digest(record, arrow_schema().empty_table()))
    return Contents(archive=archive, digests=digests)


def runs_in(path: Path) -> Iterator[tuple[str, pa.Table]]:
    """Each run that a file has rows of, with these, in the file's order.

    Raises:
        InfrastructureError: see `contents`.
    """
    import pyarrow as pa

    seen: set[str] = set()
    parts: list[pa.Table] = []
    for part in _parts(path):
        name = part.column("run")[0].as_py()
        if parts and parts[0].column("run")[0].as_py() != name:
            yield parts[0].column("run")[0].as_py(), pa.concat_tables(parts)
            parts = []
        if not parts:
            if name in seen:
                raise _bad(path, f"has rows of run {name!r:.60} in several places")
            seen.add(name)
        parts.append(part)
    if parts:
        yield parts[0].column("run")[0].as_py(), pa.concat_tables(parts)


def _parts(path: Path) -> Iterator[pa.Table]:
    """Rows of one run that follow each other, a row group at most."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [field.name for field in arrow_schema() if field.type == pa.string()]
    try:
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            _check_size(path, file.metadata)
            for number in range(file.num_row_groups):
                table = _plain(path, file.read_row_group(number))
                runs = np.asarray(table.column("run").to_numpy())
                starts = [0, *(np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist()]
                for start, stop in zip(starts, [*starts[1:], len(table)], strict=True):
                    if start < stop:
                        yield table.slice(start, stop - start)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise _bad(path, f"is damaged: {error}") from error


def _check_size(path: Path, metadata: pq.FileMetaData) -> None:
    groups = range(metadata.num_row_groups)
    largest = max((metadata.row_group(i).total_byte_size for i in groups), default=0)
    if metadata.num_rows > _MOST_ROWS or largest > _MOST_GROUP_BYTES:
        raise _bad(path, f"is too large: {metadata.num_rows:,} rows, {largest:,} bytes at once")


def _plain(path: Path, table: pa.Table) -> pa.Table:
    """A row group with every text in full, once it is known how long they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for field in table.schema:
        column = table.column(field.name)
        if column.null_count:
            raise _bad(path, f"has no value in a row of `{field.name}`")
        if not pa.types.is_dictionary(field.type):
            continue
        total = 0
        for chunk in column.chunks:
            lengths = np.asarray(pc.binary_length(chunk.dictionary), dtype=np.int64)
            longest = int(lengths.max(initial=0))
            if longest > _LONGEST.get(field.name, _LONGEST_OTHER):
                raise _bad(path, f"has a text of {longest:,} bytes in `{field.name}`")
            total += int(lengths[np.asarray(chunk.indices)].sum()) if len(lengths) else 0
        if total > _MOST_TEXT_BYTES:
            raise _bad(path, f"has {total:,} bytes of text in `{field.name}`")
    schema = arrow_schema()
    plain = table.select(schema.names).replace_schema_metadata(None).cast(schema)
    _check_rows(path, plain)
    return plain


def _check_rows(path: Path, table: pa.Table) -> None:
    import pyarrow.compute as pc

    for cell in pc.unique(table.column("cell")).to_pylist():
        if not _CELL.fullmatch(cell):
            raise _bad(path, f"has a cell {cell!r:.80}, which no matrix makes")
    for status in pc.unique(table.column("status")).to_pylist():
        if status not in _STATUSES:
            raise _bad(path, f"has a status {status!r:.40}")


def _check_json(path: Path, table: pa.Table) -> None:
    import pyarrow.compute as pc

    for name in _JSON:
        for text in pc.unique(table.column(name)).to_pylist():
            try:
                value = json.loads(text) if text else {}
            except (ValueError, RecursionError) as error:
                raise _bad(path, f"has something else than JSON in `{name}`: {error}") from error
            if not isinstance(value, dict) or _depth(value) > _DEEPEST:
                raise _bad(path, f"has JSON in `{name}` that is no object, or too deep")


def _depth(value: object) -> int:
    """Of nested lists and objects; counted no further than it may go."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [e for each in inner for e in each if isinstance(e, (dict, list))]  # type: ignore[attr-defined]
        depth += 1
    return depth


def _check_declared(path: Path, archive: Archive) -> None:
    try:
        for claimed, declared in archive.declared.items():
            if declared.digest() != claimed:
                raise _bad(path, f"declares something under the digest {claimed!r:.80} of another")
    except (records.RecordError, RecursionError) as error:
        raise _bad(path, f"declares something that cannot be read: {error}") from error


def check_names(path: Path, archive: Archive, name: str) -> None:
    """Whether an object may have these runs.

    Args:
        path: of the file, for the message.
        archive: what it says of itself.
        name: a run's name, or the month `YYYY-MM` that all runs must be of.

    Raises:
        InfrastructureError: it may not.
    """
    if RUN_NAME.fullmatch(name) and [record.run for record in archive.runs] != [name]:
        raise _bad(path, f"is named after run {name} and has others")
    for record in archive.runs:
        if not record.run.startswith(name):
            raise _bad(path, f"has run {record.run}, which is not of {name}")


def digest(record: RunRecord, rows: pa.Table) -> str:
    """64 hexadecimal digits over a run, however its rows are encoded.

    `rows` has the columns of `arrow_schema`. What is hashed of each: lengths and bytes of texts,
    lengths and values of lists, values of numbers, little-endian, with one NaN for all.
    """
    found = hashlib.sha256(records.dumps(record).encode())
    for field in arrow_schema():
        found.update(f"\0{field.name}\0{len(rows)}\0".encode())
        for data in _values(rows.column(field.name).combine_chunks()):
            found.update(data)
    return found.hexdigest()


def _values(array: pa.Array | pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_string(array.type):
        yield np.asarray(pc.binary_length(array)).astype("<i4").tobytes()
        yield "".join(array.to_pylist()).encode()
    elif pa.types.is_list(array.type):
        yield np.asarray(array.value_lengths()).astype("<i4").tobytes()
        yield from _values(array.flatten())
    else:
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        yield values.astype(values.dtype.newbyteorder("<")).tobytes()


def _bad(path: Path, what: str) -> InfrastructureError:
    return InfrastructureError(f"{path} {what}")
