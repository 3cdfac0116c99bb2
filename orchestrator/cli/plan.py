"""`lh-ci plan`: what would be run where, for people and for services that hand out jobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from orchestrator.backends.handed import Handed
from orchestrator.backends.placing import CELLS, Placed, place
from orchestrator.cli.again import give_again, hand_out
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import (
    asked,
    engine_option,
    examples,
    filter_options,
    keep_option,
    timeout_option,
)
from orchestrator.cli.placed import FORGES, FORMATS, shown
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

if TYPE_CHECKING:
    from orchestrator.results.store import Run


@click.command(
    "plan",
    epilog=examples(
        "lh-ci plan",
        "lh-ci plan pytorch_gpu --format json",
        "lh-ci plan --format buildkite --out plan | buildkite-agent pipeline upload",
        "lh-ci plan --machines hosted --format github --out plan",
        "lh-ci collect plan --results back; lh-ci plan --again plan --format github",
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
@click.option(
    "--again",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Instead of a new run: more jobs for the one in DIR, of the cells whose last attempt is a "
    "miss, each for another machine than the one that missed it, if its pool has one.",
)
@click.option("--dry-run", is_flag=True, help="With --again: show them, and write nothing.")
@pass_app
def command(app: App, /, selection: tuple[str, ...], **given: Any) -> int:
    """Plan a run as jobs for pools, without an engine and whatever this machine is.

    SELECTION is a pipeline, or a glob over cell ids; without one, the whole matrix.

    With --again, DIR is what `lh-ci plan --out` wrote and `lh-ci collect` took results into. What
    comes of the new jobs is collected like that of the first ones, as further attempts.
    """
    if given["again"] is not None:
        return give_again(app, given)
    if given["dry_run"]:
        raise UsageError("--dry-run is for --again: without --out, nothing is written anyway")
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
        handed = Handed(
            backend=plan.options.backend, machines=given["machines"], branch=given["branch"]
        )
        _write(app, run, folder, plan, handed, placed)
    click.echo(shown(placed, skips(chosen.cells), given["form"]))
    return ExitCode.OK


def _machines(app: App, given: dict[str, Any]) -> AnyMachines:
    form = given["form"]
    given["machines"] = given["machines"] or ("registered" if form in FORGES else "any")
    if given["machines"] == "hosted":
        return HostedMachines()
    agents = load_fleet(app.root).agents
    if given["machines"] == "any":
        return AnyMachines(agents)
    registered = RegisteredMachines(agents, form if form in FORGES else None, given["branch"])
    return BothMachines(registered) if given["machines"] == "both" else registered


def _options(given: dict[str, Any]) -> RunOptions:
    return RunOptions(
        engine=given["engine"],
        workers=0,
        keep=given["keep"],
        timeout_s=given["timeout"],
        backend=given["form"] if given["form"] in FORGES else "local",
    )


def _new_run(folder: Path, app: App) -> Run:
    from orchestrator.results.store import Runs

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--out {folder}: there is something in it. Name a new folder")
    return Runs(folder).create(app.services.clock.now())


def _write(
    app: App, run: Run, folder: Path, plan: RunPlan, handed: Handed, placed: tuple[Placed, ...]
) -> None:
    """The run, and each of its jobs as a line of text."""
    from orchestrator import __version__
    from orchestrator.cli.remote import order_terms
    from orchestrator.config.declare import declare
    from orchestrator.results.schema import RunInfo
    from orchestrator.results.store import utc

    run.begin(plan, declare(app.config))
    hand_out(app, run, folder, order_terms(app, run, plan), handed, placed)
    run.write_info(
        RunInfo(
            run=run.name,
            started=utc(app.services.clock.now()),
            engine="elsewhere",
            engine_note=plan.options.backend,
            version=__version__,
        )
    )
