"""`lh-ci workflows`: the files that GitHub and Buildkite read."""

from __future__ import annotations

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.errors import ExitCode


@click.command("workflows", epilog=examples("lh-ci workflows --check", "lh-ci workflows --write"))
@click.option("--check", is_flag=True, help="Compare only, which is what happens without --write.")
@click.option("--write", is_flag=True, help="Write those that differ.")
@pass_app
def command(app: App, /, check: bool, write: bool) -> int:
    """Compare .github/ and .buildkite/ with what the matrix and the templates make of them."""
    from orchestrator.workflows import files

    if check and write:
        raise click.UsageError("--check and --write: one of them")
    matrix = app.config.matrix
    if write:
        for path in files.write(app.root, matrix):
            click.echo(f"written {app.shown(path)}")
        return ExitCode.OK
    stale = files.drift(app.root, matrix)
    for path in stale:
        click.echo(f"differs {app.shown(path)}")
    if stale:
        click.echo("Write them again: lh-ci workflows --write")
        return ExitCode.DEFINITIONS
    click.echo(f"ok: {len(files.render(matrix))} files are up to date")
    return ExitCode.OK
