"""Which machine took which cell on a night, which attempts missed, and when it all was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.history import draws
from benchmarks.history.shared import Surroundings
from benchmarks.history.state import State, is_sick
from benchmarks.history.times import Times
from benchmarks.history.world import Flags, Ints, World

_MOST = 3
"""Attempts: two are retried."""
PAUSE_S = 20
"""From one attempt of a cell to the next."""
_WORKERS = 4
"""Cells that a machine runs at the same time."""


@dataclass(frozen=True, kw_only=True)
class Miss:
    """An attempt without a verdict."""

    cell: int
    attempt: int
    machine: int
    """Its number."""
    cause: str


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """Of one night; arrays have an entry for each cell."""

    machine: Ints
    """Of the last attempt."""
    number: Ints
    """Of the last attempt, from 1."""
    settled: Flags
    """Cells that ran and whose last attempt is no miss."""
    misses: tuple[Miss, ...]
    began: Ints
    """The first attempt: seconds since 1970."""

    @property
    def started(self) -> Ints:
        """The last attempt: seconds since 1970."""
        started: Ints = self.began + PAUSE_S * (self.number - 1)
        return started


def of(world: World, state: State, shared: Surroundings, times: Times) -> Attempts:
    """Every cell goes to one of its pool's machines, and to another one after a miss."""
    rng, n = draws.rng(world.parameters.seed, "attempts", state.night), len(world.ids)
    sizes, first = shared.sizes[world.pool], shared.first[world.pool]
    offset = np.floor(rng.random(n) * sizes).astype(np.int64)
    machine = first + offset
    number = np.ones(n, dtype=np.int64)
    ran = state.present.copy()
    ran[list(state.blank)] = False
    settled = ran.copy()
    sick = {
        i: state.sick[agent.key]
        for i, agent in enumerate(shared.machines)
        if agent.key in state.sick
    }
    misses: list[Miss] = []
    doubtful = np.isin(machine, list(sick)) & ran
    for cell in sorted({*np.flatnonzero(doubtful).tolist(), *state.retried}):
        if not ran[cell]:
            continue
        for attempt in range(1, _MOST + 1):
            where = int(first[cell] + (offset[cell] + attempt - 1) % sizes[cell])
            cause = _cause(world, state, sick, cell, attempt, where)
            if cause:
                misses.append(Miss(cell=cell, attempt=attempt, machine=where, cause=cause))
                continue
            machine[cell], number[cell] = where, attempt
            break
        else:
            settled[cell] = False
    return Attempts(
        machine=machine,
        number=number,
        settled=settled,
        misses=tuple(misses),
        began=_began(world, state, machine, times),
    )


def _cause(
    world: World,
    state: State,
    sick: dict[int, tuple[str, ...]],
    cell: int,
    attempt: int,
    machine: int,
) -> str:
    """Why an attempt misses; empty when it does not."""
    if machine in sick and is_sick(world, state, cell, attempt):
        return draws.pick(sick[machine], "cause", state.night, cell, attempt)
    return state.retried.get(cell, "") if attempt == 1 else ""


def _began(world: World, state: State, machine: Ints, times: Times) -> Ints:
    """Machines take their cells one after the other, several at a time."""
    begin = int(world.calendar.moment(state.night).timestamp()) + 30
    started = np.zeros(len(machine), dtype=np.int64)
    for number in np.unique(machine):
        cells = np.flatnonzero(machine == number)
        before = np.cumsum(times.seconds[cells]) - times.seconds[cells]
        started[cells] = begin + (before / _WORKERS).astype(np.int64)
    return started
