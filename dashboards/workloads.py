"""A workload's page: the same program across all ways in and all pools."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.nights import is_verdict
from dashboards.tally import tally
from dashboards.texts import finite
from orchestrator.text import plural


def workload_pages(facts: Facts) -> Iterator[doc.WorkloadPage]:
    """One for each workload that results know, by name: pages of cells that are gone stay."""
    groups: dict[str, list[int]] = {}
    for index, cell in enumerate(facts.nights.cells):
        groups.setdefault(cell.workload, []).append(index)
    about = facts.declared.workloads if facts.declared else {}
    for name in sorted(groups):
        cells = facts.of_tonight(groups[name])
        yield doc.WorkloadPage(
            workload=name,
            about=about.get(name, ""),
            night=facts.night,
            counts=tally(facts, cells),
            ways=tuple(_way(facts, cell) for cell in cells),
            agreement=_agreement(facts, cells),
        )


def _way(facts: Facts, cell: int) -> doc.WayView:
    nights, last = facts.nights, facts.last
    row = int(nights.row[cell, last])
    return doc.WayView(
        cell=facts.ref(cell),
        variant=nights.cells[cell].variant,
        error=finite(float(nights.table.numbers["error"][row])) if row >= 0 else None,
        lowering=finite(float(nights.lowering[cell, last])),
        execute=finite(float(nights.execute[cell, last])),
    )


def _agreement(facts: Facts, cells: list[int]) -> str:
    """Whether all ways that were judged tonight come to the same numbers."""
    nights, last = facts.nights, facts.last
    judged = [c for c in cells if is_verdict(nights.status[c : c + 1, last])[0]]
    if not judged:
        return "No way was judged tonight."
    errors = nights.table.numbers["error"][nights.row[judged, last]]
    compared = errors[~np.isnan(errors)]
    off = int(np.count_nonzero(compared > 1))
    if not len(compared):
        return f"Nothing was compared on {plural(len(judged), 'way')} that {_were(judged)} judged."
    if off:
        return f"{off:,} of {plural(len(compared), 'way')} disagree with the golden."
    worst = float(compared.max())
    return (
        f"All {plural(len(compared), 'way')} that compared numbers agree with the golden; "
        f"the farthest used {worst:.1%} of its tolerance."
    )


def _were(cells: list[int]) -> str:
    return "was" if len(cells) == 1 else "were"
