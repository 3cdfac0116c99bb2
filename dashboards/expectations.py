"""Expected failures: how old, whose, and which have quietly become green."""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Iterable
from fnmatch import translate

import numpy as np

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.nights import PASS, XFAIL, XPASS, is_verdict
from orchestrator.results.declared import DeclaredExpectation

_LITERAL = re.compile(r"[^*?\[]*")
_ORDER = ("green", "expired", "partly", "unmatched", "no data", "met")


def expectations_page(facts: Facts) -> doc.ExpectationsPage:
    """All that is declared; those that want attention first."""
    declared = facts.declared.expectations if facts.declared else ()
    found = [_view(facts, each) for each in declared]
    found.sort(key=lambda each: (_ORDER.index(each.state), each.expires, each.cells))
    return doc.ExpectationsPage(night=facts.night, expectations=tuple(found))


def _view(facts: Facts, each: DeclaredExpectation) -> doc.ExpectationView:
    mine = _matching(facts, each.cells)
    column = facts.nights.status[:, facts.last]
    judged = [cell for cell in mine if is_verdict(column[cell : cell + 1])[0]]
    met = [cell for cell in judged if column[cell] == XFAIL]
    well = [cell for cell in judged if column[cell] in (XPASS, PASS)]
    other = [cell for cell in judged if cell not in met and cell not in well]
    return doc.ExpectationView(
        cells=each.cells,
        status=each.status,
        phase=each.phase,
        match=each.match,
        reason=each.reason,
        issue=each.issue,
        owner=each.owner,
        since=each.since,
        expires=each.expires,
        age_days=_days(each.since, facts.night),
        state=_state(facts, each, mine, judged, well),
        green_since=_green_since(facts, well) if well and len(well) == len(judged) else "",
        met=facts.refs(met),
        well=facts.refs(well),
        other=facts.refs(other),
    )


def _matching(facts: Facts, glob: str) -> list[int]:
    """The cells of tonight that a glob names; cells are in the order of their ids."""
    cells = facts.nights.cells
    begins = _LITERAL.match(glob)
    start = begins[0] if begins else ""
    matches = re.compile(translate(glob)).match
    found = []
    for index in range(bisect_left(cells, start, key=lambda cell: cell.id), len(cells)):
        if not cells[index].id.startswith(start):
            break
        if facts.expected[index] and matches(cells[index].id):
            found.append(index)
    return found


def _state(
    facts: Facts, each: DeclaredExpectation, mine: list[int], judged: list[int], well: list[int]
) -> doc.ExpectationState:
    if not mine:
        return "unmatched"
    if judged and len(well) == len(judged):
        return "green"
    if each.expires < facts.night:
        return "expired"
    if not judged:
        return "no data"
    return "partly" if well else "met"


def _green_since(facts: Facts, cells: Iterable[int]) -> str:
    """The first night from which on all of them passed whenever they were judged."""
    status = facts.nights.status[list(cells)]
    bad = (is_verdict(status) & (status != PASS) & (status != XPASS)).any(axis=0)
    last_bad = np.flatnonzero(bad)
    first = int(last_bad[-1]) + 1 if len(last_bad) else 0
    return facts.nights.nights[first]


def _days(since: str, night: str) -> int:
    try:
        return max(0, (dt.date.fromisoformat(night) - dt.date.fromisoformat(since)).days)
    except ValueError:
        return 0
