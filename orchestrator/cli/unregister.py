"""`lh-ci unregister`: takes a machine's offer back, and what was written for it here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import click

from orchestrator.cli import next_steps
from orchestrator.cli import seat as seats
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.config.suggest import unknown
from orchestrator.errors import UsageError
from orchestrator.fleet import keys
from orchestrator.fleet.agents import FOLDER
from orchestrator.fleet.envelope import ORCHESTRATOR
from orchestrator.results.files import unwritable
from orchestrator.text import plain


@click.command(
    "unregister",
    epilog=examples(
        "lh-ci unregister amd-lab-1",
        "lh-ci unregister amd-lab-1 --keep-keys",
        "lh-ci unregister amd-lab-1 --yes --json",
    ),
)
@click.argument("agent", metavar="NAME")
@click.option("--yes", is_flag=True, help="Ask nothing: its private keys go too.")
@click.option("--keep-keys", is_flag=True, help="Ask nothing: its private keys stay.")
@json_option
@pass_app
def command(app: App, /, agent: str, yes: bool, keep_keys: bool, as_json: bool) -> int:
    """Take away agents/NAME.yaml, and all that `lh-ci register` wrote for it on this machine.

    Its private keys go when you say so. Tells what remains to be done: once the removal of the file
    is merged, nothing of the machine counts any more.
    """
    _check_known(app, agent)
    if yes and keep_keys:
        raise UsageError("--yes removes its keys and --keep-keys keeps them: give one")
    held = keys.fingerprints(app.state, agent)
    with_keys = bool(held) and not keep_keys and (yes or _ask(agent, len(held)))
    seated = seats.read(app.state, agent)
    gone, kept = seats.leave(app.state, seated) if seated else ([], [])
    path = app.root / FOLDER / f"{agent}.yaml"
    steps = next_steps.farewell(seated) if seated else []
    try:
        path.unlink()
        gone.append(path)
        steps.insert(0, f"send the removal of {app.shown(path)} as a pull request")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unwritable(path, error) from error
    for fingerprint in held if with_keys else ():
        keys.retire(app.state, agent, fingerprint)
    document: dict[str, str | list[str]] = {
        "agent": agent,
        "removed": [app.shown(each) for each in gone],
        "kept": [app.shown(each) for each in kept],
        "removed_keys": list(held) if with_keys else [],
        "kept_keys": [] if with_keys else list(held),
        "next": steps,
    }
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        _tell(document, steps)
    return 0


def _check_known(app: App, agent: str) -> None:
    """By the files alone: what is wrong can go too. Raises UsageError."""
    files = [path.stem for path in (app.root / FOLDER).glob("*.yaml")]
    owners = [owner for owner in keys.owners(app.state) if owner != ORCHESTRATOR]
    known = {name for name in files if not name.startswith("_")}
    known |= {*seats.names(app.state), *owners}
    if agent not in known:
        raise UsageError(unknown("agent", agent, known))


def _ask(agent: str, count: int) -> bool:
    """Raises UsageError when nobody can be asked."""
    if not _can_ask():
        raise UsageError(
            "nothing was removed: there is nobody to ask about its private keys. Pass --yes to "
            "remove them too, or --keep-keys"
        )
    return click.confirm(f"Remove the private keys of {agent} too ({count})?")


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _tell(document: Mapping[str, str | list[str]], steps: list[str]) -> None:
    titles = {
        "removed": "removed",
        "kept": "stays",
        "removed_keys": "removed its key",
        "kept_keys": "its key stays:",
    }
    lines = [f"{title} {each}" for name, title in titles.items() for each in document[name]]
    lines += ["", "next", *(f"  {n}. {step}" for n, step in enumerate(steps, 1))] if steps else []
    for line in lines:
        click.echo(plain(line))
