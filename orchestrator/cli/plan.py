"""`lh-ci plan`: what would be run where, for people and for services that hand out jobs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from orchestrator.backends.placing import CELLS, Placed, place
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import (
    asked,
    engine_option,
    examples,
    filter_options,
    keep_option,
    timeout_option,
)
from orchestrator.cli.selecting import choose, skips
from orchestrator.errors import ExitCode, UsageError
from orchestrator.fleet.agents import load_fleet
from orchestrator.fleet.serving import (
    AnyMachines,
    BothMachines,
    HostedMachines,
    Machines,
    RegisteredMachines,
)
from orchestrator.results.schema import RunOptions, RunPlan
from orchestrator.text import plain, plural, seconds, table

if TYPE_CHECKING:
    from orchestrator.results.store import Run

FORMATS = ("text", "json", "buildkite", "github")
_FORGES = ("buildkite", "github")


@click.command(
    "plan",
    epilog=examples(
        "lh-ci plan",
        "lh-ci plan pytorch_gpu --format json",
        "lh-ci plan --format buildkite --out plan | buildkite-agent pipeline upload",
        "lh-ci plan --machines hosted --format github --out plan",
    ),
)
@click.argument("selection", nargs=-1)
@filter_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="For people, for programs, as steps of a pipeline, as matrices.",
)
@click.option(
    "--machines",
    type=click.Choice(get_args(Machines)),
    help="Whose: as if there were some for every pool (any), the agents in agents/ of that "
    "service (registered), those that the service hosts, or these where there is no agent (both). "
    "Default: registered for buildkite and github, else any.",
)
@click.option("--branch", default="main", show_default=True, help="Of the code, for agents' terms.")
@click.option(
    "--cells-per-job",
    type=click.IntRange(1, 1000),
    default=CELLS,
    show_default=True,
    metavar="N",
    help="The most that a job has.",
)
@engine_option
@keep_option
@timeout_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the run and its jobs there, for `lh-ci receive` and `lh-ci collect`.",
)
@pass_app
def command(app: App, /, selection: tuple[str, ...], **given: Any) -> int:
    """Plan a run as jobs for pools, without an engine and whatever this machine is.

    SELECTION is a pipeline, or a glob over cell ids; without one, the whole matrix.
    """
    wanted = asked(selection, given)
    machines = _machines(app, given)
    chosen = choose(app.config, machines, wanted, Path.cwd())
    chosen = dataclasses.replace(chosen, cells=machines.judged(chosen.cells))
    plan = RunPlan(
        selection=wanted.words(),
        cells=chosen.cells,
        files=chosen.files,
        options=_options(given),
        adhoc=chosen.adhoc,
    )
    folder = (Path.cwd() / given["out"]) if given["out"] else None
    run = _new_run(folder, app) if folder else None
    placed = place(
        machines.groups(chosen.cells),
        plan.options,
        run=run.name if run else "run",
        cells=given["cells_per_job"],
    )
    if run is not None and folder is not None:
        _write(app, run, folder, plan, placed)
    click.echo(_shown(placed, skips(chosen.cells), given["form"]))
    return ExitCode.OK


def _machines(app: App, given: dict[str, Any]) -> AnyMachines:
    form = given["form"]
    given["machines"] = given["machines"] or ("registered" if form in _FORGES else "any")
    if given["machines"] == "hosted":
        return HostedMachines()
    agents = load_fleet(app.root).agents
    if given["machines"] == "any":
        return AnyMachines(agents)
    registered = RegisteredMachines(agents, form if form in _FORGES else None, given["branch"])
    return BothMachines(registered) if given["machines"] == "both" else registered


def _options(given: dict[str, Any]) -> RunOptions:
    return RunOptions(
        engine=given["engine"],
        workers=0,
        keep=given["keep"],
        timeout_s=given["timeout"],
        backend=given["form"] if given["form"] in _FORGES else "local",
    )


def _new_run(folder: Path, app: App) -> Run:
    from orchestrator.results.store import Runs

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--out {folder}: there is something in it. Name a new folder")
    return Runs(folder).create(app.services.clock.now())


def _write(app: App, run: Run, folder: Path, plan: RunPlan, placed: tuple[Placed, ...]) -> None:
    """The run, and each of its jobs as a line of text."""
    from orchestrator import __version__
    from orchestrator.backends import planned
    from orchestrator.cli.remote import order_terms
    from orchestrator.cli.trust import planned_signing
    from orchestrator.config.declare import declare
    from orchestrator.results.schema import RunInfo
    from orchestrator.results.store import utc

    run.begin(plan, declare(app.config))
    form = plan.options.backend
    signing = planned_signing(app, form) if form in _FORGES else None
    now = app.services.clock.now()
    planned.write(folder, run, placed, order_terms(app, run, plan), signing, now)
    unsigned = [each for each in placed if not each.hosted]
    if form in _FORGES and signing is None and unsigned:
        click.echo(
            f"note  {plural(len(unsigned), 'job')} for registered agents not signed: there is no "
            "key of the orchestrator here, and agents that have LH_AGENT run no such job",
            err=True,
        )
    run.write_info(
        RunInfo(
            run=run.name,
            started=utc(app.services.clock.now()),
            engine="elsewhere",
            engine_note=plan.options.backend,
            version=__version__,
        )
    )


def _shown(placed: tuple[Placed, ...], left_out: dict[str, int], form: str) -> str:
    match form:
        case "buildkite":
            from orchestrator.backends.buildkite.steps import pipeline

            return json.dumps(pipeline(placed), indent=1)
        case "github":
            from orchestrator.backends.github.matrix import chunks

            # one line: it becomes the output of a step
            return json.dumps(chunks(placed), separators=(",", ":"))
        case "json":
            return json.dumps(_whole_document(placed, left_out), indent=2)
        case _:
            return plain("\n".join(_lines(placed, left_out)))


def _whole_document(placed: tuple[Placed, ...], left_out: dict[str, int]) -> dict[str, object]:
    return {
        "schema": 1,
        "jobs": [_document(each) for each in placed],
        "skipped": [{"reason": r, "cells": n} for r, n in left_out.items()],
    }


def _document(placed: Placed) -> dict[str, object]:
    job = placed.job
    return {
        "job": job.id,
        "stack": job.stack,
        "pool": job.pool,
        "device": job.device,
        "tier": placed.tier,
        "priority": placed.priority,
        "timeout_s": placed.timeout_s,
        "agent": placed.agent,
        "probation": placed.probation,
        "hosted": placed.hosted,
        "cells": [cell.id for cell in job.cells],
    }


def _lines(placed: tuple[Placed, ...], left_out: dict[str, int]) -> Iterator[str]:
    cells = sum(len(each.job.cells) for each in placed)
    yield f"{plural(len(placed), 'job')}, {plural(cells, 'cell')}"
    rows = [
        (
            f"job   {each.job.id}",
            f"{each.job.stack} on {each.job.pool}",
            plural(len(each.job.cells), "cell"),
            f"at most {seconds(each.timeout_s)}",
            " ".join(filter(None, [each.agent, "probation" if each.probation else ""])),
        )
        for each in placed
    ]
    yield from table(rows)
    for reason, count in left_out.items():
        yield f"skip  {plural(count, 'cell')}: {reason}"
