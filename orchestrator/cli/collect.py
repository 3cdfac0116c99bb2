"""`lh-ci collect`: what came back of a plan, as a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.results.files import unwritable


@click.command(
    "collect",
    epilog=examples(
        "lh-ci collect plan --results back",
        'lh-ci collect plan --results back --summary "$GITHUB_STEP_SUMMARY"',
    ),
)
@click.argument("plan", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--results",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With a file <job>.tar.gz for each job, however deep.",
)
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Append a summary to it, in Markdown.",
)
@pass_app
def command(app: App, /, plan: Path, results: Path, summary: Path | None) -> int:
    """Take the results of all jobs of PLAN into its run, a folder below PLAN/runs.

    PLAN is what `lh-ci plan --out` wrote. A job of which nothing came back is a `miss`; what comes
    of a signed job counts only as signed by the agent that it was given to. Exit codes are those
    of `lh-ci run`, but for cells on probation.
    """
    from orchestrator.backends import handed, planned
    from orchestrator.cli.report import blocks, console
    from orchestrator.cli.trust import collecting
    from orchestrator.results.markdown import summarise
    from orchestrator.results.store import utc
    from orchestrator.results.verdict import exit_code
    from orchestrator.text import counts, plain

    run = planned.only_run(Path.cwd() / plan)
    with run.claimed():
        collected = planned.collect(
            Path.cwd() / plan,
            run,
            Path.cwd() / results,
            app.services.clock,
            lambda line: click.echo(plain(line)),
            collecting(app),
        )
        info = run.info()
        environments = {(e.stack, e.digest): e for i in collected.infos for e in i.environments}
        run.write_info(
            dataclasses.replace(
                info,
                ended=utc(app.services.clock.now()),
                environments=tuple(environments.values()),
                spans=tuple(span for each in collected.infos for span in each.spans),
            )
        )
    for note in collected.notes:
        click.echo(plain(f"note  {note}"))
    latest = run.latest()
    out = console()
    for line, style in blocks(latest.values()):
        out.print(line, style=style)
    skipped = [p for p in run.plan().cells if not p.runnable]
    out.print(counts([*(r.status for r in latest.values()), *["skip"] * len(skipped)]))
    if summary is not None:
        _append(Path.cwd() / summary, summarise(run.name, latest.values(), skipped))
    quiet = handed.read(Path.cwd() / plan).quiet()
    return exit_code(result for result in latest.values() if result.cell not in quiet)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(path, error) from error
