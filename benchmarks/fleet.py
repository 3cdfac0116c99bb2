"""How a fleet gets through a night, simulated with the planner's jobs and the real decisions.

    python -m benchmarks.fleet [--agents 1000] [--pools 40] [--cells 100000] [--seed 1] [--json]

Jobs are made by `backends.placing`; which agent gets which, what is tried again, who is quarantined
and when it is given a health job are decided by `orchestrator.fleet`. Machines, seconds and faults
are made up, from a seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.fleet_simulation import bounds, world
from benchmarks.fleet_simulation.faults import Faults
from benchmarks.fleet_simulation.night import Simulation
from benchmarks.fleet_simulation.world import Parameters

SCALES = (0.05, 0.1, 0.25, 0.5)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One night."""

    what: str
    agents: int
    pools: int
    cells: int
    jobs: int
    least_s: float
    """Below which nobody can stay; see `bounds.least`."""
    seconds: float
    """Until all was over, in the night's own time."""
    nine_tenths_s: float
    """Until nine of ten jobs were over."""
    given_up: int
    misses: int
    health_jobs: int
    quarantined: int
    wasted: float
    """Part of the machines' time that went into jobs of which nothing came."""
    plan_s: float
    """Real seconds to make agents, cells and jobs."""
    decisions: int
    decision_ms: float
    """Real time of one, on average."""
    longest_decision_ms: float
    simulate_s: float
    """Real seconds for the whole night, decisions included."""


def measure(
    what: str, parameters: Parameters, *, faults: bool = True, careful: bool = True
) -> Measured:
    """One night, in the fleet's time and in ours."""
    began = time.perf_counter()
    made = world.make(parameters)
    planned = time.perf_counter()
    chance = Faults(made.agents, parameters.seed) if faults else None
    night = Simulation(made, chance, careful=careful).run()
    done = time.perf_counter()
    return Measured(
        what=what,
        agents=parameters.agents,
        pools=parameters.pools,
        cells=parameters.cells,
        jobs=night.jobs,
        least_s=round(bounds.least(made), 1),
        seconds=round(night.seconds, 1),
        nine_tenths_s=round(sorted(night.ended)[int(0.9 * len(night.ended))], 1),
        given_up=night.given_up,
        misses=sum(night.misses.values()),
        health_jobs=night.health_jobs,
        quarantined=night.quarantined,
        wasted=round(night.wasted_s / (night.busy_s + night.wasted_s), 4),
        plan_s=round(planned - began, 2),
        decisions=night.decisions,
        decision_ms=round(1000 * night.decision_s / night.decisions, 2),
        longest_decision_ms=round(1000 * night.longest_decision_s, 1),
        simulate_s=round(done - planned, 2),
    )


def nights(parameters: Parameters) -> list[Measured]:
    """The night itself, the same with other rules, and fleets that are a part of it."""
    small = dataclasses.replace(parameters, of_job=10)
    found = [
        measure("nothing fails", parameters, faults=False),
        measure("machines fail", parameters),
        measure("the same, 10 cells a job", small),
        measure("the same, no health jobs, no quarantine", parameters, careful=False),
    ]
    return found + [measure(f"{scale:.0%} of it", _scaled(parameters, scale)) for scale in SCALES]


def _scaled(parameters: Parameters, scale: float) -> Parameters:
    return dataclasses.replace(
        parameters,
        agents=max(1, round(parameters.agents * scale)),
        pools=max(1, round(parameters.pools * scale)),
        cells=max(1, round(parameters.cells * scale)),
    )


def table(found: Sequence[Measured]) -> str:
    """Markdown."""
    head: tuple[str, ...] = (
        "",
        "agents",
        "cells",
        "jobs",
        "least",
        "took",
        "by it",
        "nine tenths",
        "missed",
        "given up",
    )
    head += ("health jobs", "in quarantine", "wasted", "plan", "a decision, longest", "simulated")
    rows = [head, ("---",) * len(head)]
    rows += [
        (
            each.what,
            f"{each.agents:,}",
            f"{each.cells:,}",
            f"{each.jobs:,}",
            f"{each.least_s / 60:.0f} min",
            f"{each.seconds / 60:.0f} min",
            f"{each.seconds / each.least_s:.2f}",
            f"{each.nine_tenths_s / 60:.0f} min",
            f"{each.misses:,}",
            f"{each.given_up:,}",
            f"{each.health_jobs:,}",
            f"{each.quarantined:,}",
            f"{each.wasted:.1%}",
            f"{each.plan_s:.1f} s",
            f"{each.decision_ms:.1f} ms, {each.longest_decision_ms:.0f} ms",
            f"{each.simulate_s:.1f} s",
        )
        for each in found
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(words: Sequence[str] | None = None) -> None:
    """Simulates and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    for field in dataclasses.fields(Parameters):
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=int, default=field.default, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = vars(parser.parse_args(words))
    as_json = options.pop("json")
    parameters = Parameters(**options)
    began, load = time.perf_counter(), os.getloadavg()[0]
    found = nights(parameters)
    report = {
        "parameters": dataclasses.asdict(parameters),
        "load": round(load, 2),
        "processors": os.cpu_count(),
        "seconds": round(time.perf_counter() - began, 1),
        "nights": [dataclasses.asdict(each) for each in found],
    }
    head = f"load {report['load']}, {report['processors']} processors, {report['seconds']} s in all"
    text = json.dumps(report, indent=1) if as_json else f"{head}\n\n{table(found)}"
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
