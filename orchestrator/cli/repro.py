"""`lh-ci repro`: one cell again, with everything that it leaves."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import click

from orchestrator import records
from orchestrator.backends.perform import sweep
from orchestrator.cli import commands, running
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import engine_option, examples
from orchestrator.cli.report import TextReporter, blocks, console
from orchestrator.cli.selecting import Asked, choose, require_runnable
from orchestrator.config.declare import declare
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.plan import PlannedCell
from orchestrator.results.files import unwritable, write_atomically
from orchestrator.results.schema import Result, RunOptions, RunPlan
from orchestrator.results.store import Run
from orchestrator.results.verdict import exit_code

_MARK = "job.json"
"""A folder that has it is one that we wrote, and may write again."""


@click.command(
    "repro",
    epilog=examples(
        "lh-ci repro pytorch_cpu.softmax.f32@intel-cpu",
        "lh-ci repro pytorch_cpu.softmax.f32@intel-cpu --run last --out /tmp/softmax",
    ),
)
@click.argument("cell")
@click.option("--out", type=click.Path(path_type=Path), help="Default: repro/<cell>/.")
@click.option(
    "--run", "run_name", metavar="RUN|last", help="As it was in that run, options included."
)
@engine_option
@pass_app
def command(app: App, /, cell: str, out: Path | None, run_name: str | None, engine: str) -> int:
    """Rerun exactly one cell and keep everything: the IR of each stage, inputs, outputs.

    Prints the one command that reruns it, and writes a folder that tells its whole story.
    """
    plan = _plan(app, cell, run_name, engine)
    (planned,) = plan.cells
    target = (Path.cwd() / out) if out else app.root / "repro" / planned.cell.id
    _check_target(target)
    click.echo(commands.rerun(planned, plan))
    chosen, note = app.engine(plan.options.engine)
    run = app.runs.create(app.services.clock.now())
    run.begin(plan, declare(app.config))
    screen = console()
    with TextReporter(screen, app.config.pins, 1) as reporter:
        sweep(chosen, reporter.note)
        ran = running.execute(app, run, plan, chosen, note, reporter)
    result = ran.results[planned.cell.id]
    for line, style in blocks([result], run.name):
        screen.print(line, style=style)
    _write(target, run, planned, result)
    screen.print(f"{result.status}      written to {app.shown(target)}")
    return exit_code([result])


def _plan(app: App, cell: str, run_name: str | None, engine: str) -> RunPlan:
    """A plan of that one cell. Raises UsageError when there is no such cell."""
    if run_name is None:
        asked = Asked(selection=(cell,))
        try:
            chosen = choose(app.config, app.host, asked, Path.cwd())
        except UsageError:
            old = _newest_with(app, cell)
            if old is None:
                raise
            return _only(old.plan(), cell, engine)
        if len(chosen.cells) > 1:
            some = ", ".join(planned.cell.id for planned in chosen.cells[:5])
            raise UsageError(f"`{cell}` fits {len(chosen.cells)} cells: {some}, … Name one")
        require_runnable(app.config, asked, chosen)
        options = RunOptions(engine=engine, keep="always", retries=0)
        return RunPlan(selection=(cell,), cells=chosen.cells, files=chosen.files, options=options)
    return _only(app.runs.find(run_name).plan(), cell, engine)


def _newest_with(app: App, cell: str) -> Run | None:
    """The newest run that has a cell which the matrix has not: a workload given by its path."""
    for run in app.runs.all():
        try:
            if any(planned.cell.id == cell for planned in run.plan().cells):
                return run
        except InfrastructureError:
            continue
    return None


def _only(plan: RunPlan, cell: str, engine: str) -> RunPlan:
    found = [planned for planned in plan.cells if planned.cell.id == cell]
    if not found:
        raise UsageError(f"that run has no cell `{cell}`. Its cells: lh-ci show RUN")
    if not found[0].runnable:
        raise UsageError(f"{cell} cannot run here: {found[0].reason}")
    options = dataclasses.replace(plan.options, keep="always", retries=0, workers=1)
    if engine != "auto":
        options = dataclasses.replace(options, engine=engine)
    return dataclasses.replace(plan, cells=tuple(found), options=options)


def _check_target(target: Path) -> None:
    """Raises UsageError rather than write into a folder that is not ours."""
    if not target.exists():
        return
    if not target.is_dir() or (any(target.iterdir()) and not (target / _MARK).is_file()):
        raise UsageError(f"{target} is there and was not written by lh-ci repro. Use another --out")


def _write(target: Path, run: Run, planned: PlannedCell, result: Result) -> None:
    """Replaces `target` by the cell's story. Raises InfrastructureError."""
    cell = planned.cell
    try:
        if target.exists():
            shutil.rmtree(target)
        artifacts = run.artifacts(cell.id)
        if artifacts.is_dir():
            shutil.copytree(artifacts, target)
        target.mkdir(parents=True, exist_ok=True)
        for job in sorted((run.folder / "jobs").glob("*")):
            _copy_job(job, target, planned)
    except OSError as error:
        raise unwritable(target, error) from error
    write_atomically(target / "result.json", records.dumps(result, indent=1).encode() + b"\n")
    write_atomically(target / "README.txt", _readme(result, target).encode())


def _copy_job(job: Path, target: Path, planned: PlannedCell) -> None:
    cell = planned.cell
    shutil.copyfile(job / "job.json", target / _MARK)
    shutil.copyfile(job / cell.workload.file, target / Path(cell.workload.file).name)
    if cell.golden is not None:
        shutil.copyfile(job / cell.golden.file, target / "golden.npz")


def _readme(result: Result, target: Path) -> str:
    about = {
        "ir": "the IR as it came in (00) and after each recipe (01, 02, …)",
        "inputs.npz": "what was passed to the program: argument_0, argument_1, …",
        "outputs.npz": "what it computed: output_0, output_1, …",
        "golden.npz": "what it should have computed",
        "job.json": "the job as the harness read it",
        "result.json": "what came out: status, timings, errors, versions, hardware",
    }
    lines = [
        f"{result.cell}: {result.status} {result.phase}".rstrip(),
        *(result.message.splitlines()),
        "",
        "Rerun it, in the repository:",
        f"  {result.reproduce}",
        "",
        *(
            f"{name:<12} {text}"
            for name, text in about.items()
            if (target / name).exists() or name == "result.json"
        ),
        "",
    ]
    return "\n".join(lines)
