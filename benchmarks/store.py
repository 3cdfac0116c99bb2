"""How long a store takes to be filled, merged and asked, for a made-up year.

    python -m benchmarks.store --work DIR [--series 2000] [--nights 60] [--json]

DIR keeps the made-up year; the store is made anew each time. Needs the extra `store`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.child import Cost, measured
from benchmarks.dashboard import made_up
from benchmarks.history.cells import ROOT
from benchmarks.history.events import Parameters

_MIB = 1 << 20
QUESTIONS = {
    "red cells of each night": "SELECT night, count(*) FROM cells "
    "WHERE status IN ('fail', 'xpass') GROUP BY 1 ORDER BY 1",
    "one cell's year": "SELECT night, status, seconds FROM cells "
    "WHERE cell = (SELECT min(cell) FROM cells WHERE status = 'pass') ORDER BY 1",
    "lowering by version": "SELECT surroundings->>'$.versions.mlir-opt' AS version, pipeline, "
    "median(lowering) FROM attempts WHERE status = 'pass' GROUP BY ALL",
}


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that was measured, each as a command of its own."""

    parameters: Parameters
    load: float
    """Of the machine when it began, as `uptime` says; its processors are shared."""
    processors: int
    added_bytes: int
    """Of one archive for each run."""
    merged_bytes: int
    """Of one archive for each month."""
    costs: Mapping[str, Cost]


def main(words: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, metavar="DIR")
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    parameters = Parameters(series=options.series, nights=options.nights, seed=1)
    report = measure(parameters, options.work.absolute())
    text = json.dumps(dataclasses.asdict(report), indent=1) if options.json else table(report)
    sys.stdout.write(f"{text}\n")


def measure(parameters: Parameters, work: Path) -> Report:
    """Fills, merges and asks a store of a made-up year."""
    load = os.getloadavg()[0]
    made, store, state = made_up(work / "year", parameters), work / "store", work / "state"
    for folder in (store, state):
        shutil.rmtree(folder, ignore_errors=True)
    os.environ |= {"LH_STORE": str(store), "LH_STATE": str(state)}
    costs = {"add": _cost("add", str(made)), "add again": _cost("add", str(made))}
    added = _bytes(store)
    costs["compact"] = _cost("compact")
    merged = _bytes(store)
    costs["compact again"] = _cost("compact")
    costs["verify"] = _cost("verify")
    costs["index"] = _cost("query", "SELECT count(*) FROM runs")
    costs |= {name: _cost("query", sql) for name, sql in QUESTIONS.items()}
    return Report(
        parameters=parameters,
        load=round(load, 2),
        processors=os.cpu_count() or 1,
        added_bytes=added,
        merged_bytes=merged,
        costs=costs,
    )


def _cost(*words: str) -> Cost:
    return measured([sys.executable, "-m", "orchestrator", "results", *words], ROOT)


def _bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in store.glob("*.parquet"))


def table(report: Report) -> str:
    """Lines for people."""
    made = report.parameters
    head = f"{made.series:,} series x {made.nights} nights, {report.processors} processors"
    added, merged = (size / _MIB for size in (report.added_bytes, report.merged_bytes))
    sizes = f"{added:,.1f} MiB as runs, {merged:,.1f} MiB merged"
    lines = [f"{head}, load {report.load}; {sizes}"]
    for name, cost in report.costs.items():
        text = f"{cost.wall_s:,.1f} s ({cost.cpu_s:,.1f} s of processors)"
        lines.append(f"{name:<26}{text:<36}{cost.peak_bytes / _MIB:,.0f} MiB")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
