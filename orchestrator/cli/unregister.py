"""`lh-ci unregister`: takes a machine's file away."""

from __future__ import annotations

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.config.suggest import unknown
from orchestrator.errors import UsageError
from orchestrator.fleet import keys
from orchestrator.fleet.agents import FOLDER
from orchestrator.results.files import unwritable


@click.command(
    "unregister",
    epilog=examples("lh-ci unregister amd-lab-1", "lh-ci unregister amd-lab-1 --keys"),
)
@click.argument("agent", metavar="NAME")
@click.option("--keys", "with_keys", is_flag=True, help="Remove its private keys from here too.")
@pass_app
def command(app: App, /, agent: str, with_keys: bool) -> int:
    """Remove agents/NAME.yaml; once that is merged, nothing of the machine counts any more."""
    folder = app.root / FOLDER
    # by the files alone: one that is wrong can go too
    known = [path.stem for path in folder.glob("*.yaml") if not path.name.startswith("_")]
    if agent not in known:
        raise UsageError(unknown("agent", agent, known))
    path = folder / f"{agent}.yaml"
    try:
        path.unlink()
    except OSError as error:
        raise unwritable(path, error) from error
    click.echo(f"removed {app.shown(path)}: send that as a pull request")
    for fingerprint in keys.fingerprints(app.state, agent):
        if with_keys:
            keys.retire(app.state, agent, fingerprint)
            click.echo(f"removed its key {fingerprint}")
        else:
            click.echo(f"its key {fingerprint} stays here (--keys removes it)")
    return 0
