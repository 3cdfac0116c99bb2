"""Rows of attempts that did not pass, one by one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from benchmarks.history import draws, texts
from benchmarks.history.attempts import PAUSE_S, Miss
from benchmarks.history.passing import ISOLATION, Tonight, argv, fingerprints, reproduce
from benchmarks.history.shared import ENGINE
from benchmarks.history.state import Fault
from benchmarks.history.world import World
from orchestrator import records
from orchestrator.config.models import Expectation
from orchestrator.job import Outcome, OutputError, StageTime
from orchestrator.results.history.rows import STAGE_SEPARATOR, Row, worst_error
from orchestrator.results.verdict import Verdict, judge

_UNTOLD = records.dumps(
    {"engine": ENGINE, "environment": "", "toolchain": ""}
    | {"versions": {}, "hardware": {}, "device": {}}
)
"""Surroundings that nobody told of: the job was never started."""


def expected(world: World, expectations: Sequence[Expectation]) -> Mapping[int, list[Expectation]]:
    """The expectations that name each cell; only cells that are named."""
    found: defaultdict[int, list[Expectation]] = defaultdict(list)
    for each in expectations:
        if each.cells in world.index:
            found[world.index[each.cells]].append(each)
            continue
        for cell, name in enumerate(world.ids):
            if fnmatchcase(name, each.cells):
                found[cell].append(each)
    return found


def rows(
    tonight: Tonight, odd: Sequence[int], named: Mapping[int, list[Expectation]]
) -> Iterator[tuple[int, Row]]:
    """The last attempts of some cells that did reach a verdict, then all misses; with the cell."""
    today = tonight.world.calendar.day(tonight.state.night)
    for cell in odd:
        fault = tonight.state.faults.get(cell)
        outcome = _outcome(tonight, cell, fault)
        verdict = judge(outcome, tonight.world.ids[cell], named.get(cell, []), today)
        yield cell, _settled(tonight, cell, outcome, verdict)
    for miss in tonight.attempts.misses:
        yield miss.cell, _missed(tonight, miss)


def _outcome(tonight: Tonight, cell: int, fault: Fault | None) -> Outcome:
    if fault is None:
        return Outcome(
            status="pass",
            stages=_stages(tonight, cell, "", "ok"),
            errors=tonight.numbers.errors[cell],
            kernels=tonight.numbers.kernels[cell],
            golden="recorded",
        )
    errors = _wrong(tonight, cell, fault) if fault.phase == "compare" else ()
    said = _own(tonight.world, cell) or texts.message(
        fault.phase, errors[0] if errors else None, fault.key
    )
    status = fault.status
    compiled = fault.phase in ("execute", "compare")
    return Outcome(
        status=status,
        phase=fault.phase,
        message=said,
        stages=_stages(tonight, cell, fault.phase, texts.exit_word(fault.phase, status)),
        errors=errors,
        kernels=tonight.numbers.kernels[cell] if compiled else (),
        golden="recorded" if fault.phase == "compare" else "",
        last_words=texts.last_words(fault.phase, said),
    )


def _own(world: World, cell: int) -> str:
    """What the repository's own expected failures say."""
    return next((known.message for known in world.known if known.cell == cell), "")


def _wrong(tonight: Tonight, cell: int, fault: Fault) -> tuple[OutputError, ...]:
    errors = tonight.numbers.errors[cell]
    return tuple(texts.off(error, fault.key, tonight.world.ids[cell]) for error in errors[:1])


def _stages(tonight: Tonight, cell: int, last: str, word: str) -> tuple[StageTime, ...]:
    """Up to the one that was the last, which ended with a word; all when that is empty."""
    world = tonight.world
    number = int(world.route[cell])
    names = world.routes[number].stages
    row = int(np.searchsorted(world.route_cells[number], cell))
    times = tonight.times.stages[number][row]
    count = names.index(last) + 1 if last in names else len(names)
    ends = ["ok"] * (count - 1) + [word]
    return tuple(
        StageTime(stage=stage, seconds=float(seconds), exit=end)
        for stage, seconds, end in zip(names[:count], times[:count], ends, strict=True)
    )


def _settled(tonight: Tonight, cell: int, outcome: Outcome, verdict: Verdict) -> Row:
    world, attempts = tonight.world, tonight.attempts
    last = not outcome.phase or outcome.phase == "compare"
    seconds = sum(stage.seconds for stage in outcome.stages) + 0.04
    return Row(
        run=tonight.run,
        cell=world.ids[cell],
        attempt=int(attempts.number[cell]),
        status=verdict.status,
        phase=verdict.phase,
        message=verdict.message,
        expectation=verdict.expectation,
        tier=world.tier(cell),
        stack=world.stack(cell),
        agent=tonight.surroundings.machines[int(attempts.machine[cell])].name,
        started=int(attempts.started[cell]),
        seconds=round(seconds, 3),
        queued_seconds=float(tonight.times.queued[cell]),
        stages=STAGE_SEPARATOR.join(stage.stage for stage in outcome.stages),
        stage_seconds=tuple(stage.seconds for stage in outcome.stages),
        error=worst_error(outcome.errors),
        kernel_seconds=float(tonight.times.kernels[cell]) if last else math.nan,
        peak_memory_bytes=int(tonight.times.memory[cell]),
        fingerprint=tonight.fingerprints[cell],
        reproduce=reproduce(world, cell),
        surroundings=tonight.texts[int(tonight.codes[cell])],
        content=str(tonight.contents.texts[cell]),
        details=_details(tonight, cell, outcome, verdict.notes, ()),
    )


def _missed(tonight: Tonight, miss: Miss) -> Row:
    """An attempt that met a machine's fault; one that was never started knows nothing."""
    world, cell, cells = tonight.world, miss.cell, np.array([miss.cell])
    phase = texts.phase_of(miss.cause)
    started = phase != "build"
    phase = phase if phase in world.of_cell(cell).stages or not started else "codegen"
    code = int(tonight.surroundings.code(cells, np.array([miss.machine]))[0])
    words = tonight.words[code] if started else draws.words([_UNTOLD])
    outcome = Outcome(
        status="miss",
        phase=phase,
        message=miss.cause,
        stages=_stages(tonight, cell, phase, "miss") if started else (),
        last_words="" if started else "Error response from daemon: no such container\n",
    )
    return Row(
        run=tonight.run,
        cell=world.ids[cell],
        attempt=miss.attempt,
        status="miss",
        phase=phase,
        message=miss.cause,
        tier=world.tier(cell),
        stack=world.stack(cell),
        agent=tonight.surroundings.machines[miss.machine].name,
        started=int(tonight.attempts.began[cell]) + PAUSE_S * (miss.attempt - 1),
        seconds=round(sum(stage.seconds for stage in outcome.stages), 3),
        queued_seconds=float(tonight.times.queued[cell]),
        stages=STAGE_SEPARATOR.join(stage.stage for stage in outcome.stages),
        stage_seconds=tuple(stage.seconds for stage in outcome.stages),
        peak_memory_bytes=int(tonight.times.memory[cell]) if started else 0,
        fingerprint=fingerprints(world, tonight.contents, words, cells)[0],
        reproduce=reproduce(world, cell),
        surroundings=tonight.texts[code] if started else _UNTOLD,
        content=str(tonight.contents.texts[cell]),
        details=_details(tonight, cell, outcome, (), texts.evidence(miss.cause)),
    )


def _details(
    tonight: Tonight,
    cell: int,
    outcome: Outcome,
    notes: tuple[str, ...],
    evidence: tuple[object, ...],
) -> str:
    """JSON of what only the cell's own page shows."""
    started = bool(outcome.stages)
    stack, pool = tonight.world.stack(cell), tonight.world.keys[cell].pool
    return records.dumps(
        {
            "notes": notes,
            "errors": outcome.errors,
            "kernels": outcome.kernels,
            "evidence": evidence,
            "golden": outcome.golden,
            "last_words": outcome.last_words,
            "dropped_bytes": outcome.dropped_bytes,
            "isolation": ISOLATION if started else None,
            "argv": argv(tonight, stack, pool) if started else (),
            "stages": outcome.stages,
        }
    )
