"""The records of the sample's data."""

from __future__ import annotations

from typing import Any

from dashboards import documents as doc
from dashboards.nights import Cell
from orchestrator.results.alike import likeness
from tests.dashboards.pages.records import MONTHS, counts
from tests.dashboards.pages.records_other import trends
from tests.dashboards.pages.sample import AFTER, BEFORE, STARTED, cells, state


def data() -> dict[str, Any]:
    """What scripts load, by name."""
    found: dict[str, Any] = {
        "site": doc.SiteData(
            title="Lighthouse CI", night=AFTER, started=STARTED, expected_hours=26.0
        ),
        "nights": doc.NightList(
            nights=tuple(
                doc.NightEntry(
                    night=night, cells=f"list-{night}", counts=counts(night), runs=("r",)
                )
                for night in (BEFORE, AFTER)
            )
        ),
        "trends": trends(),
    }
    for night in (BEFORE, AFTER):
        found[f"night/{night}"] = columns(night)
        found[f"cells/list-{night}"] = cell_list(night)
    for group in sorted({cell.group for cell in cells()}):
        for month in MONTHS:
            found[f"history/{group}/{month}"] = history(group, month)
    return found


def present(night: str) -> list[Cell]:
    """Cells that have a row on a night."""
    return [cell for cell in cells() if state(cell, night)[0] != "none"]


def cell_list(night: str) -> doc.CellList:
    """Their ids."""
    mine = present(night)
    return doc.CellList(
        cells=tuple(cell.id for cell in mine),
        stacks=("pytorch", "pytorch-gpu"),
        stack=tuple(int(cell.pipeline == "pytorch_gpu") for cell in mine),
        tiers=("core", "peripheral"),
        tier=tuple(int(cell.pipeline == "pytorch_gpu") for cell in mine),
        hrefs={},
    )


def columns(night: str) -> doc.NightColumns:
    """What they came to."""
    states = [state(cell, night) for cell in present(night)]
    told = [(phase, message) for status, phase, message in states if status != "pass"]
    phases = tuple(dict.fromkeys(["", *(phase for phase, _ in told)]))
    messages = tuple(dict.fromkeys(["", *(message for _, message in told)]))
    return doc.NightColumns(
        night=night,
        cells=f"list-{night}",
        statuses="".join(doc.LETTERS[status] for status, _, _ in states),
        phases=phases,
        messages=messages,
        alike=tuple(map(likeness, messages)),
        phase=tuple(phases.index(phase) for phase, _ in told),
        message=tuple(messages.index(message) for _, message in told),
    )


def history(group: str, month: str) -> doc.History:
    """Twenty nights of a month."""
    nights = tuple(f"{month}-{day:02d}" for day in range(1, 21))
    steady: doc.Column = tuple(0.010 + 0.001 * (n % 3) for n in range(20))
    few: doc.Column = tuple(None if n < 5 else value for n, value in enumerate(steady))
    series = doc.Series(
        statuses="PPPFPPMPPEPPSPPxPPX-",
        attempts=tuple(2 if n == 6 else 1 for n in range(20)),
        error=tuple((0.4, 0.0, 3.5, 1e9, 5e-324, None)[n % 6] for n in range(20)),
        lowering=steady,
        execute=steady,
        stages={"ingress": steady, "lower:vectorize": steady, "execute": few},
        low=tuple(None if value is None else 0.009 for value in few),
        high=tuple(None if value is None else 0.014 for value in few),
    )
    keys = [cell.key for cell in cells() if cell.group == group]
    return doc.History(month=month, nights=nights, series=dict.fromkeys(keys, series))
