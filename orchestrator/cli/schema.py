"""`lh-ci schema`: the JSON Schemas that editors complete and check YAML files with."""

from __future__ import annotations

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.config import schema
from orchestrator.errors import ExitCode


@click.command("schema", epilog=examples("lh-ci schema", "lh-ci schema --write"))
@click.option("--write", is_flag=True, help="Write those that differ from the models.")
@pass_app
def command(app: App, /, write: bool) -> int:
    """Compare the JSON Schemas in schemas/ with the models they are generated from."""
    if write:
        for path in schema.write(app.root):
            click.echo(f"written {app.shown(path)}")
        return ExitCode.OK
    stale = schema.drift(app.root)
    for path in stale:
        click.echo(f"differs {app.shown(path)}")
    if stale:
        click.echo("Write them again: lh-ci schema --write")
        return ExitCode.DEFINITIONS
    click.echo(f"ok: {len(schema.schemas())} schemas are up to date")
    return ExitCode.OK
