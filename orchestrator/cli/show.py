"""`lh-ci show`: a run, or the whole story of one of its cells."""

from __future__ import annotations

import json
from typing import Any

import click

from orchestrator import records
from orchestrator.cli import story
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.cli.report import console
from orchestrator.errors import UsageError
from orchestrator.fleet.recognise import Recognised, from_runs, recognise, sighting
from orchestrator.plan import Selector, select
from orchestrator.results.attribution import attribution
from orchestrator.results.changes import since_green
from orchestrator.results.schema import Result
from orchestrator.results.store import RUN_NAME, Run


@click.command(
    "show",
    epilog=examples(
        "lh-ci show",
        "lh-ci show last pytorch_cpu.softmax.f32@intel-cpu",
        "lh-ci show 2026-11-20T21-04-11 --json",
    ),
)
@click.argument("run", default="last", metavar="[RUN|last]")
@click.argument("cell", required=False, metavar="[CELL]")
@json_option
@pass_app
def command(app: App, /, run: str, cell: str | None, as_json: bool) -> int:
    """Show a run, or the whole story of one of its cells.

    CELL is an id, or a glob that only one cell of the run matches.
    """
    if cell is None and run != "last" and not RUN_NAME.fullmatch(run):
        run, cell = "last", run
    found = app.runs.find(run)
    if cell is None:
        if as_json:
            click.echo(json.dumps(story.run_document(found), indent=2))
        else:
            out = console()
            for line, style in story.of_run(found, app.shown(found.folder)):
                out.print(line, style=style)
        return 0
    attempts = _attempts(found, cell)
    since = since_green(app.runs, attempts[-1])
    known = _known(app, attempts[-1])
    if as_json:
        documents = [_document(result) for result in attempts]
        documents[-1]["known"] = None if known is None else records.encode(known)
        blamed = attribution(found, attempts[-1].cell)
        documents[-1]["attribution"] = None if blamed is None else records.encode(blamed)
        documents[-1]["since_green"] = None if since is None else records.encode(since)
        click.echo(json.dumps(documents, indent=2))
    else:
        out = console()
        for line, style in story.of_cell(
            found,
            attempts,
            app.shown(found.artifacts(attempts[-1].cell)),
            since,
            known.lines() if known else (),
        ):
            out.print(line, style=style)
    return 0


def _known(app: App, result: Result) -> Recognised | None:
    """What this workspace's runs tell of a failure; None: it is none."""
    if result.status in ("pass", "xpass", "skip", "miss"):
        return None
    return recognise(sighting(result), from_runs(app.runs, result.cell))


def _document(result: Result) -> dict[str, Any]:
    document = records.encode(result)
    assert isinstance(document, dict)
    return dict(document)


def _attempts(run: Run, pattern: str) -> list[Result]:
    """All attempts of the one cell that `pattern` names. Raises UsageError."""
    matching = select(run.plan().cells, Selector(patterns=(pattern,)))
    if len(matching) > 1:
        some = ", ".join(planned.cell.id for planned in matching[:5])
        raise UsageError(f"`{pattern}` fits {len(matching)} cells of run {run.name}: {some}, …")
    (planned,) = matching
    attempts = [result for result in run.results()[0] if result.cell == planned.cell.id]
    if not attempts:
        why = planned.reason or "it has not been run yet"
        raise UsageError(f"{planned.cell.id} has no result in run {run.name}: {why}")
    return attempts
