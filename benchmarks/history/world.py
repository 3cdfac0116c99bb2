"""What stays as it is all year: the cells and how each of them behaves when nothing happens."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.history import draws
from benchmarks.history.calendar import Calendar
from benchmarks.history.cells import Matrix, matrix
from benchmarks.history.events import Noise, Parameters
from benchmarks.history.fleet import Agent, Route, agents, route
from orchestrator.config.cells import CellKey

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

DARK_POOLS = ("cross-intel", "software-gpu-opencl")
"""Pools that are without data from some night on: in skipped cells, with a reason, or silently."""
LONE_POOL = "intel-gpu"
"""Has one machine: when that is sick, no cell of the pool has a verdict."""
SKIPPED = ("jax_cpu", "arm-cpu", "no machine of pool arm-cpu has the image of stack jax")
"""Pipeline and pool that never run, and why."""
_OWN = {
    "cumsum": "found tm_tensor.scan (1), tm_tensor.yield (1), which this recipe does not take",
    "gelu_tanh": "output 0: 1,235 of 1,943 elements off, worst 4.48e-05 at [23,21] (got -0.158869, "
    "golden -0.158824; allowed 1.3e-06 rel + 1e-05 abs)\n"
    "pattern: scattered over 63.56% of the elements",
}
"""What the repository's own expected failures say, by workload."""
_KNOWN_SHARE = 0.008
"""Of the cells: fail all the time, as is expected."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A cell that failed before the year began."""

    cell: int
    phase: str
    fate: str
    """`stays`; `expired`: its expectation expires; `xpass`: it becomes green."""
    night: int
    """When."""
    message: str = ""
    """What the repository's own expectation looks for; empty: it is not from there."""


@dataclass(frozen=True, kw_only=True)
class World:
    """All that does not depend on the night; arrays have an entry for each cell."""

    parameters: Parameters
    calendar: Calendar
    matrix: Matrix
    ids: tuple[str, ...]
    index: Mapping[str, int]
    pools: tuple[str, ...]
    pool: Ints
    """Index into `pools`."""
    agents: tuple[tuple[Agent, ...], ...]
    """Of each pool."""
    routes: tuple[Route, ...]
    route: Ints
    """Index into `routes`: a pipeline on a pool."""
    route_cells: tuple[Ints, ...]
    """The cells of each route."""
    calm: Flags
    """Free for whatever is to happen to some cells."""
    known: tuple[Known, ...]
    skipped: Ints
    words: draws.Words
    """Of the ids: shape (n, 2)."""
    sigma: Floats
    """Relative scatter of `execute`."""
    noise: tuple[Noise, ...]
    mode: Floats
    """How much longer the second mode of a bimodal cell takes; 0: there is none."""
    execute: Floats
    """Seconds."""
    kernels: Floats
    """Share of `execute` that kernels take on a GPU; 0: nobody says."""
    lowering: Floats
    """Factor on the usual time of stages before `execute`."""
    memory: Ints
    """Bytes at the peak."""

    @property
    def keys(self) -> tuple[CellKey, ...]:
        """Of the cells."""
        return self.matrix.keys

    def stack(self, cell: int) -> str:
        """That it needs."""
        return self.matrix.declared.pipelines[self.keys[cell].pipeline].stack

    def tier(self, cell: int) -> str:
        """Of its pipeline."""
        return self.matrix.declared.pipelines[self.keys[cell].pipeline].tier

    def of_cell(self, cell: int) -> Route:
        """The stages that it goes through."""
        return self.routes[int(self.route[cell])]


def build(parameters: Parameters) -> World:
    """The world of some parameters."""
    calendar = Calendar(
        seed=parameters.seed,
        start=dt.date.fromisoformat(parameters.start),
        density=parameters.density,
    )
    made = matrix(parameters)
    keys = made.keys
    pools = tuple(dict.fromkeys(key.pool for key in keys))
    lines = {pair: n for n, pair in enumerate(dict.fromkeys((k.pipeline, k.pool) for k in keys))}
    routes = tuple(_route(made, *pair) for pair in lines)
    routing = np.array([lines[key.pipeline, key.pool] for key in keys])
    known = _known(made, calendar)
    skipped = [n for n, k in enumerate(keys) if (k.pipeline, k.pool) == SKIPPED[:2]]
    ids = tuple(key.id for key in keys)
    behaviour = _behaviour(parameters.seed, keys, [routes[r] for r in routing])
    return World(
        parameters=parameters,
        calendar=calendar,
        matrix=made,
        ids=ids,
        index={cell: n for n, cell in enumerate(ids)},
        pools=pools,
        pool=np.array([pools.index(key.pool) for key in keys]),
        agents=tuple(agents(pool) for pool in pools),
        routes=routes,
        route=routing,
        route_cells=tuple(np.flatnonzero(routing == n) for n in range(len(routes))),
        calm=_calm(made, known, skipped),
        known=known,
        skipped=np.array(skipped, dtype=np.int64),
        words=draws.words(ids),
        **dataclasses.asdict(behaviour),
    )


def _route(made: Matrix, pipeline: str, pool: str) -> Route:
    return route(made.declared.pipelines[pipeline], made.gpus[pool], pool)


def _calm(made: Matrix, known: Sequence[Known], skipped: Sequence[int]) -> Flags:
    passing = {*made.late, *made.leaving}
    calm = np.array(
        [
            key.pool not in (*DARK_POOLS, LONE_POOL) and key.workload not in passing
            for key in made.keys
        ]
    )
    calm[[each.cell for each in known]] = False
    calm[list(skipped)] = False
    return calm


def _known(made: Matrix, calendar: Calendar) -> tuple[Known, ...]:
    """The repository's own expected failures, then others until there are enough."""
    phases = {e.cells.split(".")[1]: e.phase for e in made.declared.expectations}
    found = []
    for n, key in enumerate(made.keys):
        if key.pipeline == "pytorch_cpu" and key.workload in phases:
            found.append(
                Known(
                    cell=n,
                    phase=phases[key.workload],
                    fate="stays",
                    night=0,
                    message=_OWN.get(key.workload, ""),
                )
            )
    taken = {each.cell for each in found}
    passing = {*made.late, *made.leaving}
    free = [
        n
        for n, key in enumerate(made.keys)
        if n not in taken
        and key.workload not in passing
        and key.pool not in (*DARK_POOLS, LONE_POOL)
        and (key.pipeline, key.pool) != SKIPPED[:2]
    ]
    free.sort(key=lambda n: draws.unit(calendar.seed, "known", made.keys[n].id))
    for number, cell in enumerate(free[: max(3, round(len(made.keys) * _KNOWN_SHARE))]):
        key = made.keys[cell]
        stages = _route(made, key.pipeline, key.pool).stages
        phase = draws.pick(stages[1:], calendar.seed, "known-phase", key.id)
        fate = ("xpass", "expired", "stays")[number % 3]
        night = calendar.full(14 + 9 * (number // 3) + number % 3 * 3)
        found.append(Known(cell=cell, phase=phase, fate=fate, night=night))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Behaviour:
    sigma: Floats
    noise: tuple[Noise, ...]
    mode: Floats
    execute: Floats
    kernels: Floats
    lowering: Floats
    memory: Ints


def _behaviour(seed: int, keys: Sequence[CellKey], routes: Sequence[Route]) -> _Behaviour:
    """How cells behave. Scatter of 1 to 5 % in most, as on machines that are left alone."""
    rng, n = draws.rng(seed, "behaviour"), len(keys)
    shape = rng.random(n)
    names: list[Noise] = [
        "heavy" if s < 0.10 else "bimodal" if s < 0.15 else "normal" for s in shape
    ]
    real = np.array([each.real for each in routes])
    return _Behaviour(
        sigma=np.exp(rng.uniform(np.log(0.01), np.log(0.05), n)),
        noise=tuple(names),
        mode=np.where((shape >= 0.10) & (shape < 0.15), rng.uniform(0.05, 0.15, n), 0.0),
        execute=np.exp(rng.uniform(np.log(0.008), np.log(3.0), n)),
        kernels=np.where(real, rng.uniform(0.1, 0.6, n), 0.0),
        lowering=np.exp(rng.normal(0.0, 0.4, n)),
        memory=(rng.uniform(120, 900, n) * 256).astype(np.int64) << 12,
    )
