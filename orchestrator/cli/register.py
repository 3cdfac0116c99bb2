"""`lh-ci register`: a machine offers itself to the fleet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.cli import next_steps, offering
from orchestrator.cli import seat as seats
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.commands import myself
from orchestrator.cli.params import examples, json_option
from orchestrator.cli.surveying import describe, look, show
from orchestrator.errors import UsageError
from orchestrator.fleet import public
from orchestrator.fleet.agents import ORCHESTRATOR_FILE, load_fleet
from orchestrator.fleet.models import BackendName
from orchestrator.fleet.register import Offer
from orchestrator.text import plain


@click.command(
    "register",
    epilog=examples(
        "lh-ci register     what can this machine serve?",
        "lh-ci register --pool amd-gpu --backend buildbot --owner 'A team' --contact a@b.example",
        "lh-ci register --pool arm-cpu --backend github --owner me --contact a@b.example --name pi",
        "lh-ci register … --master ci.example.org:9989 --password-file FILE     with a connection",
    ),
)
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="A pool to serve; several.")
@click.option("--backend", type=click.Choice(get_args(BackendName)), help="What will hand it jobs.")
@click.option("--owner", default="", help="Who answers for the machine: a team, a person.")
@click.option("--contact", default="", help="Where the owner is told that it is sick.")
@click.option("--name", default="", help="Of the machine. Default: its own.")
@click.option(
    "--vendor", default="", help="Who offers it. Default: whose GPU, or CPU, it is about."
)
@click.option(
    "--uncontained",
    is_flag=True,
    help="Register though no container engine answers: cells then run as you, and can read and "
    "write what you can.",
)
@click.option(
    "--no-health-job",
    is_flag=True,
    help="Register without running a health job first: its first job will be one.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the backend's configuration and service units go. Default: in the state folder.",
)
@click.option(
    "--master",
    default="",
    metavar="PLACE",
    help="Buildbot: where the master listens for workers, HOST:PORT. GitHub: OWNER/REPOSITORY.",
)
@click.option(
    "--connection",
    default="",
    metavar="ENDPOINT",
    help="Buildbot: instead of --master, a Twisted endpoint, such as tls:HOST:PORT.",
)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With the worker's password, or the token of Buildkite's agents; may come later.",
)
@json_option
@pass_app
def command(
    app: App, /, uncontained: bool, no_health_job: bool, as_json: bool, **given: Any
) -> int:
    """Look at this machine, and write the file that offers it: agents/<vendor>-<name>.yaml.

    Says which pools and pipelines it can serve and why not others, runs a health job, makes a
    signing key that never leaves it, writes what the backend needs on this machine, and tells what
    to do next. Without --pool, it only looks. Doing it again keeps the key and the file, and writes
    the backend's configuration again, by the terms as they are then.
    """
    asked, here = offering.Asked(**given), look(app, uncontained)
    if not as_json:
        show(here)
    offered: dict[str, object] = {}
    if asked.pools:
        offering.check(asked, here)
        access = offering.access(app, asked)
        offering.check_name(app, asked, here)  # before anything is run
        healthy = _health(app, asked.pools, skip=no_health_job, quiet=as_json)
        offer = offering.offer(app, asked, here)
        path, fresh = offering.write(app, offer)
        agent = load_fleet(app.root).agents[offer.id]
        before = seats.read(app.state, agent.id)
        seated = seats.take(app, agent, access, config=here.config, contained=here.contained)
        left = before if before and before.backend != agent.backend else None
        told = _Told(offer=offer, path=path, fresh=fresh, seated=seated, left=left)
        offered = {**_offered(app, told), "health": healthy}
        if not as_json:
            _tell(app, told)
    elif given_more := asked.without_pool():
        raise UsageError(f"{given_more} is for a machine that is offered: give --pool NAME too")
    elif not as_json:
        click.echo("\nnothing is written. To offer it: lh-ci register --pool NAME …")
    if as_json:
        click.echo(json.dumps({**describe(here), **offered}, indent=2))
    return 0


def _health(app: App, pools: Sequence[str], *, skip: bool, quiet: bool) -> dict[str, object] | None:
    """What the health job came to; None: there was none. Raises InfrastructureError."""
    if skip:
        click.echo("health    no health job was run, as asked", err=quiet)
        return None
    from orchestrator.cli import health_job  # what runs cells is slow to load

    return health_job.require(app, pools, quiet=quiet)


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What was done, and is told."""

    offer: Offer
    path: Path
    fresh: bool
    """The agent's file is new."""
    seated: seats.Seated | None
    left: seats.Seated | None
    """What there was for another backend, before it moved."""


def _steps(app: App, told: _Told) -> list[str]:
    shown = app.shown(told.path)
    nobody = f"git pull, once there is {ORCHESTRATOR_FILE}: without it, nobody's jobs count here"
    return [
        f"read the terms in {shown}: they are yours to change",
        f"{myself(app.services.environ)} check",
        "send the file as a pull request; on probation, its results are shown",
        *([] if load_fleet(app.root).orchestrator or told.seated is None else [nobody]),
        *(next_steps.farewell(told.left) if told.left else []),
        *next_steps.steps(app, told.seated),
    ]


def _offered(app: App, told: _Told) -> dict[str, object]:
    return {
        "agent": told.offer.id,
        "file": app.shown(told.path),
        "keys": list(told.offer.keys),
        "folder": told.seated and told.seated.folder,
        "files": list(told.seated.files) if told.seated else [],
        "next": _steps(app, told),
    }


def _tell(app: App, told: _Told) -> None:
    lines = [
        "",
        f"{'written' if told.fresh else 'as it was'}   {app.shown(told.path)}",
        *(
            f"key       {public.fingerprint(key)}: its private half stays in {app.shown(app.state)}"
            for key in told.offer.keys
        ),
    ]
    if told.seated:
        files = ", ".join(told.seated.files)
        lines.append(f"folder    {app.shown(Path(told.seated.folder))}: {files}")
        if seats.user() == "root":
            lines.append("note      its service is root's, for you are: better a user of its own")
    lines += ["", "next", *(f"  {n}. {step}" for n, step in enumerate(_steps(app, told), 1))]
    for line in lines:
        click.echo(plain(line))
