"""How things stand on a night, of all that has happened until then."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from benchmarks.history import draws, pins
from benchmarks.history.planner import Happening
from benchmarks.history.texts import message
from benchmarks.history.world import SKIPPED, Flags, Floats, World
from orchestrator.config.models import Expectation

_FAR = dt.date(2028, 6, 30)
_MISSES = 0.9
"""How likely an attempt on a sick machine misses."""
_STOPPED_AT = 0.25
"""Share of the cells that a stopped run came to."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a cell does not pass tonight."""

    status: Literal["fail", "error"]
    phase: str
    key: int
    """Of the cause: the same one gives the same message."""


@dataclass(frozen=True, kw_only=True)
class Blank:
    """Why a cell has no attempt."""

    status: Literal["skip", "none"]
    message: str


UNREACHED = Blank(status="none", message="the run ended before its turn")


@dataclass(kw_only=True)
class State:
    """One night; arrays have an entry for each cell."""

    night: int
    declared: Flags
    """Cells of the matrix, run or not."""
    present: Flags
    """Cells with a row tonight."""
    blank: dict[int, Blank]
    """Cells that are there without an attempt."""
    faults: dict[int, Fault] = field(default_factory=dict)
    execute: Floats
    """Factor on the time."""
    lowering: Floats
    retried: dict[int, str] = field(default_factory=dict)
    """Cell to why its first attempt missed."""
    sick: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """Machine to why its attempts miss."""
    versions: dict[str, dict[str, str]]
    """Of stacks."""
    hardware: dict[tuple[str, str], dict[str, str | int]]
    """Of machines."""
    recipes: dict[str, int] = field(default_factory=dict)
    """Recipe to how often it was edited."""
    workloads: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Workloads that the matrix does not have tonight."""
    expectations: list[Expectation] = field(default_factory=list)
    complete: bool = True
    """False: the run was stopped."""


def at(world: World, night: int, happened: Iterable[tuple[int, Happening]]) -> State:
    """The state of a night; `happened` is all that began until then."""
    n = len(world.ids)
    state = State(
        night=night,
        declared=np.ones(n, dtype=bool),
        present=np.ones(n, dtype=bool),
        blank={int(c): Blank(status="skip", message=SKIPPED[2]) for c in world.skipped},
        execute=np.ones(n),
        lowering=np.ones(n),
        versions=pins.Pins(world.matrix.declared, world.calendar.start).versions,
        hardware={a.key: dict(a.hardware) for machines in world.agents for a in machines},
    )
    _come(world, state)
    _expect_known(world, state)
    for number, each in happened:
        if (act := _ACTS.get(each.event.kind)) and (each.end is None or night < each.end):
            act(world, state, each, number)
        elif each.event.kind == "drift":
            _drift(world, state, each, number)
    _thin_out(world, state)
    return state


def _come(world: World, state: State) -> None:
    """Workloads that come later are not there before."""
    late = set(world.matrix.late)
    cells = [n for n, key in enumerate(world.keys) if key.workload in late]
    state.declared[cells] = state.present[cells] = False
    state.gone |= late


def _expect_known(world: World, state: State) -> None:
    """Cells that failed before, each expected to until it meets its fate."""
    for number, known in enumerate(world.known):
        settled = state.night >= _removed(world, known.night)
        if known.fate != "xpass" or state.night < known.night:
            state.faults[known.cell] = Fault(status="fail", phase=known.phase, key=-1 - number)
        if known.message or (known.fate == "xpass" and settled):
            continue
        soon = known.fate == "expired" and not settled
        expires = world.calendar.day(known.night) - dt.timedelta(days=1) if soon else _FAR
        state.expectations.append(
            _expectation(world, known.cell, known.phase, -1 - number, 0, expires)
        )
    state.expectations += _matrix_expectations(world)


def _removed(world: World, night: int) -> int:
    """When somebody does something about an expectation that has met its fate."""
    return world.calendar.full(night + 6)


def _matrix_expectations(world: World) -> list[Expectation]:
    """Those of the repository, as if they had been there from the beginning."""
    there = {key.workload for key in world.keys}
    return [
        Expectation.model_validate(
            {
                "cells": each.cells,
                "phase": each.phase,
                "match": each.match,
                "reason": each.reason,
                "issue": each.issue,
                "owner": each.owner,
                "since": world.calendar.start,
                "expires": _FAR,
            }
        )
        for each in world.matrix.declared.expectations
        if each.cells.split(".")[1] in there
    ]


def _expectation(
    world: World, cell: int, phase: str, key: int, since: int, expires: dt.date
) -> Expectation:
    number = abs(hash_of(world, cell)) % 9000 + 1000
    return Expectation.model_validate(
        {
            "cells": world.ids[cell],
            "phase": phase,
            "match": ".",
            "reason": f"known: {message(phase, None, key)}",
            "issue": f"https://github.com/llvm/llvm-project/issues/{number}",
            "owner": draws.pick(("Ada", "Barbara", "Grace"), "owner", cell) + " of the compilers",
            "since": world.calendar.day(since),
            "expires": expires,
        }
    )


def hash_of(world: World, cell: int) -> int:
    """A number of a cell."""
    return int(world.words[cell, 0])


# --- what each kind of happening does ---------------------------------------------------------


def _regression(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    status: Literal["fail", "error"] = "error" if each.event.status == "error" else "fail"
    fault = Fault(status=status, phase=each.event.phase, key=number)
    state.faults |= dict.fromkeys(each.cells, fault)


def _expected(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    for cell in each.cells:
        fault = state.faults[cell]
        expires = world.calendar.day(each.start) + dt.timedelta(days=400)
        state.expectations.append(
            _expectation(world, cell, fault.phase, fault.key, each.start, expires).model_copy(
                update={"status": fault.status}
            )
        )


def _flaky(world: World, state: State, each: Happening, number: int) -> None:
    event = each.event
    drawn = draws.unit(world.parameters.seed, "flake", number, state.night)
    if state.night == each.start or drawn < event.rate:
        fault = Fault(status="fail", phase=event.phase, key=number)
        state.faults |= dict.fromkeys(each.cells, fault)


def _step(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    times = state.execute if each.event.metric == "execute" else state.lowering
    times[list(each.cells)] *= each.event.factor


def _drift(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    assert each.end is not None
    share = min(1.0, (state.night - each.start + 1) / (each.end - each.start))
    state.execute[list(each.cells)] *= 1.0 + share * (each.event.factor - 1.0)


def _vanished(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    if each.event.status:
        state.blank |= dict.fromkeys(each.cells, UNREACHED)
    else:
        state.present[list(each.cells)] = False


def _retried(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.retried |= dict.fromkeys(each.cells, each.event.causes[0])


def _sick(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.sick[each.event.pool, each.event.agent] = each.event.causes


def _driver(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.hardware[each.event.pool, each.event.agent][each.key] = each.value


def _pins(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    pins.apply(state.versions, each.event.stack, each.key, each.value)


def _recipe(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.recipes[each.key] = state.recipes.get(each.key, 0) + 1


def _workload(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.workloads[each.key] = state.workloads.get(each.key, 0) + 1


def _appeared(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.declared[list(each.cells)] = state.present[list(each.cells)] = True
    state.gone.discard(each.event.workload)


def _gone(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    state.declared[list(each.cells)] = state.present[list(each.cells)] = False
    state.gone.add(each.event.workload)


def _dark(world: World, state: State, each: Happening, number: int) -> None:  # noqa: ARG001
    cells = np.flatnonzero(world.pool == world.pools.index(each.event.pool))
    if each.event.status == "none":
        state.blank |= dict.fromkeys(cells.tolist(), UNREACHED)
        return
    reason = f"no machine serves pool {each.event.pool}: the last one was given back"
    blank = Blank(status="skip", message=reason)
    state.blank |= dict.fromkeys(cells.tolist(), blank)


_ACTS: Mapping[str, Callable[[World, State, Happening, int], None]] = {
    "regression": _regression,
    "expected": _expected,
    "flaky": _flaky,
    "step": _step,
    "drift": _drift,
    "spike": _step,
    "vanished": _vanished,
    "retried": _retried,
    "sick-agent": _sick,
    "driver": _driver,
    "pins": _pins,
    "recipe": _recipe,
    "workload": _workload,
    "appeared": _appeared,
    "removed": _gone,
    "pool-dark": _dark,
}


def _thin_out(world: World, state: State) -> None:
    """A night that came to a part of the cells, or was asked for one."""
    sort = world.calendar.sort(state.night)
    if sort == "full":
        return
    order = draws.rng(world.parameters.seed, "thin", state.night).random(len(world.ids))
    there = order < _STOPPED_AT
    if sort == "stopped":
        state.complete = False
        state.blank |= dict.fromkeys(np.flatnonzero(~there).tolist(), UNREACHED)
    else:
        state.declared &= there
        state.present &= there


def is_sick(world: World, state: State, cell: int, attempt: int) -> bool:
    """Whether an attempt on a sick machine misses."""
    return draws.unit(world.parameters.seed, "sick", state.night, cell, attempt) < _MISSES
