"""`lh-ci agents`: the machines that are registered."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.counting import counted, journal
from orchestrator.cli.params import examples, json_option
from orchestrator.fleet import public
from orchestrator.fleet.agents import key_state, load_fleet
from orchestrator.fleet.health import WELL, words
from orchestrator.fleet.levels import Advice, Reliability, advise
from orchestrator.fleet.models import AgentFile, Terms
from orchestrator.fleet.quarantine import standings
from orchestrator.text import plain, plural, seconds, size, table


@click.command(
    "agents",
    epilog=examples("lh-ci agents", "lh-ci agents --json", "lh-ci agents --results nightly"),
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Runs, or archives of runs (*.parquet), that say what blocks promotion. Default: the runs "
    "of this workspace.",
)
@json_option
@pass_app
def command(app: App, /, results: Path | None, as_json: bool) -> int:
    """List the registered machines, whose they are, and what their owners let them be used for."""
    agents = load_fleet(app.root).agents
    seen = counted(app, results and Path.cwd() / results)
    advice: dict[str, Advice] = {}
    if seen is not None:
        advice = {
            name: advise(agent.level, seen.get(name, Reliability()))
            for name, agent in agents.items()
        }
    today, now = app.today(), app.services.clock.now()
    known = standings(journal(app).read())
    standing = {name: words(known.get(name), now) for name in agents}
    valid = {
        name: [
            fingerprint
            for fingerprint in (public.fingerprint(each.key) for each in agent.keys)
            if key_state(agent, fingerprint, today) == "valid"
        ]
        for name, agent in agents.items()
    }
    if as_json:
        documents = [
            {**_json(agent, valid[name], advice.get(name)), "standing": standing[name]}
            for name, agent in agents.items()
        ]
        click.echo(json.dumps(documents, indent=2))
    else:
        _print(agents, valid, advice, standing)
    return 0


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
    standing: Mapping[str, str],
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
    for name, told in standing.items():
        if told != WELL:
            click.echo(plain(f"{name}: {told}"))
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
