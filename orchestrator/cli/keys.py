"""`lh-ci keys`: the signing keys of this machine."""

from __future__ import annotations

import json

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.config.suggest import unknown
from orchestrator.errors import UsageError
from orchestrator.fleet import keys
from orchestrator.fleet.agents import FOLDER, ORCHESTRATOR_FILE, key_state, load_fleet
from orchestrator.fleet.envelope import ORCHESTRATOR
from orchestrator.fleet.register import key_lines
from orchestrator.text import plain, table

_OWNER = click.argument("owner", metavar="NAME")


@click.group(
    "keys",
    epilog=examples(
        "lh-ci keys show",
        "lh-ci keys rotate amd-lab-1",
        "lh-ci keys retire amd-lab-1 3f0e…",
    ),
)
def command() -> None:
    """Show, rotate and retire the keys that this machine signs with.

    NAME is an agent's, or `orchestrator`. Private keys stay in the state folder.
    """


@command.command("show", epilog=examples("lh-ci keys show", "lh-ci keys show amd-lab-1 --json"))
@click.argument("owner", metavar="[NAME]", required=False)
@json_option
@pass_app
def show(app: App, /, owner: str | None, as_json: bool) -> int:
    """Show the public halves, and whether they are registered."""
    if owner is not None:
        _check_owner(app, owner)
    fleet, today = load_fleet(app.root), app.today()
    registered = {
        **fleet.agents,
        **({ORCHESTRATOR: fleet.orchestrator} if fleet.orchestrator else {}),
    }
    rows = []
    for each in [owner] if owner else keys.owners(app.state):
        for key in keys.own(app.state, each):
            listed = registered.get(each)
            state = key_state(listed, key.fingerprint, today) if listed else "unknown"
            rows.append((each, key.fingerprint, state, key.public))
    titles = ("owner", "fingerprint", "state", "key")
    if as_json:
        click.echo(json.dumps([dict(zip(titles, row, strict=True)) for row in rows], indent=2))
    elif rows:
        for line in table([titles, *rows]):
            click.echo(plain(line))
    else:
        click.echo("no keys here. lh-ci register makes an agent's, lh-ci keys rotate any")
    return 0


@command.command(
    "rotate", epilog=examples("lh-ci keys rotate amd-lab-1", "lh-ci keys rotate orchestrator")
)
@_OWNER
@pass_app
def rotate(app: App, /, owner: str) -> int:
    """Make one more key, to be listed beside the one in use; the first one, if there is none.

    Everything is signed with all keys of its owner, so the one in use counts until the new one is
    merged, whenever that is.
    """
    fleet = load_fleet(app.root)
    names = (*fleet.agents, ORCHESTRATOR)
    if owner not in names:
        raise UsageError(unknown("agent", owner, names))
    older = keys.fingerprints(app.state, owner)
    key = keys.make(app.state, owner)
    file = ORCHESTRATOR_FILE if owner == ORCHESTRATOR else f"{FOLDER}/{owner}.yaml"
    if owner == ORCHESTRATOR and fleet.orchestrator is None:
        click.echo(f"{key.fingerprint} was made. Write {file}, with the repositories' addresses:\n")
        click.echo("schema: 1\nrepositories: [https://…]\nkeys:")
    else:
        click.echo(f"{key.fingerprint} was made. Below `keys:` in {file}, add\n")
    click.echo(key_lines(key.public, app.today()))
    click.echo("\nand send that as a pull request.")
    for fingerprint in older:
        click.echo(
            f"Once it is merged, take {fingerprint} out of that list, and then: "
            f"lh-ci keys retire {owner} {fingerprint}"
        )
    return 0


@command.command("retire", epilog=examples("lh-ci keys retire amd-lab-1 3f0e…"))
@_OWNER
@click.argument("fingerprint", metavar="KEY")
@pass_app
def retire(app: App, /, owner: str, fingerprint: str) -> int:
    """Remove a private key from this machine; KEY is its fingerprint, or how that begins."""
    _check_owner(app, owner)
    found = [f for f in keys.fingerprints(app.state, owner) if f.startswith(fingerprint)]
    if len(found) > 1:
        raise UsageError(f"several keys of {owner} begin with {fingerprint}: {', '.join(found)}")
    keys.retire(app.state, owner, found[0] if found else fingerprint)
    click.echo(f"removed {found[0]}. If others may know it, list it under `revoked`")
    return 0


def _check_owner(app: App, owner: str) -> None:
    owners = keys.owners(app.state)
    if owner not in owners:
        raise UsageError(unknown("owner of keys here", owner, owners, "owners of keys here"))
