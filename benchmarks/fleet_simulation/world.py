"""Agents, pools and cells of a made-up fleet, from a seed."""

from __future__ import annotations

import base64
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.backends.placing import Placed, place
from orchestrator.fleet import public
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.serving import Group
from orchestrator.job import Cell, Device, Workload
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import RunOptions

RUN = "2026-11-20T22-00-00"
_STACKS = ("pytorch", "pytorch-gpu", "triton", "jax")
_WORKLOADS = 60
_VARIANTS = ("f32", "f16", "bf16", "i8")
_MEDIAN_S, _SIGMA = 25.0, 0.9
"""Of a cell's seconds, log-normal: most are quick, a few take minutes."""
_TIMEOUT_S = 300.0
_TWO_POOLS = 0.15
"""Of the agents: they serve a second pool."""
_GPU_POOLS = 0.4


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a fleet is made from; the same ones make the same."""

    agents: int = 1000
    pools: int = 40
    cells: int = 100_000
    of_job: int = 25
    """Cells that one job has at most."""
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class World:
    """A fleet, and what it has to do in one night."""

    agents: Mapping[str, AgentFile]
    jobs: tuple[Placed, ...]
    seconds: Mapping[str, float]
    """What each job's cells take on a machine of the usual speed, one after the other."""
    expected: Mapping[str, float]
    """The same, as the record of other nights has it: somewhat off."""
    speed: Mapping[str, float]
    """Of each agent: seconds that one of those seconds takes it."""


def make(parameters: Parameters) -> World:
    """Pools of unequal size, each with cells in proportion to its machines, give or take half."""
    draw = random.Random(parameters.seed)  # noqa: S311  nothing secret comes of it
    names = [f"pool-{n:02}" for n in range(parameters.pools)]
    gpu = {name for name in names if draw.random() < _GPU_POOLS}
    agents = {agent.id: agent for agent in _agents(names, parameters.agents, draw)}
    jobs: list[Placed] = []
    seconds: dict[str, float] = {}
    members = {name: [a for a in agents.values() if name in a.pools] for name in names}
    for name, count in _cells(names, members, parameters.cells, draw).items():
        device: Device = "nvidia" if name in gpu else ""
        cells = tuple(_planned(name, count, device, draw))
        took = {planned.cell.id: s for planned, s in cells}
        group = Group(
            cells=tuple(planned for planned, _ in cells), agents=tuple(members[name]), whole=True
        )
        for placed in place([group], RunOptions(), run=RUN, cells=parameters.of_job):
            jobs.append(placed)
            seconds[placed.job.id] = sum(took[cell.id] for cell in placed.job.cells)
    speed = {name: draw.uniform(0.85, 1.15) for name in agents}
    expected = {name: took * draw.uniform(0.8, 1.25) for name, took in seconds.items()}
    return World(agents=agents, jobs=tuple(jobs), seconds=seconds, expected=expected, speed=speed)


def _agents(names: list[str], count: int, draw: random.Random) -> Iterator[AgentFile]:
    """Every pool has one agent at least; the rest goes where it likes to go."""
    weights = [draw.paretovariate(1.5) for _ in names]
    for number in range(count):
        first = names[number] if number < len(names) else draw.choices(names, weights)[0]
        pools = [first]
        if len(names) > 1 and draw.random() < _TWO_POOLS:
            pools.append(draw.choice([name for name in names if name != first]))
        yield _agent(number, pools, draw)


def _agent(number: int, pools: list[str], draw: random.Random) -> AgentFile:
    key = public.to_text(number.to_bytes(32, "big"))
    assert base64.b64decode(key.partition(":")[2])
    document = {
        "schema": 1,
        "vendor": "sim",
        "name": f"m{number:04}",
        "owner": "Somebody",
        "contact": "somebody@example.org",
        "backend": "buildbot",
        "pools": pools,
        "level": "trusted",
        "keys": [{"key": key, "from": "2026-01-01"}],
        "terms": {
            "jobs": draw.choices([1, 2, 4], [8, 2, 1])[0],
            "priority": draw.choices([0, 5], [9, 1])[0],
            "disk": "50GiB",
            "time": "4h",
        },
    }
    return AgentFile.model_validate_json(json.dumps(document))


def _cells(
    names: list[str], members: Mapping[str, list[AgentFile]], count: int, draw: random.Random
) -> dict[str, int]:
    slots = {name: sum(agent.terms.jobs for agent in members[name]) for name in names}
    weights = {name: slots[name] * draw.uniform(0.5, 1.5) for name in names}
    whole = sum(weights.values())
    found = {name: math.floor(count * weight / whole) for name, weight in weights.items()}
    found[names[0]] += count - sum(found.values())
    return found


def _planned(
    pool: str, count: int, device: Device, draw: random.Random
) -> Iterator[tuple[PlannedCell, float]]:
    """Cells as the planner makes them, with the seconds that they take."""
    for number in range(count):
        stack = _STACKS[number % len(_STACKS)]
        workload = f"w{number // len(_STACKS) % _WORKLOADS:02}"
        variant = _VARIANTS[number // (len(_STACKS) * _WORKLOADS) % len(_VARIANTS)]
        pipeline = f"{stack}_{number // (len(_STACKS) * _WORKLOADS * len(_VARIANTS)):02}"
        cell = Cell(
            id=f"{pipeline}.{workload}.{variant}@{pool}",
            pipeline=pipeline,
            workload=Workload(name=workload, file=f"workloads/{workload}.py", sha256="0" * 64),
            variant=variant,
            pool=pool,
            ingress="torch",
            timeout_s=_TIMEOUT_S,
        )
        planned = PlannedCell(
            cell=cell, stack=stack, tier="core", runnable=True, reason="", device=device
        )
        yield planned, min(draw.lognormvariate(math.log(_MEDIAN_S), _SIGMA), _TIMEOUT_S)
