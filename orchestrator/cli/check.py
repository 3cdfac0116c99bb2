"""`lh-ci check`: everything that people edit, all problems at once."""

from __future__ import annotations

import dataclasses
import json

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples, json_option
from orchestrator.config import schema
from orchestrator.config.cells import cell_keys
from orchestrator.config.objects import Config
from orchestrator.errors import DefinitionError, ExitCode, Problem
from orchestrator.fleet.agents import load_fleet
from orchestrator.text import plain, plural


@click.command("check", epilog=examples("lh-ci check", "lh-ci check --json"))
@json_option
@pass_app
def command(app: App, /, as_json: bool) -> int:
    """Check everything that people edit; all problems are shown at once.

    The matrix, pins, recipes, workloads (parsed, never run), goldens and tolerances; expectations
    that expired; registered agents; the JSON Schemas for editors.
    """
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    try:
        counts = _counts(app.services.load(app.root, today=app.today()))
    except DefinitionError as error:
        problems += error.problems
    try:
        counts["agent"] = len(load_fleet(app.root).agents)
    except DefinitionError as error:
        problems += error.problems
    for path in schema.drift(app.root):
        name = path.relative_to(app.root).as_posix()
        text = "differs from the models. Write it again: lh-ci schema --write"
        problems.append(Problem(name, 0, 0, text))
    if as_json:
        found = [dataclasses.asdict(problem) for problem in problems]
        click.echo(json.dumps({"problems": found, "counts": counts}, indent=2))
    else:
        for problem in problems:
            click.echo(plain(str(problem)))
        click.echo(
            plural(len(problems), "problem")
            if problems
            else "ok: " + ", ".join(plural(n, noun) for noun, n in counts.items())
        )
    return ExitCode.DEFINITIONS if problems else ExitCode.OK


def _counts(config: Config) -> dict[str, int]:
    return {
        "pipeline": len(config.matrix.pipelines),
        "cell": sum(1 for _ in cell_keys(config.matrix, config.workloads)),
        "workload": len(config.workloads),
        "recipe": len(config.schedules) + len(config.pipelines),
        "golden": len(config.goldens),
        "stack": len(config.matrix.stacks),
        "pool": len(config.matrix.pools),
    }
