"""What a master serves, as data: pools, workers, ports. Written by us, read by `master.cfg`."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.config.models import GpuPool, Pool
from orchestrator.config.suggest import unknown
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet.models import AgentFile
from orchestrator.job import Device
from orchestrator.plan import fixed_chips
from orchestrator.results.files import unwritable, write_atomically

FLEET_FILE = "fleet.json"
SECRETS = "secrets"
SUFFIX = ".password"
DISPATCHER = "dispatcher"
"""The user that may submit jobs; its password lies beside those of the workers."""
SCHEDULER = "dispatch"
"""The force scheduler that starts every job."""
DEPOT_FIELD = "depot"
"""Its field that tells dispatchers where the depot is."""
PARCEL_FIELD = "parcel"
"""Its field that names the file with the job: each submission has one, with warrants of its own."""
AVOID_FIELD = "avoid"
"""Names of workers that should get a job only when no other can."""
AGENTS_FIELD = "agents"
"""Names of the workers that alone may get it; empty: all of its builder."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,49}")
"""Buildbot's identifiers are at most 50 characters long."""


@dataclass(frozen=True, kw_only=True)
class FleetPool:
    """A pool, as its builder needs it."""

    tier: str
    device: Device = ""
    """Whose GPU its jobs execute on: one job has it alone."""


@dataclass(frozen=True, kw_only=True)
class FleetWorker:
    """A machine that takes jobs."""

    name: str
    pools: tuple[str, ...]
    jobs: int = 1
    """At the same time, of different pools."""
    priority: int = 0
    """Of the workers that are free, those with the highest are asked first."""
    chips: tuple[str, ...] = ()
    """Of its GPUs, such as `sm_90`: what code is made for in pools that name no chips."""
    registered: bool = False
    """Its terms are in `agents/`."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """`fleet.json`: everything that a master's configuration is made from. No secret is in it."""

    pools: Mapping[str, FleetPool]
    workers: tuple[FleetWorker, ...]
    http: str = "tcp:8010:interface=127.0.0.1"
    """Where Buildbot's web server listens, as Twisted writes endpoints."""
    depot: str = "tcp:8011:interface=127.0.0.1"
    """Where jobs and results are exchanged."""
    depot_url: str = "http://127.0.0.1:8011/"
    url: str = "http://127.0.0.1:8010/"
    """As browsers and dispatchers reach it."""
    port: str = "tcp:9989"
    """Where workers connect."""
    schema: int = 1

    def serving(self, pool: str) -> tuple[FleetWorker, ...]:
        """The workers of a pool."""
        return tuple(worker for worker in self.workers if pool in worker.pools)

    def refusal(self, name: str, pool: Pool) -> str:
        """Why no cell of a pool can be run; empty when a worker takes them. See `plan.Serving`."""
        if not self.serving(name):
            return f"no worker of {self.url} serves pool {name}"
        if pool.gpu is not None and not self.chips(name, pool.gpu):
            return f"no worker of {self.url} in pool {name} says which chip its GPU has"
        return ""

    def chips(self, name: str, gpu: GpuPool) -> tuple[str, ...]:
        """What to make code for on a pool: as it says, else every chip of its workers."""
        found = dict.fromkeys(c for worker in self.serving(name) for c in worker.chips)
        return fixed_chips(gpu) or tuple(found)


def make_fleet(pools: Mapping[str, Pool], workers: Sequence[FleetWorker]) -> Fleet:
    """A fleet of the matrix's pools and of these workers.

    Raises:
        UsageError: a worker's name is not one, is there twice, or serves a pool that is not.
    """
    for worker in workers:
        if not _NAME.fullmatch(worker.name) or worker.name == DISPATCHER:
            raise UsageError(
                f"`{worker.name}` is no name for a worker: letters, digits, - and _, at most 50, a "
                f"letter first, and not `{DISPATCHER}`"
            )
        for pool in worker.pools:
            if pool not in pools:
                raise UsageError(f"worker {worker.name}: {unknown('pool', pool, pools)}")
    names = [worker.name for worker in workers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"worker {twice[0]} is there twice")
    return Fleet(pools={n: _pool(p) for n, p in pools.items()}, workers=tuple(workers))


def registered(agents: Mapping[str, AgentFile]) -> list[FleetWorker]:
    """The registered agents that take their jobs from Buildbot."""
    return [
        FleetWorker(
            name=name,
            pools=agent.pools,
            jobs=agent.terms.jobs,
            priority=agent.terms.priority,
            chips=agent.chips,
            registered=True,
        )
        for name, agent in agents.items()
        if agent.backend == "buildbot"
    ]


def parse_worker(text: str) -> FleetWorker:
    """`NAME=POOL,POOL[;jobs=N][;priority=N][;chips=CHIP,CHIP]`.

    Raises:
        UsageError: it is not of that form.
    """
    head, *terms = text.split(";")
    name, equals, pools = head.partition("=")
    given = dict(term.split("=", 1) for term in terms if "=" in term)
    numbers = {key: given.pop(key) for key in ("jobs", "priority") if key in given}
    chips = given.pop("chips", "")
    if (
        not (equals and name and pools)
        or given
        or len(terms) != len(numbers) + bool(chips)
        or not all(re.fullmatch(r"\d{1,4}", number) for number in numbers.values())
        or numbers.get("jobs") == "0"
    ):
        raise UsageError(
            f"`{text}` is no worker. Write NAME=POOL,POOL and, if need be, ;jobs=2 ;priority=5 "
            ";chips=sm_90,sm_100"
        )
    return FleetWorker(
        name=name,
        pools=_listed(pools),
        chips=_listed(chips),
        jobs=int(numbers.get("jobs", 1)),
        priority=int(numbers.get("priority", 0)),
    )


def write_fleet(folder: Path, fleet: Fleet) -> None:
    """Writes `fleet.json` and a password for everyone who has none yet.

    Raises:
        InfrastructureError: the folder cannot be written.
    """
    write_atomically(folder / FLEET_FILE, records.dumps(fleet, indent=1).encode() + b"\n")
    for name in (DISPATCHER, *(worker.name for worker in fleet.workers)):
        path = folder / SECRETS / f"{name}{SUFFIX}"
        if not path.exists():
            write_secret(path, secrets.token_urlsafe(24))


def read_fleet(folder: Path) -> Fleet:
    """Raises InfrastructureError when it is missing or damaged."""
    path = folder / FLEET_FILE
    try:
        return records.decode(Fleet, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{path} cannot be used: {error}") from error


def write_secret(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, from the first byte on."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(f"{text}\n")
    except OSError as error:
        raise unwritable(path, error) from error


def read_secret(path: Path) -> str:
    """What `write_secret` wrote.

    Raises:
        UsageError: it is not there, is empty, or others can read it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', error) or error}") from error
    if mode & 0o077:
        raise UsageError(f"{path} holds a password and others can read it: chmod 600 {path}")
    if not text:
        raise UsageError(f"{path} should hold a password and is empty")
    return text


def _pool(pool: Pool) -> FleetPool:
    device = pool.gpu.device if pool.gpu else "none"
    return FleetPool(
        tier=pool.tier,
        device=device if device in ("nvidia", "amd", "intel") else "",
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))


def passwords(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Passwords by name. Raises UsageError as `read_secret` does."""
    return {name: read_secret(folder / SECRETS / f"{name}{SUFFIX}") for name in names}
