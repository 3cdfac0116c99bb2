"""What is planted in a history, as it is written down beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from orchestrator import records
from orchestrator.results.files import write_atomically

MANIFEST = "planted.json"

Kind = Literal[
    "regression",
    "fix",
    "expected",
    "step",
    "drift",
    "spike",
    "flaky",
    "vanished",
    "retried",
    "sick-agent",
    "driver",
    "pins",
    "recipe",
    "workload",
    "xpass",
    "expired",
    "appeared",
    "removed",
    "pool-dark",
    "no-night",
    "thin-night",
]
"""`regression`: green before, red from the night on. `fix`: its end. `expected`: such cells are
declared expected failures from the night on. `step`, `drift`, `spike`: of speed. `flaky`: pass and
fail with the same fingerprint. `vanished`: still declared, without results. `retried`: a first
attempt missed. `driver`: of a machine (its kernel where it has no GPU). `pins`, `recipe`,
`workload`: what people changed. `xpass`: an expected failure has become green. `expired`: an
expectation has, so that its cells are red. `appeared`, `removed`: cells of the matrix."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Metric = Literal["", "execute", "lowering"]
"""`execute`: what kernels took where a GPU says, else the stage. `lowering`: all stages before."""

Noise = Literal["normal", "heavy", "bimodal"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that was planted."""

    kind: Kind
    night: str
    """ISO 8601 date: the first night that shows it."""
    until: str = ""
    """The first night that shows it no more; empty: all that there are show it."""
    cells: tuple[str, ...] = ()
    """Ids; empty where it is about more than cells."""
    what: str = ""
    """What changed, in words: `torch-mlir 20260125 -> 20260130`."""
    status: str = ""
    """Of a regression: `fail`, `error`. Of a dark pool, and of cells that vanished: the status of
    their rows, `skip` or `none`; empty: they have no rows at all."""
    phase: str = ""
    pipeline: str = ""
    stack: str = ""
    recipe: str = ""
    workload: str = ""
    pool: str = ""
    agent: str = ""
    causes: tuple[str, ...] = ()
    """Messages, or their beginnings, of misses."""
    metric: Metric = ""
    factor: float = 1.0
    """Of the time, after to before; of a drift: at its end."""
    rate: float = 0.0
    """Of a flaky cell: how often it fails."""


@dataclass(frozen=True, kw_only=True)
class SeriesNoise:
    """How one cell's times scatter when nothing happens."""

    cell: str
    sigma: float
    """Relative standard deviation of `execute` (of its one mode, or its core); `lowering`
    scatters less."""
    shape: Noise


@dataclass(frozen=True, kw_only=True)
class Night:
    """One day of the calendar."""

    night: str
    """ISO 8601 date."""
    run: str
    """Empty: it did not happen."""
    cells: int
    """With results or a reason for having none."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a history follows from."""

    series: int
    nights: int
    seed: int
    density: float = 1.0
    """1: as a busy project has them; 0: only the first of each kind."""
    hostile: bool = False
    """Names, texts and numbers in the rows are payloads; the manifest has machines' true names."""
    start: str = "2026-01-25"
    """ISO 8601 date of the first night."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """`planted.json`."""

    parameters: Parameters
    nights: tuple[Night, ...]
    events: tuple[Event, ...]
    """By night, then by kind."""
    noise: tuple[SeriesNoise, ...]
    """Of every cell that executes."""
    schema: int = 1

    def of(self, kind: Kind) -> tuple[Event, ...]:
        """The events of a kind."""
        return tuple(event for event in self.events if event.kind == kind)

    def write(self, folder: Path) -> None:
        """Writes the manifest into `folder`."""
        write_atomically(folder / MANIFEST, f"{records.dumps(self)}\n".encode())


def read(folder: Path) -> Planted:
    """The manifest of a folder."""
    return records.decode(Planted, json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
