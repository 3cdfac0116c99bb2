"""A health job on this machine: cells that should be green everywhere, before it is registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import click

from orchestrator.backends.perform import default_workers
from orchestrator.cli import running
from orchestrator.cli.app import App
from orchestrator.cli.report import SilentReporter, TextReporter, console
from orchestrator.cli.selecting import Asked, choose
from orchestrator.config.declare import declare
from orchestrator.errors import InfrastructureError
from orchestrator.fleet.health import Outcome, judge, pick
from orchestrator.fleet.misses import Kind
from orchestrator.plan import PlannedCell, plan_cells
from orchestrator.results.schema import Result, RunOptions, RunPlan
from orchestrator.results.store import Run
from orchestrator.text import plain, plural, seconds

_WRONG = (
    "These cells are green elsewhere with the same image, so this machine is to be looked at: its "
    "memory, its GPU and driver, its container engine."
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A health job that was run here."""

    run: Run
    results: Sequence[Result]
    """By cell, in order."""
    outcome: Outcome
    wall: float
    """Seconds, for an image to be made ready too."""


def cells_for(app: App, pools: Sequence[str]) -> tuple[PlannedCell, ...]:
    """Two cells for each pool that has any: core, expected to pass, with the smallest goldens."""
    planned = plan_cells(app.config, app.host)
    expected = [each.cells for each in app.config.matrix.expectations]
    found: list[PlannedCell] = []
    for pool in dict.fromkeys(pools):
        good = [
            each
            for each in planned
            if each.cell.pool == pool
            and (each.tier, each.runnable) == ("core", True)
            and each.cell.golden is not None
            and not any(fnmatchcase(each.cell.id, glob) for glob in expected)
        ]
        good.sort(key=lambda each: (each.cell.golden.size if each.cell.golden else 0, each.cell.id))
        found += pick(good)
    return tuple(found)


def run_here(app: App, pools: Sequence[str], *, quiet: bool) -> Ran | None:
    """Runs one; None: the matrix has no cell for it.

    `quiet`: nothing goes to standard output.

    Raises:
        InfrastructureError: no engine answers, or results cannot be kept.
    """
    cells = cells_for(app, pools)
    if not cells:
        return None
    ids = tuple(each.cell.id for each in cells)
    chosen = choose(app.config, app.host, Asked(selection=ids), Path.cwd())
    engine, note = app.engine("auto")
    options = RunOptions(workers=default_workers(app.host))
    plan = RunPlan(selection=ids, cells=chosen.cells, files=chosen.files, options=options)
    run = app.runs.create(app.services.clock.now())
    run.begin(plan, declare(app.config))
    if quiet:
        silent = SilentReporter(lambda line: click.echo(line, err=True))
        ran = running.execute(app, run, plan, engine, note, silent)
    else:
        with TextReporter(console(), app.config.pins, len(ids)) as reporter:
            ran = running.execute(app, run, plan, engine, note, reporter)
    results = [ran.results[cell] for cell in ids if cell in ran.results]
    return Ran(run=run, results=results, outcome=judge(results, ids), wall=ran.wall)


def require(app: App, pools: Sequence[str], *, quiet: bool) -> dict[str, object] | None:
    """Runs one, shows what it says, and gives it as JSON; None: the matrix has no cell for it.

    Raises:
        InfrastructureError: it failed, or came to no verdict; says what to look at.
    """
    if not quiet:
        click.echo("\nhealth    cells that are green elsewhere; --no-health-job leaves them out")
    ran = run_here(app, pools, quiet=quiet)
    if ran is None:
        click.echo(f"health    no core cell runs in {', '.join(pools)}, so none was run", err=quiet)
        return None
    if ran.outcome.verdict != "healthy":
        raise InfrastructureError(plain(_advice(ran)))
    if not quiet:
        count = plural(len(ran.results), "cell")
        click.echo(f"health    well: {count} passed in {seconds(ran.wall)}")
    return {
        "verdict": ran.outcome.verdict,
        "run": ran.run.name,
        "cells": [result.cell for result in ran.results],
        "seconds": round(ran.wall, 3),
    }


def _advice(ran: Ran) -> str:
    outcome = ran.outcome
    said = "failed" if outcome.verdict == "sick" else "came to no verdict"
    look = Kind(outcome.kind).look if outcome.kind else _WRONG
    lines = [
        f"the health job {said}, so nothing is registered: {outcome.why}",
        look,
        f"look    lh-ci show {ran.run.name} {outcome.cell}",
        "again   the same command; with --no-health-job it registers without one",
    ]
    return "\n".join(lines)
