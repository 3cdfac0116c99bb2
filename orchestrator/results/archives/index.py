"""The index: which archive each run is taken from, so that a question reads no file twice.

A DuckDB file in the cache. It says of which objects it was made, and is made again when these are
others, or when it cannot be read; it may be thrown away at any time.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import InfrastructureError
from orchestrator.results.archives.store import Entry, Store
from orchestrator.results.files import unwritable
from orchestrator.results.history.archive import Archive, RunRecord, read_rows

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

INDEX_SCHEMA = 1
_TABLES = """
CREATE TABLE runs (run VARCHAR, night DATE, started TIMESTAMP, ended TIMESTAMP, seconds DOUBLE,
    engine VARCHAR, version VARCHAR, selection VARCHAR[], cells BIGINT, unread BIGINT,
    archive VARCHAR);
CREATE TABLE held (archive VARCHAR, runs VARCHAR[], whole BOOLEAN);
CREATE TABLE problems (text VARCHAR);
CREATE TABLE state (text VARCHAR)
"""


@dataclass(frozen=True, kw_only=True)
class Held:
    """An archive that runs are taken from."""

    path: Path
    runs: tuple[str, ...]
    whole: bool
    """Whether these are all that it has."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """An index that fits its archives."""

    runs: pa.Table
    """The view `runs`."""
    held: tuple[Held, ...]
    problems: tuple[str, ...]
    """Archives that were left out, and why."""


def fitting(store: Store, progress: Callable[[str], None]) -> Index:
    """The index of a store as it is now, made if need be.

    Raises:
        InfrastructureError: the store cannot be read, or the index cannot be written.
        Gone: an archive was merged in between: ask again.
    """
    import duckdb

    digest = hashlib.sha256(store.objects.address.encode()).hexdigest()[:16]
    path = store.cache / f"index-{digest}.duckdb"
    entries, _ = store.entries()
    state = _state(entries)
    by_name = {entry.stored.name: entry for entry in entries}
    found = _opened(path, state)
    if found is None:
        progress("making the index")
        _make(path, store, state)
        found = _opened(path, state)
    if found is None:
        # somebody else made one of another state: the same question, a moment later
        raise InfrastructureError(f"{path} is made again all the time: try again")
    with found:
        try:
            held = found.execute("SELECT archive, runs, whole FROM held").fetchall()
            problems = found.execute("SELECT text FROM problems").fetchall()
            runs = found.sql("FROM runs").to_arrow_table()
        except duckdb.Error as error:
            path.unlink(missing_ok=True)
            raise InfrastructureError(f"{path} is damaged and was removed: try again") from error
    return Index(
        runs=runs,
        held=tuple(
            Held(path=store.path(by_name[name]), runs=tuple(runs), whole=whole)
            for name, runs, whole in held
        ),
        problems=tuple(text for (text,) in problems),
    )


def _state(entries: Sequence[Entry]) -> str:
    """Of program, format and objects: an index of another one does not fit."""
    import duckdb

    listed = [(entry.stored.name, entry.stored.version) for entry in entries]
    text = repr((INDEX_SCHEMA, duckdb.__version__, listed))
    return hashlib.sha256(text.encode()).hexdigest()


def _opened(path: Path, state: str) -> duckdb.DuckDBPyConnection | None:
    """None when there is none, or none that fits."""
    import duckdb

    if not path.is_file():
        return None
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except (duckdb.Error, OSError):
        return None
    try:
        if connection.execute("SELECT text FROM state").fetchall() == [(state,)]:
            return connection
    except duckdb.Error:
        pass  # of another version, or damaged: made again
    connection.close()
    return None


def _make(path: Path, store: Store, state: str) -> None:
    import duckdb

    runs: dict[str, tuple[RunRecord, str]] = {}
    held: list[tuple[str, list[str], bool]] = []
    problems: list[str] = []
    for entry, archive in store.each(lambda each: _whole(store, each), problems):
        mine = [r.run for r in archive.runs if r.run not in runs]
        runs |= {r.run: (r, entry.stored.name) for r in archive.runs if r.run in mine}
        if mine:
            held.append((entry.stored.name, mine, len(mine) == len(archive.runs)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            made = Path(folder) / "index"
            with duckdb.connect(str(made)) as connection:
                connection.execute(_TABLES)
                _fill(connection, "runs", [_row(r, name) for _, (r, name) in sorted(runs.items())])
                _fill(connection, "held", held)
                _fill(connection, "problems", [(text,) for text in problems])
                _fill(connection, "state", [(state,)])
            made.replace(path)
    except (OSError, duckdb.IOException) as error:
        reason = error if isinstance(error, OSError) else OSError(str(error))
        raise unwritable(path, reason) from error


def _whole(store: Store, entry: Entry) -> Archive:
    """What an archive says of itself, if it is true of its rows."""
    import pyarrow.compute as pc

    archive, path = store.archive(entry), store.path(entry)
    named = {record.run for record in archive.runs}
    for run in pc.unique(read_rows(path, ["run"]).column("run")).to_pylist():
        if run not in named:
            raise InfrastructureError(f"{path} has rows of a run {run!r:.60} that it does not name")
    return archive


def _row(record: RunRecord, archive: str) -> tuple[object, ...]:
    return (
        *(record.run, record.run[:10], record.started, record.ended, record.seconds),
        *(record.engine, record.version, list(record.selection), record.cells),
        *(len(record.unread), archive),
    )


def _fill(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]
) -> None:
    """Times are tried: a run may say that it began at no time at all."""
    times = ("TRY_CAST(? AS DATE)", "TRY_CAST(? AS TIMESTAMP)", "TRY_CAST(? AS TIMESTAMP)")
    for row in rows:
        marks = ["?"] * len(row)
        if table == "runs":
            marks[1:4] = times
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join(marks)})", row)  # noqa: S608
