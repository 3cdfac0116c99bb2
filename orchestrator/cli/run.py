"""`lh-ci run`: cells, on this machine or on others."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click

from orchestrator.backends.perform import default_workers, sweep
from orchestrator.cli import remote, running, story, timings
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.elsewhere import BACKENDS, address
from orchestrator.cli.params import (
    asked,
    engine_option,
    examples,
    filter_options,
    json_option,
    keep_option,
    section,
    timeout_option,
)
from orchestrator.cli.report import (
    SilentReporter,
    TextReporter,
    blocks,
    console,
    cpu_line,
    gpu_line,
    summary,
)
from orchestrator.cli.resuming import find_unfinished, split_resume
from orchestrator.cli.selecting import Asked, Chosen, choose, require_runnable, skips
from orchestrator.config.declare import declare
from orchestrator.errors import ExitCode, UsageError
from orchestrator.job import Keep
from orchestrator.plan import PlannedCell, Serving, make_jobs
from orchestrator.results.schema import RunOptions, RunPlan
from orchestrator.results.store import Run
from orchestrator.results.verdict import exit_code
from orchestrator.text import plain, plural


@click.command(
    "run",
    epilog=examples(
        "lh-ci run pytorch_cpu",
        "lh-ci run pytorch_cpu --workload mlp --keep always",
        "lh-ci run '*.softmax.*'",
        "lh-ci run pytorch_cpu --workload path/to/model.py --set BATCH=8",
        "lh-ci run --resume",
    )
    + "\n\n"
    + section(
        "Exit code, from core cells alone, the first that applies",
        "1  a cell is `fail` or `xpass`      the compiler under test",
        "3  a cell is `error`                our definitions",
        "4  a cell is `miss`                 infrastructure; no verdict",
        "0  otherwise: pass, xfail, skip, and anything of peripheral cells",
    ),
)
@click.argument("selection", nargs=-1)
@filter_options
@engine_option
@click.option(
    "--toolchain",
    type=click.Choice(["auto", "release", "bindings"]),
    default="auto",
    show_default=True,
    help="Lower with the LLVM release, or with the MLIR bindings of the frontend's wheel.",
)
@keep_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Cells at the same time. Default: by this machine's cores and memory.",
)
@timeout_option
@click.option(
    "--retries",
    type=click.IntRange(0, 2),
    default=2,
    show_default=True,
    help="How often a `miss` is tried again.",
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first red core cell.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="last",
    metavar="[RUN]",
    help="Continue a run that was stopped: the last one, or RUN.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="local",
    show_default=True,
    help="Who runs the cells: this machine, the workers of a Buildbot master, the agents of a "
    "Buildkite pipeline, the runners of a GitHub repository.",
)
@click.option(
    "--master",
    metavar="WHERE",
    help="Address of the Buildbot master, ORGANIZATION/PIPELINE of Buildkite, OWNER/NAME of the "
    "repository. Default: LH_BUILDBOT_MASTER, LH_BUILDKITE_PIPELINE, LH_GITHUB_REPOSITORY.",
)
@click.option(
    "--as-agent",
    is_flag=True,
    help="Run jobs on this machine as agents do: each by `lh-ci exec` in a process of its own, "
    "which goes on when this command ends. --resume waits for it again.",
)
@click.option(
    "--unsigned",
    is_flag=True,
    help="Take results of machines that are not registered, too: for trials on your own.",
)
@click.option("--timings", "with_timings", is_flag=True, help="Say where the time went.")
@click.option("--dry-run", is_flag=True, help="Print what would run, and do nothing.")
@json_option
@pass_app
@click.pass_context
def command(ctx: click.Context, app: App, /, **given: Any) -> int:
    """Run cells of the matrix: lower, execute, compare with goldens.

    SELECTION is a pipeline, or a glob over cell ids. Cells of pools that this machine is not part
    of are skipped.
    """
    resume, selection = split_resume(given["resume"], given["selection"])
    wanted = asked(selection, given)
    if resume is not None:
        run = find_unfinished(ctx, app, resume, wanted)
        return _run(app, run, run.plan(), given)
    given["master"] = address(app, given["backend"], given["master"], as_agent=given["as_agent"])
    where = _where(app, given) or app.host
    chosen = remote.judged(where, choose(app.config, where, wanted, Path.cwd()))
    require_runnable(app.config, wanted, chosen)
    plan = _plan(app, wanted, chosen, given)
    if given["dry_run"]:
        _print_plan(plan, as_json=given["as_json"])
        return ExitCode.OK
    return _run(app, None, plan, given)


def _where(app: App, given: dict[str, Any]) -> Serving | None:
    """The machines elsewhere that cells are for; None: this one."""
    if given["backend"] == "local" and given["unsigned"]:
        raise UsageError("--unsigned needs a --backend elsewhere, such as buildbot")
    return remote.serving(app, given["backend"], given["master"], unsigned=given["unsigned"])


def _plan(app: App, wanted: Asked, chosen: Chosen, given: dict[str, Any]) -> RunPlan:
    here = not given["master"]
    options = RunOptions(
        engine=given["engine"],
        toolchain=given["toolchain"],
        workers=given["workers"] or (default_workers(app.host) if here else 0),
        keep=cast(Keep, given["keep"]),
        retries=given["retries"],
        timeout_s=given["timeout"],
        backend=given["backend"],
        master=given["master"],
        unsigned=given["unsigned"],
    )
    return RunPlan(
        selection=wanted.words(),
        cells=chosen.cells,
        files=chosen.files,
        options=options,
        adhoc=chosen.adhoc,
    )


def _run(app: App, run: Run | None, plan: RunPlan, given: dict[str, Any]) -> int:
    """Runs, shows, and gives the exit code. `run` is None for a new one."""
    as_json, fail_fast = bool(given["as_json"]), bool(given["fail_fast"])
    if not plan.options.master:
        engine, note = app.engine(plan.options.engine)
        run = run or _new(app, plan)
        with _reporter(app, plan, run, note or engine.name, as_json=as_json) as reporter:
            sweep(engine, reporter.note)
            ran = running.execute(app, run, plan, engine, note, reporter, fail_fast=fail_fast)
    else:
        run = run or _new(app, plan)
        with _reporter(app, plan, run, plan.options.backend, as_json=as_json) as reporter:
            ran = remote.execute(app, run, plan, reporter, fail_fast=fail_fast)
    code = exit_code(ran.results.values())
    if as_json:
        _print_json(app, plan, ran, code)
        return code
    out = console()
    out.print()
    for line, style in blocks(ran.results.values()):
        out.print(line, style=style)
    if given["with_timings"]:
        for line in timings.lines(
            ran.info, ran.results.values(), ran.wall, plan.options.workers or 1
        ):
            out.print(line)
        out.print()
    out.print(summary(ran.results, len(_skipped(plan)), app.shown(run.folder)))
    return code


def _new(app: App, plan: RunPlan) -> Run:
    run = app.runs.create(app.services.clock.now())
    run.begin(plan, declare(app.config))
    return run


@contextlib.contextmanager
def _reporter(
    app: App, plan: RunPlan, run: Run, engine: str, *, as_json: bool
) -> Iterator[TextReporter | SilentReporter]:
    if as_json:
        yield SilentReporter(lambda line: click.echo(line, err=True))
        return
    waiting = run.unfinished()
    runnable = [p for p in plan.cells if p.runnable]
    out = console()
    reporter = TextReporter(out, app.config.pins, len(runnable), done=len(runnable) - len(waiting))
    pools = list(dict.fromkeys(p.cell.pool for p in runnable))
    width = max(14, *(len(pool) + 1 for pool in pools)) if pools else 0
    for pool in pools:
        here = [p for p in runnable if p.cell.pool == pool]
        jobs = plural(len({p.stack for p in here}), "job")
        what = f"{plural(len(here), 'cell')}, {jobs}, {engine}"
        machines = plan.options.master or cpu_line(app.host)
        reporter.head(f"pool  {pool:<{width}}{machines}   {what}")
    if not plan.options.master and (line := gpu_line(app.host, plan.cells)):
        reporter.head(line)
    for reason, count in skips(plan.cells).items():
        reporter.head(f"skip  {plural(count, 'cell')}: {reason}")
    with reporter:
        yield reporter


def _skipped(plan: RunPlan) -> list[PlannedCell]:
    return [planned for planned in plan.cells if not planned.runnable]


def _print_plan(plan: RunPlan, *, as_json: bool) -> None:
    jobs = make_jobs(
        plan.cells,
        workers=plan.options.workers,
        toolchain="auto",
        keep=plan.options.keep,
        mode="run",
        run="run",
    )
    if as_json:
        document = {
            "jobs": [
                {"stack": j.stack, "pool": j.pool, "cells": [c.id for c in j.cells]} for j in jobs
            ],
            "skipped": story.skipped_document(plan),
            "options": dataclasses.asdict(plan.options),
        }
        click.echo(json.dumps(document, indent=2))
        return
    for job in jobs:
        workers = plural(job.workers, "worker")
        click.echo(f"job   {job.stack} on {job.pool}: {plural(len(job.cells), 'cell')}, {workers}")
        for cell in job.cells:
            click.echo(f"      {cell.id}")
    for reason, count in skips(plan.cells).items():
        click.echo(plain(f"skip  {plural(count, 'cell')}: {reason}"))


def _print_json(app: App, plan: RunPlan, ran: running.Ran, code: ExitCode) -> None:
    document = {
        "schema": 1,
        "run": ran.run.name,
        "folder": app.shown(ran.run.folder),
        "engine": ran.info.engine,
        "seconds": round(ran.wall, 3),
        "exit_code": int(code),
        "cells": [story.cell_document(result) for result in ran.results.values()],
        "skipped": story.skipped_document(plan),
    }
    click.echo(json.dumps(document, indent=2))
