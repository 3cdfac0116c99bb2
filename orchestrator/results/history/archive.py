"""Rows in Parquet files: one for a run, or one for a month of runs.

A file says of itself what it holds: its metadata has the runs and what was declared for them, so
that it is a whole record without the folders that it was made from.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import records
from orchestrator.config.suggest import listing
from orchestrator.errors import InfrastructureError
from orchestrator.results.declared import Declared
from orchestrator.results.files import write_atomically
from orchestrator.results.history.derived import with_derived
from orchestrator.results.history.rows import Row
from orchestrator.results.store import RUN_NAME

if TYPE_CHECKING:
    import pyarrow as pa

ARCHIVE_SCHEMA = 2
SUFFIX = ".parquet"
_KEY = b"lighthouse-ci"
_ROW_GROUP = 1 << 15
"""Rows that are read together when the details of one are asked for."""
_DICTIONARY_BYTES = 16 << 20
"""Large enough for a month of whatever cells share; beyond it Parquet gives up dictionaries."""

DICTIONARIES = (
    *("run", "cell", "status", "phase", "message", "expectation", "tier", "stack", "agent"),
    *("stages", "fingerprint", "reproduce", "surroundings", "content"),
)
"""Columns of few distinct strings, read as codes into them."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run, apart from its attempts."""

    run: str
    """Its name."""
    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """None: it was stopped, or is running."""
    seconds: float = 0.0
    engine: str = ""
    version: str = ""
    """Of the program that ran it."""
    selection: tuple[str, ...] = ()
    """Words of a command line; empty: the whole matrix."""
    cells: int = 0
    """How many it set out to run, skipped ones included."""
    declared: str = ""
    """Digest of what was declared; empty: it was not kept."""
    unread: tuple[str, ...] = ()
    """What was wrong with attempts' documents that could not be read, and are not in the rows."""


class LazyDeclared(Mapping[str, Declared]):
    """What was declared, by digest, made of its JSON when somebody asks."""

    def __init__(self, documents: Mapping[str, object]) -> None:
        """Takes the JSON values of `Declared` by digest."""
        self._documents = documents
        self._made: dict[str, Declared] = {}

    def __getitem__(self, digest: str) -> Declared:
        """Raises KeyError, or RecordError where it is no such document."""
        if digest not in self._made:
            self._made[digest] = records.decode(Declared, self._documents[digest])
        return self._made[digest]

    def __contains__(self, digest: object) -> bool:
        """Whether there is a document, readable or not."""
        return digest in self._documents

    def __iter__(self) -> Iterator[str]:
        """Over digests."""
        return iter(self._documents)

    def __len__(self) -> int:
        """The number of documents."""
        return len(self._documents)


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What a file says of itself."""

    runs: tuple[RunRecord, ...]
    declared: Mapping[str, Declared] = field(default_factory=dict)
    """By digest."""
    stamp: str = ""
    """Of the run folder that it was made from; see `orchestrator.results.history.source`."""
    schema: int = ARCHIVE_SCHEMA


def arrow_schema() -> pa.Schema:
    """The columns, in the order of `Row`'s fields."""
    import pyarrow as pa

    kinds = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "tuple[float, ...]": pa.list_(pa.float32()),
    }
    return pa.schema([pa.field(f.name, kinds[str(f.type)]) for f in dataclasses.fields(Row)])


def table_of(rows: Iterable[Row]) -> pa.Table:
    """Rows as a table with the columns of `arrow_schema`."""
    import pyarrow as pa

    schema = arrow_schema()
    columns: dict[str, list[object]] = {name: [] for name in schema.names}
    for row in rows:
        for name, column in columns.items():
            column.append(getattr(row, name))
    return pa.table(columns, schema=schema)


def file_schema() -> pa.Schema:
    """The columns of a file: those of rows, and the derived ones."""
    return with_derived(arrow_schema().empty_table()).schema


def encode(tables: Iterable[pa.Table], archive: Archive) -> bytes:
    """A file of some tables' rows, in order, with the columns of `derived`; no more than a row
    group of them is in memory.
    """
    import pyarrow.parquet as pq

    schema = file_schema().with_metadata({_KEY: records.dumps(archive).encode()})
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        schema,
        compression="zstd",
        use_dictionary=list(DICTIONARIES),
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
    ) as writer:
        for table in _whole_groups(tables):
            writer.write_table(
                with_derived(table).replace_schema_metadata(schema.metadata),
                row_group_size=_ROW_GROUP,
            )
    return buffer.getvalue()


def _whole_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, as tables of whole row groups; the last one is what is left."""
    import pyarrow as pa

    left = table_of(())
    for table in tables:
        left = pa.concat_tables([left, table.replace_schema_metadata(None)])
        whole = len(left) - len(left) % _ROW_GROUP
        if whole:
            yield left.slice(0, whole)
            left = left.slice(whole)
    if len(left):
        yield left


def write(path: Path, table: pa.Table, archive: Archive) -> None:
    """Writes a file, with the columns of `derived`; readers see the old one or the whole new one.

    Raises:
        InfrastructureError: the disk is full, or cannot be written.
    """
    write_atomically(path, encode((table,), archive))


def read_archive(path: Path) -> Archive:
    """What a file says of itself; its rows are not read.

    Raises:
        InfrastructureError: it is no such file, damaged, or of a later version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.read_metadata(path)
        metadata: Mapping[bytes, bytes] = file.metadata or {}
        document = json.loads(metadata[_KEY])
        if not isinstance(document, dict):
            raise records.RecordError("Archive: expected an object")
        declared = document.pop("declared", {})
        if not isinstance(declared, dict):
            raise records.RecordError("Archive.declared: expected an object")
        archive = records.decode(Archive, document)
        _check(archive, file.schema.to_arrow_schema())
        return dataclasses.replace(archive, declared=LazyDeclared(declared))
    except (KeyError, AttributeError):
        raise InfrastructureError(f"{path} is no archive of results: leave it out") from None
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise InfrastructureError(f"{path} is damaged: {error}") from error


def _check(archive: Archive, schema: pa.Schema) -> None:
    """What no record says by itself. Raises RecordError."""
    if archive.schema != ARCHIVE_SCHEMA:
        raise records.RecordError(
            f"schema {archive.schema}, and this program reads {ARCHIVE_SCHEMA}"
        )
    names = [record.run for record in archive.runs]
    if len(set(names)) < len(names) or not all(map(RUN_NAME.fullmatch, names)):
        raise records.RecordError(f"Archive.runs: {listing(map(repr, names), 3)}")
    if schema.remove_metadata() != file_schema():
        other = sorted({f"{f.name} ({f.type})" for f in schema} ^ _columns()) or ["their order"]
        raise records.RecordError(f"its columns are not an archive's: {listing(other, 3)}")


def _columns() -> set[str]:
    return {f"{f.name} ({f.type})" for f in file_schema()}


def read_rows(path: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of a file's rows; those of `DICTIONARIES` as codes.

    Raises:
        InfrastructureError: it is damaged, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(
            path,
            columns=list(columns),
            read_dictionary=[name for name in columns if name in DICTIONARIES],
            memory_map=True,
        )
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InfrastructureError(f"{path} is damaged: {error}") from error
