"""Questions in SQL over a store: read-only, and with nothing else to read.

DuckDB works in memory and opens no file at all: rows come from Arrow, its own access to files and
networks is off, and the configuration is locked. It is told no path, not even the index's, because
of those that it may use (`allowed_paths`, and its database's own) a SELECT can overwrite each:
`WITH x AS (COPY … TO … (use_tmp_file false)) SELECT …`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.errors import InfrastructureError, LighthouseError, UsageError
from orchestrator.results.archives.index import Index, fitting
from orchestrator.results.archives.objects import Gone
from orchestrator.results.archives.store import Store
from orchestrator.results.history.archive import file_schema
from orchestrator.results.history.derived import DERIVED

if TYPE_CHECKING:
    import duckdb

_TRIES = 3
_BATCH = 4096
_CONFIG = {
    "allow_community_extensions": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
_NUMBERS = ("seconds", "queued_seconds", "error", "kernel_seconds", *DERIVED)
_ATTEMPTS = f"""
SELECT run, TRY_CAST(left(run, 10) AS DATE) AS night, cell, split_part(cell, '.', 1) AS pipeline,
    regexp_extract(cell, '^[^.]*[.](.*)[.][^.]*@', 1) AS workload,
    regexp_extract(cell, '([^.]*)@', 1) AS variant, split_part(cell, '@', 2) AS pool,
    attempt, status, phase, message, expectation, tier, stack, agent,
    CASE WHEN started > 0 THEN make_timestamp(started * 1000000) END AS started,
    {", ".join(f"nullif({name}, 'nan'::DOUBLE) AS {name}" for name in _NUMBERS)},
    CASE WHEN stages = '' THEN [] ELSE string_split(stages, chr(10)) END AS stages, stage_seconds,
    peak_memory_bytes, fingerprint, reproduce, nullif(surroundings, '') AS surroundings,
    nullif(content, '') AS content, nullif(details, '') AS details
"""
_LAST = """NOT EXISTS (
    SELECT 1 FROM archived later WHERE later.attempt > 1 AND later.run = archived.run
    AND later.cell = archived.cell AND later.attempt > archived.attempt)
"""
_VIEWS = {"attempts": "attempt > 0", "cells": _LAST}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a question may take."""

    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    """Of DuckDB; what it reads comes in small pieces on top."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Columns, and rows as they come."""

    columns: tuple[str, ...]
    rows: Iterator[Sequence[Any]]
    """Raises as `ask`."""
    problems: tuple[str, ...]
    """Archives that were left out, and why."""


@contextlib.contextmanager
def ask(
    store: Store, sql: str, limits: Limits, progress: Callable[[str], None]
) -> Iterator[Answer]:
    """The answer to one SELECT over the views `attempts`, `cells` and `runs`.

    Raises:
        UsageError: it is no SELECT, is wrong, asks for files, or takes too much.
        InfrastructureError: the store cannot be read.
    """
    index, connection = _ready(store, limits, progress)
    with contextlib.ExitStack() as stack:
        stack.enter_context(connection)
        timer = threading.Timer(limits.seconds, connection.interrupt)
        timer.daemon = True
        stack.callback(timer.cancel)
        timer.start()
        with _told(limits):
            statements = connection.extract_statements(sql)
            kinds = [statement.type.name for statement in statements]
            if len(kinds) != 1 or kinds[0] not in ("SELECT", "EXPLAIN"):
                raise UsageError(
                    f"expected one SELECT, got {', '.join(kinds) or 'nothing'}: "
                    "results are read, and never changed"
                )
            connection.execute(statements[0])
            columns = tuple(str(column[0]) for column in connection.description or ())
        yield Answer(columns=columns, rows=_rows(connection, limits), problems=index.problems)


def _ready(
    store: Store, limits: Limits, progress: Callable[[str], None]
) -> tuple[Index, duckdb.DuckDBPyConnection]:
    for _ in range(_TRIES):
        # archives may be merged while the views of them are made
        with contextlib.suppress(Gone, FileNotFoundError):
            index = fitting(store, progress)
            return index, _connected(index, limits)
    raise InfrastructureError(f"{store.objects.address} changes all the time: try again")


def _connected(index: Index, limits: Limits) -> duckdb.DuckDBPyConnection:
    """With the views, and nothing else to get at."""
    import duckdb
    import pyarrow.dataset as ds

    memory = f"{limits.memory_bytes}B"
    connection = duckdb.connect(config={**_CONFIG, "memory_limit": memory})
    connection.register("runs", index.runs)
    schema = file_schema()
    whole = [str(held.path) for held in index.held if held.whole]
    connection.register("archived_0", ds.dataset(whole, schema=schema, format="parquet"))
    selects = ["SELECT * FROM archived_0"]
    for number, held in enumerate((h for h in index.held if not h.whole), start=1):
        connection.register(
            f"archived_{number}", ds.dataset(str(held.path), schema=schema, format="parquet")
        )
        # names of runs are digits and dashes
        names = ", ".join(f"'{run}'" for run in held.runs)
        selects.append(f"SELECT * FROM archived_{number} WHERE run IN ({names})")  # noqa: S608
    connection.execute(f"CREATE TEMP VIEW archived AS {' UNION ALL '.join(selects)}")
    for view, which in _VIEWS.items():
        text = f"{_ATTEMPTS} FROM archived WHERE {which}"
        connection.execute(f"CREATE TEMP VIEW {view} AS {text}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def _rows(connection: duckdb.DuckDBPyConnection, limits: Limits) -> Iterator[Sequence[Any]]:
    while True:
        with _told(limits):
            rows = connection.fetchmany(_BATCH)
        if not rows:
            return
        yield from rows


@contextlib.contextmanager
def _told(limits: Limits) -> Iterator[None]:
    """What DuckDB complains about, in words for people."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException as error:
        raise UsageError(
            f"it took longer than {limits.seconds:g} s: ask for less, or --timeout"
        ) from error
    except duckdb.OutOfMemoryException as error:
        text = f"it needs more than {limits.memory_bytes >> 20:,} MiB: ask for less, or --memory"
        raise UsageError(text) from error
    except duckdb.PermissionException as error:
        raise UsageError(f"a query reads the store, and nothing else: {error}") from error
    except duckdb.Error as error:
        raise UsageError(str(error)) from error
    except (OSError, ValueError) as error:
        if isinstance(error, LighthouseError):
            raise
        raise InfrastructureError(
            f"an archive cannot be read: {error}. lh-ci results verify"
        ) from error
