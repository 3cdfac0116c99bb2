"""Steps in speed, as pages tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.memory import Speeds
from dashboards.stats import Steps


def called_on(facts: Facts, night: int) -> Iterator[tuple[int, Literal["slower", "faster"]]]:
    """The cells in which a step was called on a night, each once for each direction."""
    seen = set()
    for _, judged in measures(facts):
        steps = judged.steps.take(judged.steps.called == night)
        for cell, ratio in zip(steps.series.tolist(), steps.ratio.tolist(), strict=True):
            found = (int(cell), _kind(ratio))
            if found not in seen:
                seen.add(found)
                yield found


def measures(facts: Facts) -> tuple[tuple[doc.Measure, Speeds], ...]:
    """What is timed, and what is said of it."""
    return ("execute", facts.execute), ("lowering", facts.lowering)


def views(facts: Facts, measure: doc.Measure, steps: Steps) -> Iterator[doc.SpeedView]:
    """Steps as pages show them, in their order."""
    nights = facts.nights
    columns = (steps.series, steps.night, steps.called, steps.before, steps.after, steps.ratio)
    for series, night, called, before, after, ratio in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        where = nights.cells[series]
        yield doc.SpeedView(
            cell=where.id,
            href=where.href,
            measure=measure,
            night=nights.nights[night],
            called=nights.nights[called],
            before=float(f"{before:.4g}"),
            after=float(f"{after:.4g}"),
            ratio=float(f"{ratio:.4g}"),
            kind=_kind(ratio),
        )


def newest(facts: Facts, limit: int) -> tuple[doc.SpeedView, ...]:
    """The steps that were called last, of all cells, the largest first within a night."""
    found = []
    for measure, judged in measures(facts):
        steps = judged.steps
        size = np.abs(np.log(steps.ratio))
        order = np.lexsort((steps.series, -size, -steps.called))[:limit]
        found += list(views(facts, measure, steps.take(order)))
    found.sort(key=lambda view: (view.called, abs(view.ratio - 1)), reverse=True)
    return tuple(found[:limit])


def by_cell(facts: Facts) -> dict[int, tuple[doc.SpeedView, ...]]:
    """The steps of each cell that has any, the newest first."""
    found: dict[int, list[doc.SpeedView]] = {}
    for measure, judged in measures(facts):
        series = judged.steps.series.tolist()
        for cell, view in zip(series, views(facts, measure, judged.steps), strict=True):
            found.setdefault(cell, []).append(view)
    return {
        cell: tuple(sorted(each, key=lambda view: (view.called, view.measure), reverse=True))
        for cell, each in found.items()
    }


def _kind(ratio: float) -> Literal["slower", "faster"]:
    return "slower" if ratio > 1 else "faster"
