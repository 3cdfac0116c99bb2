"""`lh-ci list`: cells, and why each can run here or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import asked, examples, filter_options, json_option
from orchestrator.cli.selecting import choose
from orchestrator.plan import PlannedCell
from orchestrator.text import plain, plural, table


@click.command(
    "list",
    epilog=examples(
        "lh-ci list",
        "lh-ci list pytorch_cpu",
        "lh-ci list '*.softmax.*' --json",
    ),
)
@click.argument("selection", nargs=-1)
@filter_options
@json_option
@pass_app
def command(app: App, /, selection: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """List cells, and why each can or cannot run on this machine.

    SELECTION is a pipeline, or a glob over cell ids; without one, every cell is listed.
    """
    # what cells there are does not depend on what was recorded for them
    config = app.services.load(app.root, goldens=False)
    cells = choose(config, app.host, asked(selection, given), Path.cwd()).cells
    if as_json:
        click.echo(json.dumps([_json(planned) for planned in cells], indent=2))
    else:
        _print(cells)
    return 0


def _json(planned: PlannedCell) -> dict[str, object]:
    cell = planned.cell
    return {
        "cell": cell.id,
        "pipeline": cell.pipeline,
        "workload": cell.workload.name,
        "variant": cell.variant,
        "pool": cell.pool,
        "stack": planned.stack,
        "tier": planned.tier,
        "runnable": planned.runnable,
        "reason": planned.reason,
        "timeout_s": cell.timeout_s,
    }


def _print(cells: Sequence[PlannedCell]) -> None:
    rows = [("cell", "stack", "tier", "here")]
    rows += [
        (p.cell.id, p.stack, p.tier, "yes" if p.runnable else f"no: {p.reason}") for p in cells
    ]
    for line in table(rows):
        click.echo(plain(line))
    here = sum(planned.runnable for planned in cells)
    click.echo(f"{plural(len(cells), 'cell')}, {here:,} can run here")
