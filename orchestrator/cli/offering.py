"""What `lh-ci register` was asked for: whether it can be, and the file that offers the machine."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends.buildbot.fleet import read_secret
from orchestrator.backends.buildbot.folders import parse_master
from orchestrator.cli import seat as seats
from orchestrator.cli.app import App
from orchestrator.cli.surveying import Here
from orchestrator.config.suggest import unknown
from orchestrator.errors import DefinitionError, InfrastructureError, UsageError
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
)
from orchestrator.results.files import write_atomically
from orchestrator.settings import parse_pair
from orchestrator.text import is_plain, size

MOST_LETTERS = 50
"""Of an agent's name: Buildbot's identifiers have no more."""
_TAKES: Mapping[str, tuple[str, ...]] = {
    "buildbot": ("--folder", "--master", "--connection", "--password-file"),
    "buildkite": ("--folder", "--password-file"),
    "github": ("--folder", "--master"),
    "local": (),
}
"""What tells a backend's agents where to connect."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The command line."""

    pools: tuple[str, ...]
    backend: BackendName | None
    owner: str
    contact: str
    name: str
    vendor: str
    folder: Path | None
    master: str
    connection: str
    password_file: Path | None

    def without_pool(self) -> str:
        """An option that is given and means nothing without a pool; empty: none."""
        given = {
            "--backend": self.backend,
            "--name": self.name,
            "--folder": self.folder,
            "--master": self.master,
            "--connection": self.connection,
            "--password-file": self.password_file,
        }
        return next((option for option, value in given.items() if value), "")


# --- what cannot work -------------------------------------------------------------------------


def check(asked: Asked, here: Here) -> None:
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
        f"{_remedy(by_name[pool])}"
        for pool in asked.pools
        if pool not in by_name or by_name[pool].reason
    ]
    needed = {"--backend": asked.backend, "--owner": asked.owner, "--contact": asked.contact}
    if missing := [option for option, value in needed.items() if not (value or "").strip()]:
        wrong.append(f"to register, also give {', '.join(missing)}")
    for option, value in needed.items():
        if value and not is_plain(value):
            wrong.append(f"{option} has characters that cannot be shown")
    wrong += _misfits(asked, here)
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


def _remedy(pool: Served) -> str:
    """What the machine's owner can do about it, where that is known."""
    if "permission denied" in pool.reason and "groups" in pool.reason:
        return f". As root: usermod -aG render,video {seats.user()}; then log in again"
    return ""


def _misfits(asked: Asked, here: Here) -> Iterator[str]:
    """Options that the backend has no use for, or cannot do without."""
    backend = asked.backend
    takes = _TAKES.get(backend or "", ("--folder", "--master", "--connection", "--password-file"))
    given = {
        "--folder": asked.folder,
        "--master": asked.master,
        "--connection": asked.connection,
        "--password-file": asked.password_file,
    }
    for option, value in given.items():
        if value and option not in takes:
            yield f"backend {backend} has no use for {option}"
    if asked.master and asked.connection:
        yield "give --master HOST:PORT or --connection ENDPOINT, not both"
    if backend == "buildkite" and here.engine and not here.contained:
        yield "Buildkite's jobs ask for machines with containers: --uncontained ones get none"


def access(app: App, asked: Asked) -> seats.Access:
    """How the backend is reached. Raises UsageError."""
    master = asked.master
    if asked.backend == "buildbot" and master:
        parse_master(master)
    if asked.backend == "github":
        master = master or app.settings.github_repository or ""
        if master:
            parse_pair("--master", master)
    return seats.Access(
        folder=asked.folder,
        master=master,
        connection=asked.connection,
        password=read_secret(asked.password_file) if asked.password_file else "",
    )


# --- the file ---------------------------------------------------------------------------------


def check_name(app: App, asked: Asked, here: Here) -> tuple[str, str]:
    """Vendor and name, if they can be and are this machine's. Raises UsageError."""
    from orchestrator.fleet import keys

    vendor = asked.vendor or default_vendor(here.config, here.host, asked.pools)
    name = asked.name or default_name(platform.node())
    if not re.fullmatch(r"[a-z][a-z0-9]*", vendor):
        raise UsageError(f"--vendor {vendor}: use lower-case letters and digits")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UsageError(f"--name {name}: use lower-case letters, digits and `-`")
    agent = f"{vendor}-{name}"
    if len(agent) > MOST_LETTERS:
        raise UsageError(f"{agent} is longer than {MOST_LETTERS} letters: give a shorter --name")
    if registered := load_fleet(app.root).agents.get(agent):
        _check_same(registered, asked, [key.public for key in keys.own(app.state, agent)])
    return vendor, name


def offer(app: App, asked: Asked, here: Here) -> Offer:
    from orchestrator.fleet import keys

    vendor, name = check_name(app, asked, here)
    agent = f"{vendor}-{name}"
    own = keys.own(app.state, agent) or (keys.make(app.state, agent),)
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


def _check_same(registered: AgentFile, asked: Asked, own: Sequence[str]) -> None:
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


def write(app: App, offer: Offer) -> tuple[Path, bool]:
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
