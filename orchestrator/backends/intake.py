"""Results that other machines made, into the record: checked, numbered, once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator import records
from orchestrator.backends.executing import Ordered
from orchestrator.errors import InfrastructureError
from orchestrator.job import Cell
from orchestrator.order import JobOrder, read_summary
from orchestrator.results.artifacts import MAX_CELL_BYTES, MAX_CELL_FILES, check_name
from orchestrator.results.fingerprint import fingerprint, parts
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, utc

_MAX_ATTEMPT = 100
"""Of a cell, in one order: a machine that was interrupted often may have had many."""


class IntakeError(InfrastructureError):
    """A folder of results that is refused as a whole; says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Taken:
    """What a folder of results held."""

    results: tuple[Result, ...]
    """As they are in the record now, by cell and attempt."""
    info: RunInfo | None
    """What the machine says of its environments and of times that belong to no cell."""
    notes: tuple[str, ...]
    """What was odd, and was left out."""


def take_in(
    run: Run, ordered: Ordered, folder: Path, numbers: Mapping[str, int], agent: str = ""
) -> Taken:
    """Adds every attempt in a finished folder of results to the record of its run.

    Safe to repeat: with the same `numbers`, what is in the record already stays as it is.

    Args:
        run: claimed by this process.
        ordered: the order that was given, from our own files.
        folder: what a machine made of it.
        numbers: attempts that each cell had before.
        agent: the registered machine that signed them; empty: nobody did. What the results say of
            that themselves counts for nothing.

    Raises:
        IntakeError: it is not finished, or of another order.
        InfrastructureError: the record cannot be written.
    """
    order = ordered.order
    try:
        summary = read_summary(folder)
    except InfrastructureError as error:
        raise IntakeError(str(error)) from error
    if summary is None:
        raise IntakeError("the job was not finished: its results have no summary")
    if (summary.order_sha256, summary.job) != (ordered.sha256, order.job):
        raise IntakeError(f"these are results of another order, of job {summary.job!r:.80}")
    found, problems = Run(folder, order.run).results()
    notes = list(problems)
    cells = {cell.id: cell for cell in ordered.job.cells}
    fitting = []
    for result in found:
        if why := _odd(result, order, cells):
            notes.append(f"{result.cell!r:.120}: {why}")
        else:
            fitting.append(result)
    fitting, more = _numbered(fitting)
    notes += more
    if len(found) != summary.results:
        notes.append(f"{summary.results} results were announced, {len(found)} can be read")
    silent = set(cells) - {result.cell for result in fitting}
    kept = [
        *(add(run, _ours(r, order, numbers.get(r.cell, 0), agent)) for r in fitting),
        *(
            add(run, miss(run, ordered, cells[cell], numbers.get(cell, 0) + 1, "", _SILENT))
            for cell in sorted(silent)
        ),
    ]
    newest = run.attempts()
    for cell in sorted(
        {r.cell for r in kept if r.attempt == newest[r.cell]}
    ):  # not what came after it
        notes += _take_artifacts(run, folder, cell)
    return Taken(results=tuple(kept), info=_info(folder), notes=tuple(notes))


_SILENT = "the job ended without a result of this cell"


def lose(
    run: Run, ordered: Ordered, numbers: Mapping[str, int], message: str, now: dt.datetime
) -> tuple[Result, ...]:
    """Records that nothing came of a job: a `miss` of every cell. Safe to repeat."""
    return tuple(
        add(run, miss(run, ordered, cell, numbers.get(cell.id, 0) + 1, utc(now), message))
        for cell in ordered.job.cells
    )


def add(run: Run, result: Result) -> Result:
    """Adds an attempt, unless the record has it: then that one stays, and is returned."""
    for known in run.attempts_of(result.cell):
        if known.attempt == result.attempt:
            return known
    run.add(result)
    return result


def miss(
    run: Run, ordered: Ordered, cell: Cell, attempt: int, started: str, message: str
) -> Result:
    """An attempt that left no word of its own."""
    order = ordered.order
    return Result(
        run=run.name,
        cell=cell.id,
        attempt=attempt,
        status="miss",
        phase="build",
        message=message,
        stages=(),
        errors=(),
        golden="",
        last_words="",
        dropped_bytes=0,
        peak_memory_bytes=0,
        started=started or run.info().started,
        seconds=0.0,
        engine="",
        environment="",
        toolchain="",
        versions={},
        hardware={},
        isolation=None,
        argv=(),
        workload_sha256=cell.workload.sha256,
        constants=cell.workload.constants,
        tier=order.cells[cell.id].tier,
        fingerprint=fingerprint(
            cell,
            environment="",
            toolchain="",
            versions={},
            hardware={},
            harness_sha256=order.harness_sha256,
        ),
        parts=parts(cell, order.harness_sha256),
        reproduce=order.cells[cell.id].reproduce,
    )


def _odd(result: Result, order: JobOrder, cells: Mapping[str, Cell]) -> str:
    """Why a result cannot be one of this order; empty when it can."""
    if result.cell not in cells:
        return "a result of a cell that was not in the job is left out"
    if result.run != order.run:
        return "a result of another run is left out"
    if not 1 <= result.attempt <= _MAX_ATTEMPT:
        return f"attempt {result.attempt} is left out"
    if result.workload_sha256 != cells[result.cell].workload.sha256:
        return "a result of another program is left out"
    return ""


def _numbered(results: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """Attempts counted on from 1, none after a verdict; and notes on what is left out.

    A document that was lost on the way leaves no gap in the record.
    """
    kept: dict[str, list[Result]] = {}
    notes = []
    for result in results:
        before = kept.setdefault(result.cell, [])
        if before and before[-1].status != "miss":
            notes.append(f"{result.cell}: attempt {result.attempt} after a verdict is left out")
        else:
            before.append(dataclasses.replace(result, attempt=len(before) + 1))
    return [result for each in kept.values() for result in each], notes


def _ours(result: Result, order: JobOrder, before: int, agent: str) -> Result:
    """With its number in the run; what the order said of the cell is not a machine's to say."""
    terms = order.cells[result.cell]
    return dataclasses.replace(
        result,
        attempt=before + result.attempt,
        tier=terms.tier,
        reproduce=terms.reproduce,
        agent=agent,
    )


def _take_artifacts(run: Run, folder: Path, cell: str) -> list[str]:
    """Copies what the last attempt of a cell left, within the bounds that hold on this machine.

    What an earlier one left goes.
    """
    source = folder / "artifacts" / check_name(cell)
    paths = sorted(p for p in source.rglob("*") if p.is_file() and not p.is_symlink())
    if not paths:
        run.clear_artifacts(cell)
        return []
    sizes = sum(path.stat().st_size for path in paths)
    if len(paths) > MAX_CELL_FILES or sizes > MAX_CELL_BYTES:
        return [f"{cell}: its artifacts are left out: too many, or too large"]
    run.clear_artifacts(cell)
    for path in paths:
        run.write_artifact(cell, path.relative_to(source).as_posix(), path.read_bytes())
    return []


def _info(folder: Path) -> RunInfo | None:
    try:
        return records.decode(RunInfo, json.loads((folder / "run.json").read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None
