"""`lh-ci agents`: the machines that are registered."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import click

from orchestrator import records
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.errors import UsageError
from orchestrator.fleet import public
from orchestrator.fleet.agents import key_state, load_fleet
from orchestrator.fleet.levels import Advice, Reliability, advise
from orchestrator.fleet.models import AgentFile, Terms
from orchestrator.text import plain, plural, seconds, size, table


@click.command(
    "agents",
    epilog=examples("lh-ci agents", "lh-ci agents --json", "lh-ci agents --history counts.json"),
)
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What was counted of each agent: JSON, names to the fields of `fleet.levels.Reliability`. "
    "Says what blocks promotion.",
)
@json_option
@pass_app
def command(app: App, /, history: Path | None, as_json: bool) -> int:
    """List the registered machines, whose they are, and what their owners let them be used for."""
    agents = load_fleet(app.root).agents
    seen = _read(history) if history else {}
    advice = {
        name: advise(agent.level, seen[name]) for name, agent in agents.items() if name in seen
    }
    today = app.today()
    valid = {
        name: [
            fingerprint
            for fingerprint in (public.fingerprint(each.key) for each in agent.keys)
            if key_state(agent, fingerprint, today) == "valid"
        ]
        for name, agent in agents.items()
    }
    if as_json:
        documents = [_json(agent, valid[name], advice.get(name)) for name, agent in agents.items()]
        click.echo(json.dumps(documents, indent=2))
    else:
        _print(agents, valid, advice)
    return 0


def _read(path: Path) -> dict[str, Reliability]:
    try:
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise UsageError(f"{path}: expected an object, agents to what was counted of them")
        return {name: records.decode(Reliability, each, name) for name, each in value.items()}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _json(agent: AgentFile, valid: list[str], advice: Advice | None) -> dict[str, object]:
    document: dict[str, object] = {
        **agent.model_dump(mode="json", by_alias=True, exclude={"keys", "revoked"}),
        "id": agent.id,
        "keys": valid,
    }
    if advice is not None:
        document["advice"] = dataclasses.asdict(advice)
    return document


def _print(
    agents: Mapping[str, AgentFile],
    valid: Mapping[str, list[str]],
    advice: Mapping[str, Advice],
) -> None:
    rows = [("agent", "owner", "pools", "backend", "level", "key", "terms")]
    rows += [
        (
            name,
            agent.owner,
            ", ".join(agent.pools),
            agent.backend,
            agent.level,
            ", ".join(key[:12] for key in valid[name]) or "none counts",
            _brief(agent.terms),
        )
        for name, agent in agents.items()
    ]
    if agents:
        for line in table(rows):
            click.echo(plain(line))
    for name, each in advice.items():
        if each.level != agents[name].level:
            click.echo(f"{name} should be {each.level}")
        for reason in each.reasons:
            click.echo(plain(f"{name}: {reason}"))
    click.echo(plural(len(agents), "agent"))


def _brief(terms: Terms) -> str:
    """What differs from the least surprising terms, and the limits."""
    parts = [
        "" if terms.pipelines == ("*",) else " ".join(terms.pipelines),
        " ".join(terms.branches),
        " ".join(terms.hours),
        plural(terms.jobs, "job"),
        f"priority {terms.priority}" if terms.priority else "",
        size(terms.disk),
        seconds(terms.time),
        "" if terms.forks == "never" else "approved forks",
    ]
    return ", ".join(filter(None, parts))
