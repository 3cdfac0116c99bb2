"""What a machine can do for the fleet, and the file that offers it. Pure."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.config.objects import Config
from orchestrator.fleet.models import BackendName
from orchestrator.host import Host
from orchestrator.plan import PlannedCell, fixed_chips, plan_cells
from orchestrator.text import size

MIN_DISK_BYTES = 20 << 30
"""Free on the state folder's disk: the images of all stacks take 11 GB, and jobs some more."""
_MOST_DISK_BYTES = 50 << 30
"""What a job may take unless the owner says otherwise."""

_VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A pool of the matrix, as seen from one machine."""

    pool: str
    pipelines: tuple[str, ...]
    """That run on it."""
    reason: str
    """Why this machine cannot serve it; empty when it can."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What goes into an agent's file, apart from what every new one says."""

    vendor: str
    name: str
    owner: str
    contact: str
    backend: BackendName
    pools: tuple[str, ...]
    chips: tuple[str, ...] = ()
    """Of its GPUs."""
    keys: tuple[str, ...]
    """Public ones, as text."""
    today: dt.date
    free_bytes: int

    @property
    def id(self) -> str:
        """`<vendor>-<name>`."""
        return f"{self.vendor}-{self.name}"


def survey(config: Config, host: Host) -> tuple[Served, ...]:
    """Every pool of the matrix, in its order, by the planner's own reasons."""
    cells: dict[str, list[PlannedCell]] = {pool: [] for pool in config.matrix.pools}
    for planned in plan_cells(config, host):
        cells[planned.cell.pool].append(planned)
    return tuple(
        Served(
            pool=pool,
            pipelines=tuple(dict.fromkeys(planned.cell.pipeline for planned in found)),
            reason=_why_not(found, host),
        )
        for pool, found in cells.items()
    )


def default_vendor(config: Config, host: Host, pools: Iterable[str]) -> str:
    """Who made what the pools are about: a GPU's vendor, else the CPU's, in lower case."""
    for pool in pools:
        gpu = config.matrix.pools[pool].gpu
        if gpu and gpu.device not in ("none", "software"):
            return gpu.device
    known = _VENDORS.get(host.cpu_vendor, host.cpu_vendor)
    return re.sub(r"[^a-z0-9]", "", known.lower()).lstrip("0123456789") or "unknown"


def chips_of(config: Config, host: Host, pools: Iterable[str]) -> tuple[str, ...]:
    """The host's chips that code must be made for, in those of the pools that name none."""
    gpus = [config.matrix.pools[pool].gpu for pool in pools]
    vendors = {gpu.device for gpu in gpus if gpu is not None and not fixed_chips(gpu)}
    return tuple(dict.fromkeys(g.chip for g in host.gpus if g.vendor in vendors and not g.problem))


def default_name(node: str) -> str:
    """A machine's own name, as far as an agent's name can have it."""
    return re.sub(r"[^a-z0-9]+", "-", node.partition(".")[0].lower()).strip("-") or "machine"


def render(offer: Offer) -> str:
    """The text of a new agent's file, for its owner to read and to change."""
    keys = "\n".join(key_lines(key, offer.today) for key in offer.keys)
    disk = min(_MOST_DISK_BYTES, offer.free_bytes // 2) >> 30
    chips = f"chips: [{', '.join(map(_text, offer.chips))}] # of its GPUs\n" if offer.chips else ""
    return f"""\
# yaml-language-server: $schema=../schemas/agent.schema.json
#
# A machine that its owner lends to the project; docs/vendors.md tells what each line means.
schema: 1
vendor: {offer.vendor}
name: {_text(offer.name)}
owner: {_text(offer.owner)}
contact: {_text(offer.contact)}
backend: {offer.backend}
pools: [{", ".join(offer.pools)}]
{chips}# probation: its results are shown. trusted: they can turn a run red. Changed by review.
level: probation

# Whose signatures count. The private halves are on the machine alone.
keys:
{keys}

# What the machine may be used for. These are its owner's to change.
terms:
  pipelines: ["*"] # names or globs
  branches: [main] # names or globs
  hours: [] # windows in UTC in which a job may begin, such as 22:00-06:00; none: always
  jobs: 1 # at the same time
  priority: 0 # among the agents of a pool, the highest is given work first
  disk: {disk}GiB # what a job may take
  time: 2h # what a job may take
  forks: never # or `approved`: commits of forks that a maintainer approved one by one
"""


def key_lines(key: str, today: dt.date) -> str:
    """A key's entry below `keys:`."""
    return f"  - key: {key}\n    from: {today}"


def _why_not(cells: Sequence[PlannedCell], host: Host) -> str:
    if not cells:
        return "no pipeline runs on it"
    if reason := cells[0].reason:
        return reason
    least = max(planned.cell.memory_bytes for planned in cells)
    if 0 < host.memory_bytes < least:
        return (
            f"a cell may take {size(least)} of memory; this machine has {size(host.memory_bytes)}"
        )
    return ""


def _text(value: str) -> str:
    """A scalar that YAML reads as this text, whatever is in it."""
    return json.dumps(value, ensure_ascii=False)
