"""Jobs of a plan, handed out: the first ones, and those of what was missed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from orchestrator.cli.app import App
from orchestrator.cli.placed import FORGES, shown
from orchestrator.errors import ExitCode, UsageError
from orchestrator.text import plural

if TYPE_CHECKING:
    from orchestrator.backends.executing import Ordered
    from orchestrator.backends.handed import Handed
    from orchestrator.backends.ordering import Terms
    from orchestrator.backends.placing import Placed
    from orchestrator.fleet.models import BackendName
    from orchestrator.fleet.serving import RegisteredMachines
    from orchestrator.results.store import Run


def hand_out(
    app: App, run: Run, folder: Path, terms: Terms, handed: Handed, placed: tuple[Placed, ...]
) -> None:
    """Jobs as lines of text, signed where there is a key."""
    from orchestrator.backends import planned
    from orchestrator.cli.trust import planned_signing

    form = handed.backend
    signing = planned_signing(app, form) if form in FORGES else None
    planned.write(folder, run, handed, placed, terms, signing, app.services.clock.now())
    unsigned = [each for each in placed if not each.hosted]
    if form in FORGES and signing is None and unsigned:
        click.echo(
            f"note  {plural(len(unsigned), 'job')} for registered agents not signed: there is no "
            "key of the orchestrator here, and agents that have LH_AGENT run no such job",
            err=True,
        )


_WITH_AGAIN = ("again", "form", "dry_run")
"""Parameters that say nothing of what is run."""


def give_again(app: App, given: dict[str, Any]) -> int:
    """More jobs for a plan, of what was missed.

    Raises:
        UsageError: something was said that the plan says already, or this is another commit.
        InfrastructureError: this is no plan, or it is damaged.
    """
    from orchestrator.backends import executing, planned, slip
    from orchestrator.backends import handed as papers
    from orchestrator.backends.again import second_go
    from orchestrator.cli.remote import order_terms

    _check_alone()
    folder = Path.cwd() / given["again"]
    run, handed = planned.only_run(folder), papers.read(folder)
    _check_form(given["form"], handed)
    with run.claimed():
        found = second_go(run, handed, _peers(app, handed), app.services.clock.now())
        if found.placed and not given["dry_run"]:
            jobs = [each.job for each in found.placed]
            _check_commit(app, [executing.read(run.folder / "jobs" / name) for name in found.of])
            files = {k: v for job in jobs for k, v in slip.checkout(job, app.root).items()}
            terms = dataclasses.replace(order_terms(app, run, run.plan()), files=files)
            hand_out(app, run, folder, terms, handed, found.placed)
    click.echo(shown(found.placed, found.left, given["form"]))
    return ExitCode.OK


def _check_alone() -> None:
    """The run says what it is of; nothing of that can be said again."""
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    said = [
        parameter
        for parameter in context.command.params
        if parameter.name not in (*_WITH_AGAIN, None)
        and context.get_parameter_source(str(parameter.name)) is not default
    ]
    if said:
        names = ", ".join(
            each.opts[0] if each.opts[0] != "selection" else "SELECTION" for each in said
        )
        raise UsageError(f"--again goes on with a run as it was planned, without {names}")


def _check_form(form: str, handed: Handed) -> None:
    if form == "buildkite":
        raise UsageError(
            "--again --format buildkite: a build has its steps already, and Buildkite tries those "
            "again that lost their agent: docs/buildkite.md"
        )
    if form in FORGES and form != handed.backend:
        raise UsageError(
            f"--format {form}: that run was planned with another --format, for {handed.backend}"
        )


def _check_commit(app: App, before: Iterable[Ordered]) -> None:
    """A second go is of the same harness and stacks as the first."""
    from orchestrator.backends import jobdir
    from orchestrator.engines.images import stack_definition

    for order in (each.order for each in before):
        stack = stack_definition(app.root, app.config.pins, order.stack)
        if (order.harness_sha256, order.stack_sha256) != (jobdir.harness_sha256(), stack):
            raise UsageError(
                f"job {order.job} was planned in another commit than the one that is checked out "
                "here: its second go would be of something else. Check out that commit"
            )


def _peers(app: App, handed: Handed) -> RegisteredMachines | None:
    """Agents whose owners' terms are known; None: any machine of a pool will do."""
    from orchestrator.fleet.agents import load_fleet
    from orchestrator.fleet.serving import RegisteredMachines

    if handed.machines not in ("registered", "both"):
        return None
    agents = load_fleet(app.root).agents
    backend = handed.backend if handed.backend in FORGES else None
    return RegisteredMachines(agents, cast("BackendName | None", backend), handed.branch)
