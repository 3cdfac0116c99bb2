"""Results as text: what `show` prints. Everything that cells said is made harmless here."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator import records
from orchestrator.cli import commands
from orchestrator.cli.report import STYLES, blocks
from orchestrator.compare.numeric import details
from orchestrator.errors import InfrastructureError
from orchestrator.results.attribution import attribution
from orchestrator.results.changes import SinceGreen
from orchestrator.results.files import tree_bytes
from orchestrator.results.schema import Result, RunInfo, RunPlan
from orchestrator.results.store import Run
from orchestrator.text import (
    counts,
    indented,
    kernel_rows,
    plain,
    plural,
    seconds,
    size,
    table,
)

Line = tuple[str, str]
"""Text, and its style."""
_INDENT = "  "


def of_run(run: Run, folder: str) -> list[Line]:
    """A run's head, a table of its cells, what went wrong, a summary."""
    results, problems = run.results()
    latest = {result.cell: result for result in results}
    lines: list[Line] = [(f"run     {run.name}", "bold"), *_head(_info(run))]
    lines += [(plain(f"damaged {problem}"), "bold yellow") for problem in problems]
    lines.append(("", ""))
    rows = [(r.status, r.cell, r.phase, seconds(r.seconds), _attempt(r)) for r in latest.values()]
    lines += [
        (plain(line), STYLES[status])
        for line, status in zip(table(rows, indent=_INDENT), (r[0] for r in rows), strict=True)
    ]
    lines += [("", ""), *blocks(latest.values(), run.name)]
    unfinished = run.unfinished()
    if unfinished:
        text = f"{plural(len(unfinished), 'cell')} without a verdict. Go on with: "
        lines.append((text + commands.resume(run.name), "yellow"))
    skipped = sum(not planned.runnable for planned in run.plan().cells)
    statuses = [*(r.status for r in latest.values()), *["skip"] * skipped]
    lines.append((f"{counts(statuses)}      results {folder}", ""))
    return lines


def run_document(run: Run) -> dict[str, object]:
    """The same for machines."""
    results, problems = run.results()
    latest = {result.cell: result for result in results}
    info = _info(run)
    return {
        "schema": 1,
        "run": run.name,
        "started": info.started if info else None,
        "ended": info.ended if info else None,
        "engine": info.engine if info else None,
        "cells": [cell_document(result) for result in latest.values()],
        "skipped": skipped_document(run.plan()),
        "unfinished": list(run.unfinished()),
        "problems": list(problems),
    }


def cell_document(result: Result) -> dict[str, object]:
    """A result in brief; the whole document is in the run's folder."""
    return {
        "cell": result.cell,
        "status": result.status,
        "tier": result.tier,
        "phase": result.phase,
        "message": result.message,
        "attempt": result.attempt,
        "seconds": result.seconds,
        "evidence": [records.encode(piece) for piece in result.evidence],
        "rerun": result.reproduce,
    }


def skipped_document(plan: RunPlan) -> list[dict[str, str]]:
    """The cells of a plan that cannot run where it runs."""
    return [
        {"cell": planned.cell.id, "reason": planned.reason}
        for planned in plan.cells
        if not planned.runnable
    ]


def of_cell(
    run: Run,
    attempts: Sequence[Result],
    artifacts: str,
    since: SinceGreen | None = None,
    known: Sequence[str] = (),
) -> list[Line]:
    """The whole story of the last attempt, and a line for each earlier one.

    `known`: what other runs tell of its failure.
    """
    result = attempts[-1]
    title = f"{result.status:<6}{result.cell}   {result.phase}".rstrip()
    lines: list[Line] = [(plain(title), STYLES[result.status])]
    parts: list[tuple[str, list[str]]] = [
        ("", indented(result.message, _INDENT)),
        ("expected", indented(result.expectation, _INDENT)),
        ("note", [line for note in result.notes for line in indented(note, _INDENT)]),
        ("seen from outside", _seen(result)),
        ("in other runs", [_INDENT + plain(line) for line in known]),
        ("whose fault", _blamed(run, result)),
        (f"since the last green attempt, in {since.run}" if since else "", _since(since)),
        ("earlier attempts", _earlier(attempts[:-1])),
        ("stages", _stages(result)),
        ("errors", [_INDENT + plain(line) for e in result.errors for line in details(e)]),
        ("kernels", _kernels(result)),
        ("last words", _last_words(result)),
        ("ran in", _ran_in(result)),
        ("kept", _kept(run, result, artifacts)),
    ]
    for name, body in parts:
        if body:
            lines += [(name, "bold")] if name else []
            lines += [(line, "") for line in body]
    lines.append((f"rerun   {plain(result.reproduce)}", ""))
    return lines


def _info(run: Run) -> RunInfo | None:
    """None when the run was stopped before it began, or the file is damaged."""
    try:
        return run.info()
    except InfrastructureError:
        return None


def _head(info: RunInfo | None) -> list[Line]:
    if info is None:
        return [("        stopped before anything ran", "yellow")]
    ended = f"ended {info.ended}" if info.ended else "not ended"
    lines = [(f"        started {info.started}, {ended}, took {seconds(info.seconds)}", "")]
    lines.append((plain(f"engine  {info.engine_note or info.engine}"), ""))
    lines += [(plain(f"stack   {e.stack}   {e.reference}"), "") for e in info.environments]
    return lines


def _attempt(result: Result) -> str:
    return f"attempt {result.attempt}" if result.attempt > 1 else ""


def _blamed(run: Run, result: Result) -> list[str]:
    """What control runs tell of this attempt."""
    found = attribution(run, result.cell)
    if found is None or found.attempt != result.attempt:
        return []
    return [_INDENT + plain(line) for line in found.lines()]


def _seen(result: Result) -> list[str]:
    rows = [(piece.blame, piece.text) for piece in result.evidence]
    return [plain(line) for line in table(rows, indent=_INDENT)]


def _since(since: SinceGreen | None) -> list[str]:
    if since is None:
        return []
    nothing = "nothing that is recorded has changed"
    return [f"{_INDENT}{plain(str(change))}" for change in since.changes] or [_INDENT + nothing]


def _earlier(attempts: Sequence[Result]) -> list[str]:
    lines = []
    for r in attempts:
        text = f"{r.attempt}: {r.status} {r.phase}, {seconds(r.seconds)}: {r.message}"
        lines += indented(text, _INDENT, 3)
    return lines


def _stages(result: Result) -> list[str]:
    rows = [(s.stage, seconds(s.seconds), s.exit) for s in result.stages]
    if rows:
        rows.append(("all", seconds(result.seconds), ""))
    return [plain(line) for line in table(rows, indent=_INDENT)]


def _kernels(result: Result) -> list[str]:
    return [plain(line) for line in table(kernel_rows(result.kernels), indent=_INDENT)]


def _last_words(result: Result) -> list[str]:
    lines = indented(result.last_words, f"{_INDENT}| ")
    if lines and result.dropped_bytes:
        lines.insert(0, f"{_INDENT}({size(result.dropped_bytes)} before this were not kept)")
    return lines


def _ran_in(result: Result) -> list[str]:
    isolation = result.isolation
    versions = " · ".join(f"{name} {version}" for name, version in sorted(result.versions.items()))
    cpu = result.hardware.get("cpu_model", "")
    rows = [
        ("engine", f"{result.engine}   {result.environment}"),
        ("toolchain", result.toolchain),
        ("versions", versions),
        ("hardware", f"{cpu}, {result.hardware.get('cpus', '?')} CPUs" if cpu else ""),
        ("GPU", _gpu(result)),
        ("device", ", ".join(f"{k} {v}" for k, v in sorted(result.device.items()))),
        ("golden", result.golden),
        ("memory", f"{size(result.peak_memory_bytes)} peak" if result.peak_memory_bytes else ""),
        ("constants", ", ".join(f"{k}={v}" for k, v in result.constants.items())),
        ("started", result.started),
        ("fingerprint", result.fingerprint),
    ]
    if isolation is not None:
        limits = ", ".join(f"{name} {value}" for name, value in isolation.limits.items())
        contained = "contained" if isolation.contained else "NOT contained"
        text = f"{contained}; network {isolation.network}; root {isolation.root}; "
        text += f"user {isolation.user}; {limits}"
        rows.insert(1, ("isolation", text))
    return [plain(line) for line in table([r for r in rows if r[1]], indent=_INDENT)]


def _gpu(result: Result) -> str:
    """`NVIDIA H100, sm_90, driver 550.54, firmware 96.00`: as the machine tells it."""
    named = {"gpu_name": "", "gpu_chip": "", "gpu_driver": "driver ", "gpu_firmware": "firmware "}
    facts = [
        f"{word}{result.hardware[key]}" for key, word in named.items() if key in result.hardware
    ]
    return ", ".join(facts)


def _kept(run: Run, result: Result, shown: str) -> list[str]:
    folder = run.artifacts(result.cell)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    rows = [(f"{shown}/{f.relative_to(folder).as_posix()}", size(tree_bytes(f))) for f in files]
    return table(rows, indent=_INDENT)
