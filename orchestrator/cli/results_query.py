"""`lh-ci results query`: SQL over the store."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
import math
import sys
from typing import TYPE_CHECKING

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import duration, examples, json_option, section
from orchestrator.cli.storing import open_store, say, store_option, teller
from orchestrator.errors import ExitCode, UsageError
from orchestrator.text import one_line, plain, plural, table

if TYPE_CHECKING:
    from orchestrator.results.archives.query import Answer

_WIDEST = 60
"""Characters of a value in a table."""


@click.command(
    "query",
    epilog=section(  # noqa: S608  these are examples
        "Views",
        "attempts   one row for each attempt of a cell",
        "cells      the last attempt of each cell in each run, and cells without one",
        "runs       one row for each run",
        "`DESCRIBE attempts` lists the columns; docs/store.md explains them.",
    )
    + "\n\n"
    + examples(
        "lh-ci results query 'FROM cells SELECT status, count(*) GROUP BY 1'",
        "lh-ci results query \"SELECT night, cell FROM cells WHERE status = 'fail'\" --csv",
        "lh-ci results query 'SELECT pool, median(seconds) FROM attempts GROUP BY pool' --json",
        "lh-ci results query - < question.sql",
    ),
)
@click.argument("sql", metavar="SQL|-")
@store_option
@click.option(
    "--timeout",
    default="60s",
    show_default=True,
    callback=duration,
    metavar="DURATION",
    help="How long it may take.",
)
@click.option(
    "--memory",
    type=click.IntRange(min=64),
    default=1024,
    show_default=True,
    metavar="MIB",
    help="How much memory it may take.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="ROWS",
    help="Of a table; CSV and JSON have all rows.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, with a header.")
@json_option
@pass_app
def query(
    app: App,
    /,
    sql: str,
    address: str | None,
    timeout: float,
    memory: int,
    limit: int,
    as_csv: bool,
    as_json: bool,
) -> int:
    """Ask the store one SELECT, in DuckDB's SQL.

    It is read-only, and has nothing to read but the store's views. An index is kept beside the
    cache and made again when archives came or went.
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json contradict each other")
    try:
        from orchestrator.results.archives.query import Limits, ask

        with ask(
            open_store(app, address),
            sys.stdin.read() if sql == "-" else sql,
            Limits(seconds=timeout, memory_bytes=memory << 20),
            teller(quiet=as_json or as_csv),
        ) as answer:
            for problem in answer.problems:
                say(f"left out: {plain(problem)}")
            if as_json:
                _json(answer)
            elif as_csv:
                _csv(answer)
            else:
                _table(answer, limit)
    except ImportError as error:
        raise UsageError(
            f"the store's libraries are not installed ({error.name}). "
            "Do: pip install 'lighthouse-ci[store]'"
        ) from error
    return ExitCode.OK


def _json(answer: Answer) -> None:
    rows = [[_value(value) for value in row] for row in answer.rows]
    document = {"schema": 1, "columns": list(answer.columns), "rows": rows}
    click.echo(json.dumps(document, indent=None, allow_nan=False))


def _value(value: object) -> object:
    """As JSON has it: times in ISO 8601, what is no number as null."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _value(each) for key, each in value.items()}
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def _text(value: object) -> str:
    plain_value = _value(value)
    if plain_value is None:
        return ""
    return plain_value if isinstance(plain_value, str) else json.dumps(plain_value)


def _csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    # a terminal acts on what it is shown, a file does not
    clean = plain if sys.stdout.isatty() else str
    writer.writerow(map(clean, answer.columns))
    for row in answer.rows:
        writer.writerow([clean(_text(value)) for value in row])


def _table(answer: Answer, limit: int) -> None:
    rows = list(itertools.islice(answer.rows, limit))
    more = next(answer.rows, None) is not None
    lines = [[one_line(_text(value), _WIDEST) for value in row] for row in rows]
    for line in table([tuple(map(one_line, answer.columns)), *map(tuple, lines)]):
        click.echo(line)
    click.echo(f"{plural(len(rows), 'row')}{_and_more(limit) if more else ''}")


def _and_more(limit: int) -> str:
    return f", and more: --limit {limit * 10}, --csv or --json"
