"""One attempt of a cell as a row: what is asked of every attempt, apart from its details.

A row has no structure that Parquet would not compress well: what many attempts share (their
surroundings, a cell's recipes) is one string that columns keep once.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator import records
from orchestrator.job import OutputError
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import Result

STAGE_SEPARATOR = "\n"
"""Between stages in `Row.stages`: no stage's name has a line end."""
SURROUNDINGS = ("engine", "environment", "toolchain", "versions", "hardware", "device")
"""Fields of a result that cells of one job share."""
CONTENT = ("workload_sha256", "constants", "parts")
"""Fields of a result that a cell keeps from night to night."""
DETAILS = (
    *("notes", "errors", "kernels", "evidence", "golden", "last_words", "dropped_bytes"),
    *("isolation", "argv", "stages"),
)
"""Fields of a result that only the cell's own page shows."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """An attempt, or (attempt 0) a cell that its run did not attempt."""

    run: str
    cell: str
    attempt: int
    """From 1; 0: there was none."""
    status: str
    """As judged: `pass fail error miss skip xfail xpass`; `none`: it was planned, and there is no
    result."""
    phase: str = ""
    message: str = ""
    """Of a skip: the reason."""
    expectation: str = ""
    tier: str = "core"
    stack: str = ""
    agent: str = ""
    """Empty: the orchestrator's own machine."""
    started: int = 0
    """Seconds since 1970, UTC; 0: never."""
    seconds: float = math.nan
    queued_seconds: float = math.nan
    """NaN: it waited for no machine."""
    stages: str = ""
    """Names in order, joined by `STAGE_SEPARATOR`."""
    stage_seconds: tuple[float, ...] = ()
    error: float = math.nan
    """The worst |got - golden| / (atol + rtol * |golden|); above 1 is a failure. NaN: nothing was
    compared, or what was had no tolerance (integers that are all equal have 0)."""
    kernel_seconds: float = math.nan
    """Median over the calls of what kernels took on a GPU; NaN: no GPU said."""
    peak_memory_bytes: int = 0
    fingerprint: str = ""
    reproduce: str = ""
    surroundings: str = ""
    """JSON of the fields `SURROUNDINGS`."""
    content: str = ""
    """JSON of the fields `CONTENT`."""
    details: str = ""
    """JSON of the fields `DETAILS`."""


def row(result: Result, stack: str = "", blame: Sequence[str] = ()) -> Row:
    """The row of an attempt. `blame`: what control runs tell of it, see `results.attribution`."""
    return Row(
        run=result.run,
        cell=result.cell,
        attempt=result.attempt,
        status=result.status,
        phase=result.phase,
        message=result.message,
        expectation=result.expectation,
        tier=result.tier,
        stack=stack,
        agent=result.agent,
        started=epoch(result.started),
        seconds=result.seconds,
        queued_seconds=math.nan if result.queued_seconds is None else result.queued_seconds,
        stages=STAGE_SEPARATOR.join(stage.stage for stage in result.stages),
        stage_seconds=tuple(stage.seconds for stage in result.stages),
        error=worst_error(result.errors),
        kernel_seconds=_median_seconds(result.kernel_ns),
        peak_memory_bytes=result.peak_memory_bytes,
        fingerprint=result.fingerprint,
        reproduce=result.reproduce,
        surroundings=_json(result, SURROUNDINGS),
        content=_json(result, CONTENT),
        details=_json(result, DETAILS, **({"blame": list(blame)} if blame else {})),
    )


def rows(
    results: Iterable[Result],
    planned: Iterable[PlannedCell],
    run: str,
    blame: Mapping[tuple[str, int], Sequence[str]] | None = None,
) -> Iterator[Row]:
    """Every attempt of a run, and a row for each cell that has none: skipped, or not reached.

    `blame`: of some attempts, by cell and number; see `row`.
    """
    blame = blame or {}
    cells = list(planned)
    stacks = {each.cell.id: each.stack for each in cells}
    attempted = set()
    for result in results:
        attempted.add(result.cell)
        told = blame.get((result.cell, result.attempt), ())
        yield row(result, stacks.get(result.cell, ""), told)
    for each in cells:
        if each.cell.id not in attempted:
            yield Row(
                run=run,
                cell=each.cell.id,
                attempt=0,
                status="none" if each.runnable else "skip",
                message="the run ended before its turn" if each.runnable else each.reason,
                tier=each.tier,
                stack=each.stack,
            )


def epoch(moment: str) -> int:
    """Seconds since 1970 of an ISO 8601 time as results have it; 0 for what is none."""
    try:
        return int(dt.datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return 0


def worst_error(errors: Iterable[OutputError]) -> float:
    """The error of the worst output in units of its tolerance; NaN when nothing was compared."""
    found = [_ratio(error) for error in errors]
    return max(found) if found else math.nan


def _ratio(error: OutputError) -> float:
    """Of the worst element; infinite where no tolerance can help."""
    if error.mismatches == 0 and error.max_abs == 0:
        return 0.0
    allowed = error.atol + error.rtol * abs(error.worst_golden)
    off = abs(error.worst_got - error.worst_golden)
    if not math.isfinite(off) or not math.isfinite(allowed) or allowed <= 0:
        return math.inf if error.mismatches else 0.0
    return off / allowed


def _median_seconds(kernel_ns: tuple[int, ...]) -> float:
    """A zero is a driver that does not say."""
    told = sorted(each for each in kernel_ns if each > 0)
    return told[len(told) // 2] / 1e9 if told else math.nan


def _json(result: Result, fields: tuple[str, ...], **more: object) -> str:
    return records.dumps({**{name: getattr(result, name) for name in fields}, **more})


def unpack(text: str) -> Mapping[str, object]:
    """The fields behind a JSON column; none when it is empty."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
