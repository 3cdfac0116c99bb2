"""Where a run's wall time went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.results.schema import Result, RunInfo
from orchestrator.text import seconds, table

_SPANS = {
    "prepare": "environments made ready",
    "start": "containers and processes started",
    "harness": "frontends imported and warmed up",
}
_SLOWEST = 5


def lines(info: RunInfo, results: Iterable[Result], wall: float, workers: int) -> list[str]:
    """A table and a sentence.

    Stages of cells that ran side by side overlap: their sums are CPU-like time, the share is of
    all stages. `wall` is the run's own, in seconds.
    """
    attempts = [r for r in results if r.stages]
    spans = {
        text: sum(s.seconds for s in info.spans if s.kind == kind) for kind, text in _SPANS.items()
    }
    stages: dict[str, float] = {}
    for result in attempts:
        for stage in result.stages:
            stages[stage.stage] = stages.get(stage.stage, 0.0) + stage.seconds
    total = sum(stages.values())
    spent = sum(spans.values())
    rows = [(f"{text}", seconds(value), _share(value, wall)) for text, value in spans.items()]
    cells = max(0.0, wall - spent)
    rows.append((f"cells, {workers} at a time", seconds(cells), _share(cells, wall)))
    rows.append(("all of it", seconds(wall), ""))
    parts = sorted(stages.items(), key=lambda item: -item[1])
    slowest = sorted(attempts, key=lambda r: -r.seconds)[:_SLOWEST]
    return [
        "where the time went",
        *table(rows, indent="  "),
        "stages, summed over cells",
        *table([(n, seconds(v), _share(v, total)) for n, v in parts], indent="  "),
        "slowest cells",
        *table([(r.cell, seconds(r.seconds), _longest(r)) for r in slowest], indent="  "),
        _sentence({**spans, "cells": cells}, parts, total),
    ]


def _share(value: float, total: float) -> str:
    return f"{100 * value / total:.0f} %" if total > 0 else ""


def _longest(result: Result) -> str:
    stage = max(result.stages, key=lambda s: s.seconds)
    return f"{stage.stage} {seconds(stage.seconds)}"


def _sentence(wall: Mapping[str, float], stages: list[tuple[str, float]], total: float) -> str:
    name = max(wall, key=lambda key: wall[key])
    if name == "cells" and stages and total > 0:
        stage, value = stages[0]
        return f"What dominates: stage {stage}, {_share(value, total)} of the cells' time."
    return f"What dominates: {name}, {_share(wall[name], sum(wall.values()))} of the wall time."
