"""`lh-ci dashboard`: results as a static site."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.counting import journal
from orchestrator.cli.params import examples, json_option
from orchestrator.cli.report import console
from orchestrator.errors import ExitCode, UsageError
from orchestrator.fleet.agents import load_fleet
from orchestrator.fleet.health import words
from orchestrator.fleet.levels import Reliability, advise
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.quarantine import quarantined, standings
from orchestrator.text import counts as counted
from orchestrator.text import one_line, plural

if TYPE_CHECKING:
    from dashboards.command import Built, Registered
    from orchestrator.results.history.table import Table

_SLACK_HOURS = 2.0
"""A night may start and take this much later before the site says that it is late."""


@click.command(
    "dashboard",
    epilog=examples(
        "lh-ci dashboard                         this workspace's runs, to site/",
        "lh-ci dashboard --serve                 and look at them in a browser",
        "lh-ci dashboard --results .lh/archive   all that is in the store",
        "lh-ci dashboard --results nightly --out public --url https://example.org/mlir",
    ),
)
@click.option(
    "--results",
    metavar="DIR|ADDRESS",
    help="Runs, or archives of runs (*.parquet), also a store's: s3://bucket/mlir. "
    "Default: the runs of this workspace.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("site"),
    show_default=True,
    metavar="DIR",
    help="The site's folder: new, empty, or one with a site, which is brought up to date.",
)
@click.option(
    "--title", default="Lighthouse CI", show_default=True, help="What the site is called."
)
@click.option("--url", default="", help="Where the site will be; for its feeds.")
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="How often there is a night. A site that is older, and two hours more, says it is late.",
)
@click.option("--serve", is_flag=True, help="Then serve it on this machine until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0: any free one.",
)
@json_option
@pass_app
def command(app: App, /, **given: Any) -> int:
    """Make a static site of results: what broke, where, since when, and how to rerun it.

    The site opens from disk and from any web server. It needs no network, and says of every
    square that has no data since when and why.
    """
    out = Path.cwd() / given["out"]
    with _uncollected():
        built = _built(app, out, given)
    if given["as_json"]:
        document = {
            "schema": 1,
            "night": built.night or None,
            "nights": built.nights,
            "cells": built.cells,
            "counts": dict(built.counts),
            "files": built.written.files,
            "written": built.written.written,
            "removed": built.written.removed,
            "index": str(out / "index.html"),
        }
        click.echo(json.dumps(document, indent=2))
    else:
        _show(app, built, out)
    if given["serve"]:
        from dashboards import command as pages

        pages.serve(out, given["port"], lambda url: click.echo(f"{url}   Ctrl-C ends", err=True))
    return ExitCode.OK


def _built(app: App, out: Path, given: Mapping[str, Any]) -> Built:
    try:
        from dashboards import command as pages
    except ImportError as error:
        raise UsageError(
            f"the dashboard's libraries are not installed ({error.name}). "
            "Do: pip install 'lighthouse-ci[dashboard]', or: nox -s dashboard"
        ) from error

    with _progress(quiet=given["as_json"]) as say:
        return pages.make(
            given["results"] or str(app.runs.folder),
            app.state / "history",
            out,
            pages.Options(
                title=given["title"],
                expected_hours=given["every"] + _SLACK_HOURS,
                agents=partial(_registered, app, load_fleet(app.root).agents),
            ),
            given["url"],
            say,
        )


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Looks for no garbage: millions of records live until a build ends, and have no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # what is left goes with the process, and need not be looked through before
        gc.freeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Gives what is told of the work: one line that changes on a terminal, else nothing."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status("looking for results") as status:
        yield lambda line: status.update(Text(one_line(line, screen.width - 4)))


def _registered(
    app: App, agents: Mapping[str, AgentFile], table: Table
) -> Mapping[str, Registered]:
    """The registered agents, by what their files say and results show."""
    from dashboards.command import Registered
    from orchestrator.fleet.reliability import count

    if not agents:
        return {}
    lines, now = list(journal(app).read()), app.services.clock.now()
    seen, standing = count(table, lines, now), standings(lines)
    held = quarantined(standing)
    return {
        name: Registered(
            level=agent.level,
            contact=agent.contact,
            blocks=advise(agent.level, seen.get(name, Reliability())).reasons,
            quarantine=words(standing.get(name), now) if name in held else "",
        )
        for name, agent in agents.items()
    }


def _show(app: App, built: Built, out: Path) -> None:
    screen = console()
    if not built.night:
        screen.print("there are no results yet: the site says so. Start a run: lh-ci run")
    else:
        statuses = [status for status, number in built.counts.items() for _ in range(number)]
        nights = plural(built.nights, "night")
        screen.print(
            f"night {built.night}   {counted(statuses)}   {nights} of {built.cells:,} cells"
        )
    written = built.written
    screen.print(
        f"site  {app.shown(out / 'index.html')}   {plural(written.files, 'file')}, "
        f"{written.written:,} written, {written.removed:,} removed"
    )
