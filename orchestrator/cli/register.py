"""`lh-ci register`: a machine offers itself to the fleet."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator import records
from orchestrator.cli.app import App, pass_app
from orchestrator.cli.commands import myself
from orchestrator.cli.params import examples, json_option
from orchestrator.config.objects import Config
from orchestrator.config.suggest import unknown
from orchestrator.errors import DefinitionError, InfrastructureError, UsageError
from orchestrator.fleet import public
from orchestrator.fleet.agents import FOLDER, load_fleet
from orchestrator.fleet.models import AgentFile, BackendName
from orchestrator.fleet.register import (
    MIN_DISK_BYTES,
    Offer,
    Served,
    chips_of,
    default_name,
    default_vendor,
    render,
    survey,
)
from orchestrator.host import Host
from orchestrator.results.files import write_atomically
from orchestrator.text import is_plain, plain, plural, size, table


@click.command(
    "register",
    epilog=examples(
        "lh-ci register     what can this machine serve?",
        "lh-ci register --pool amd-gpu --backend buildbot --owner 'A team' --contact a@b.example",
        "lh-ci register --pool arm-cpu --backend github --owner me --contact a@b.example --name pi",
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
@json_option
@pass_app
def command(
    app: App, /, uncontained: bool, no_health_job: bool, as_json: bool, **given: Any
) -> int:
    """Look at this machine, and write the file that offers it: agents/<vendor>-<name>.yaml.

    Says which pools and pipelines it can serve and why not others, runs a health job, makes a
    signing key that never leaves it, and tells what to do next. Without --pool, it only looks.
    Doing it again changes nothing.
    """
    asked, here = _Asked(**given), _look(app, uncontained)
    if not as_json:
        _show(here)
    offered: dict[str, object] = {}
    if asked.pools:
        _check(asked, here)
        healthy = _health(app, asked.pools, skip=no_health_job, quiet=as_json)
        offer = _offer(app, asked, here)
        path, fresh = _write(app, offer)
        offered = {
            "agent": offer.id,
            "file": app.shown(path),
            "keys": list(offer.keys),
            "health": healthy,
        }
        if not as_json:
            _next(app, offer, path, fresh=fresh)
    elif not as_json:
        click.echo("\nnothing is written. To offer it: lh-ci register --pool NAME …")
    if as_json:
        click.echo(json.dumps({**_json(here), **offered}, indent=2))
    return 0


def _health(app: App, pools: Sequence[str], *, skip: bool, quiet: bool) -> dict[str, object] | None:
    """What the health job came to; None: there was none. Raises InfrastructureError."""
    if skip:
        click.echo("health    no health job was run, as asked", err=quiet)
        return None
    from orchestrator.cli import health_job  # what runs cells is slow to load

    return health_job.require(app, pools, quiet=quiet)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The command line."""

    pools: tuple[str, ...]
    backend: BackendName | None
    owner: str
    contact: str
    name: str
    vendor: str


# --- what is here -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Here:
    """The machine at hand."""

    config: Config
    host: Host
    engine: str
    """What runs cells; empty when nothing may."""
    engine_problem: str
    free_bytes: int
    pools: tuple[Served, ...]


def _look(app: App, uncontained: bool) -> _Here:
    config = app.services.load(app.root, goldens=False)
    engine, problem = _engine(app, uncontained)
    return _Here(
        config=config,
        host=app.host,
        engine=engine,
        engine_problem=problem,
        free_bytes=_free(app.state),
        pools=survey(config, app.host),
    )


def _engine(app: App, uncontained: bool) -> tuple[str, str]:
    """What runs cells here, or why nothing may."""
    try:
        engine, note = app.engine("auto")
    except InfrastructureError as error:
        return "", str(error)
    if engine.name == "venv" and not uncontained:
        return "", (
            f"{note}: cells are other people's programs and need a container engine. Install "
            "Docker, or give --uncontained to run them as you"
        )
    return note, ""


def _free(state: Path) -> int:
    """Bytes on the disk that the state folder is, or will be, on."""
    folder = next(each for each in (state, *state.parents) if each.exists())
    return shutil.disk_usage(folder).free


def _show(here: _Here) -> None:
    host = here.host
    rows = [
        ("cpu", f"{host.cpu_model}, {host.arch}, {plural(host.cpus, 'core')}"),
        ("memory", size(host.memory_bytes)),
        ("disk", f"{size(here.free_bytes)} free"),
        ("engine", here.engine or here.engine_problem),
        *(("gpu", " ".join(filter(None, [g.name, g.chip, g.problem]))) for g in host.gpus),
    ]
    pools = [
        (each.pool, f"no: {each.reason}" if each.reason else f"yes: {', '.join(each.pipelines)}")
        for each in here.pools
    ]
    for line in [*table(rows), "", *table([("pool", "can serve it"), *pools])]:
        click.echo(plain(line))


def _json(here: _Here) -> dict[str, object]:
    return {
        "host": records.encode(here.host),
        "engine": here.engine,
        "engine_problem": here.engine_problem,
        "free_bytes": here.free_bytes,
        "pools": [records.encode(each) for each in here.pools],
    }


# --- what cannot work -------------------------------------------------------------------------


def _check(asked: _Asked, here: _Here) -> None:
    """Everything that stands against it, at once.

    Raises:
        UsageError: in what was asked.
        InfrastructureError: in this machine.
    """
    by_name = {each.pool: each for each in here.pools}
    wrong = [
        unknown("pool", pool, by_name)
        if pool not in by_name
        else f"this machine cannot serve pool {pool}: {by_name[pool].reason}"
        for pool in asked.pools
        if pool not in by_name or by_name[pool].reason
    ]
    needed = {"--backend": asked.backend, "--owner": asked.owner, "--contact": asked.contact}
    if missing := [option for option, value in needed.items() if not (value or "").strip()]:
        wrong.append(f"to register, also give {', '.join(missing)}")
    for option, value in needed.items():
        if value and not is_plain(value):
            wrong.append(f"{option} has characters that cannot be shown")
    if wrong:
        raise UsageError("\n".join(wrong))
    if here.engine_problem:
        raise InfrastructureError(here.engine_problem)
    if here.free_bytes < MIN_DISK_BYTES:
        raise InfrastructureError(
            f"{size(here.free_bytes)} of disk are free, and images and jobs need "
            f"{size(MIN_DISK_BYTES)}. Make room (`lh-ci clean` shows what can go) or set LH_STATE "
            "to another disk"
        )


# --- the file ---------------------------------------------------------------------------------


def _offer(app: App, asked: _Asked, here: _Here) -> Offer:
    from orchestrator.fleet import keys

    vendor = asked.vendor or default_vendor(here.config, here.host, asked.pools)
    name = asked.name or default_name(platform.node())
    if not re.fullmatch(r"[a-z][a-z0-9]*", vendor):
        raise UsageError(f"--vendor {vendor}: use lower-case letters and digits")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UsageError(f"--name {name}: use lower-case letters, digits and `-`")
    agent = f"{vendor}-{name}"
    registered = load_fleet(app.root).agents.get(agent)
    own = keys.own(app.state, agent)
    if registered is not None:
        _check_same(registered, asked, [key.public for key in own])
    own = own or (keys.make(app.state, agent),)
    assert asked.backend is not None
    return Offer(
        vendor=vendor,
        name=name,
        owner=asked.owner.strip(),
        contact=asked.contact.strip(),
        backend=asked.backend,
        pools=tuple(dict.fromkeys(asked.pools)),
        chips=chips_of(here.config, here.host, asked.pools),
        keys=tuple(key.public for key in own),
        today=app.today(),
        free_bytes=here.free_bytes,
    )


def _check_same(registered: AgentFile, asked: _Asked, own: Sequence[str]) -> None:
    """Whether a file that is there is this machine's, and says what is asked for."""
    agent = registered.id
    if not {each.key for each in registered.keys} & set(own):
        raise UsageError(
            f"{agent} is registered with a key that is not on this machine. Is it another one? "
            f"Give this one a --name. Was its key lost? lh-ci keys rotate {agent}"
        )
    if (set(registered.pools), registered.backend) != (set(asked.pools), asked.backend):
        raise UsageError(
            f"{agent} is registered with pools {', '.join(registered.pools)} and backend "
            f"{registered.backend}. Edit {FOLDER}/{agent}.yaml to change that"
        )


def _write(app: App, offer: Offer) -> tuple[Path, bool]:
    """The agent's file, and whether it is new; one that is there stays as its owner left it."""
    path = app.root / FOLDER / f"{offer.id}.yaml"
    if path.exists():
        return path, False
    write_atomically(path, render(offer).encode())
    try:
        load_fleet(app.root)
    except DefinitionError:
        path.unlink()
        raise
    return path, True


def _next(app: App, offer: Offer, path: Path, *, fresh: bool) -> None:
    lh_ci, shown = myself(app.services.environ), app.shown(path)
    lines = [
        "",
        f"{'written' if fresh else 'as it was'}   {shown}",
        *(
            f"key       {public.fingerprint(key)}: its private half stays in {app.shown(app.state)}"
            for key in offer.keys
        ),
        "",
        "next",
        f"  1. read the terms in {shown}: they are yours to change",
        f"  2. {lh_ci} check",
        "  3. send the file as a pull request; on probation, its results are shown",
        f"  4. set up what connects it to {offer.backend}: docs/vendors.md",
    ]
    for line in lines:
        click.echo(plain(line))
