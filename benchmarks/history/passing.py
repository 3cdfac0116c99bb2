"""Rows of cells that pass, a whole route at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.history import draws
from benchmarks.history.attempts import Attempts
from benchmarks.history.shared import Contents, Numbers, Surroundings, environment
from benchmarks.history.state import State
from benchmarks.history.times import Times
from benchmarks.history.world import Flags, Ints, World
from orchestrator import records
from orchestrator.engines.base import Isolation
from orchestrator.results.history.archive import arrow_schema
from orchestrator.results.history.rows import STAGE_SEPARATOR

ISOLATION = Isolation(
    contained=True,
    network="none",
    root="read-only",
    user="65534:65534",
    limits={"cpus": 4, "memory_bytes": 17179869184, "processes": 4096},
)
_PLAIN = {"status": "pass", "phase": "", "message": "", "expectation": ""}


@dataclass(frozen=True, kw_only=True)
class Tonight:
    """All that is known of a night before there are rows."""

    world: World
    state: State
    run: str
    times: Times
    attempts: Attempts
    contents: Contents
    numbers: Numbers
    surroundings: Surroundings
    texts: Mapping[int, str]
    """Of surroundings, by code."""
    words: Mapping[int, draws.Words]
    """Of what fingerprints are made from, by code of surroundings: shape (2,)."""
    codes: Ints
    """Of each cell's last attempt."""
    fingerprints: np.ndarray[tuple[int], np.dtype[np.object_]]
    """Of each cell's last attempt."""


def argv(tonight: Tonight, stack: str, pool: str) -> tuple[str, ...]:
    """How a job was started."""
    digest = environment(stack, tonight.state.versions[stack])
    folder = f"/lh/runs/{tonight.run}/jobs/{tonight.run}.{stack}.{pool}"
    return (
        *("docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL"),
        *("--security-opt=no-new-privileges", "--user=65534:65534", "--pids-limit=4096"),
        *(f"--mount=type=bind,source={folder},target=/job,readonly", digest),
        *("python", "-m", "orchestrator.harness", "/job"),
    )


def tables(tonight: Tonight, passing: Flags) -> list[tuple[Ints, pa.Table]]:
    """Cells and their rows, for each route that has any."""
    found = []
    for number in range(len(tonight.world.routes)):
        inside = passing[tonight.world.route_cells[number]]
        if inside.any():
            cells = tonight.world.route_cells[number][inside]
            found.append((cells, _table(tonight, number, cells, inside)))
    return found


def _table(tonight: Tonight, number: int, cells: Ints, inside: Flags) -> pa.Table:
    world, times, attempts = tonight.world, tonight.times, tonight.attempts
    route, some = world.routes[number], int(cells[0])
    stages = times.stages[number][inside]
    agents = np.array([agent.name for agent in tonight.surroundings.machines], dtype=object)
    ids = np.array(world.ids, dtype=object)[cells]
    columns: dict[str, object] = {
        **_PLAIN,
        "run": tonight.run,
        "tier": world.tier(some),
        "stack": world.stack(some),
        "stages": STAGE_SEPARATOR.join(route.stages),
        "cell": ids,
        "attempt": attempts.number[cells],
        "agent": agents[attempts.machine[cells]],
        "started": attempts.started[cells],
        "seconds": times.seconds[cells],
        "queued_seconds": times.queued[cells],
        "stage_seconds": _lists(stages),
        "error": tonight.numbers.worst[cells],
        "kernel_seconds": times.kernels[cells],
        "peak_memory_bytes": times.memory[cells],
        "fingerprint": tonight.fingerprints[cells],
        "reproduce": [reproduce(world, int(cell)) for cell in cells],
        "surroundings": [tonight.texts[code] for code in tonight.codes[cells].tolist()],
        "content": tonight.contents.texts[cells],
        "details": _details(tonight, number, cells, stages),
    }
    schema = arrow_schema()
    arrays = [_column(columns[field.name], field.type, len(cells)) for field in schema]
    return pa.table(arrays, schema=schema)


def reproduce(world: World, cell: int) -> str:
    """The command that reruns a cell."""
    return f"nox -s {world.keys[cell].pipeline} -- --cell {world.ids[cell]}"


def _column(value: object, kind: pa.DataType, length: int) -> pa.Array:
    """An array; one text stands for all rows. A number may be missing, and is NaN then."""
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, str):
        return pa.array([value], kind).take(pa.array(np.zeros(length, dtype=np.int32)))
    return pa.array(value, kind, from_pandas=False)


def _lists(stages: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pa.Array:
    rows, width = stages.shape
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(stages.astype(np.float32).ravel()))


def _details(
    tonight: Tonight,
    number: int,
    cells: Ints,
    stages: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> pa.Array:
    """JSON with sorted keys, as `records.dumps` writes it; pieces that are joined row by row."""
    world = tonight.world
    route, key = world.routes[number], world.keys[int(cells[0])]
    command = records.dumps(argv(tonight, world.stack(int(cells[0])), key.pool))
    isolation = records.dumps(ISOLATION)
    pieces: list[object] = [
        f'{{"argv": {command}, "dropped_bytes": 0, "errors": ',
        pa.array(tonight.numbers.texts[cells], pa.string()),
        f', "evidence": [], "golden": "recorded", "isolation": {isolation}, "kernels": ',
        pa.array(tonight.numbers.kernel_texts[cells], pa.string()),
    ]
    between = ', "last_words": "", "notes": [], "stages": ['
    for column, stage in enumerate(route.stages):
        text = pc.cast(pa.array(np.ascontiguousarray(stages[:, column])), pa.string())
        pieces += [f'{between}{{"exit": "ok", "seconds": ', text]
        between = f', "stage": {records.dumps(stage)}}}, '
    pieces.append(f"{between.removesuffix(', ')}]}}")
    scalars = [pa.scalar(each) if isinstance(each, str) else each for each in pieces]
    return pc.binary_join_element_wise(*scalars, pa.scalar(""))


def fingerprints(world: World, contents: Contents, words: draws.Words, cells: Ints) -> list[str]:
    """Of attempts: equal when cell, content and surroundings are; `words` are of these last."""
    return draws.hexadecimal(draws.combine(world.words[cells], contents.words[cells], words))
