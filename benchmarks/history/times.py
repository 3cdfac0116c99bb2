"""How long everything takes on a night, noise included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.history import draws
from benchmarks.history.state import State
from benchmarks.history.world import Floats, Ints, World

_USUAL = {"ingress": 0.2, "codegen": 0.3, "compare": 0.01}
"""Seconds."""
_HEAVY = 0.6
"""Scale of Student's t with 3 degrees of freedom: its core is then as wide as the others'."""
_SECOND_MODE = 0.3
"""How often a bimodal cell is in its slower mode."""
_QUIETER = 0.5
"""Of stages before `execute`: their scatter, in that of `execute`."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Of one night."""

    stages: tuple[Floats, ...]
    """Seconds for each route: shape (cells of the route, stages), to a tenth of a millisecond."""
    seconds: Floats
    """Of each cell, to a millisecond."""
    kernels: Floats
    """Seconds; NaN where no GPU says."""
    queued: Floats
    """Seconds; NaN on the orchestrator's own machine."""
    memory: Ints


def usual(stage: str) -> float:
    """Seconds that a stage takes in most cells."""
    return _USUAL.get(stage, 0.03 + 0.15 * draws.unit("usual", stage))


def of(world: World, state: State) -> Times:
    """The times of all cells, as if each of them passed."""
    rng, n = draws.rng(world.parameters.seed, "times", state.night), len(world.ids)
    execute = world.execute * state.execute * _scatter(world, rng)
    stages = []
    seconds = np.full(n, np.nan)
    for number, route in enumerate(world.routes):
        cells = world.route_cells[number]
        noise = rng.standard_normal((len(cells), len(route.stages)))
        usuals = np.array([usual(stage) for stage in route.stages])
        factor = world.lowering[cells] * state.lowering[cells]
        times = usuals * factor[:, None] * (1 + _QUIETER * world.sigma[cells, None] * noise)
        if route.executes:
            times[:, -2] = execute[cells]
        times = np.maximum(np.round(times, 4), 0.0001)
        stages.append(times)
        seconds[cells] = times.sum(axis=1)
    overhead = rng.uniform(0.03, 0.06, n)
    own = np.array([pool.startswith("cross-") for pool in world.pools])[world.pool]
    return Times(
        stages=tuple(stages),
        seconds=np.round(seconds + overhead, 3),
        kernels=np.where(world.kernels > 0, np.round(execute * world.kernels * 1e9) / 1e9, np.nan),
        queued=np.where(own, np.nan, np.round(rng.exponential(90.0, n), 3)),
        memory=(world.memory * rng.normal(1.0, 0.004, n)).astype(np.int64) >> 12 << 12,
    )


def _scatter(world: World, rng: np.random.Generator) -> Floats:
    """A factor for each cell."""
    n = len(world.ids)
    normal, heavy, slower = rng.standard_normal(n), rng.standard_t(3, n), rng.random(n)
    tailed = np.array([shape == "heavy" for shape in world.noise])
    drawn = np.where(tailed, _HEAVY * np.clip(heavy, -10, 30), normal)
    mode = np.where(slower < _SECOND_MODE, 1 + world.mode, 1.0)
    scattered: Floats = (1 + world.sigma * drawn) * mode
    return scattered
