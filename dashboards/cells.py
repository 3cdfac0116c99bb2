"""A cell's page: its states, and everything about the last attempt that did not pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.kinds import kind
from dashboards.nights import MISS, NONE, PASS, STATUSES, XFAIL, is_red, is_verdict
from dashboards.speed import by_cell
from dashboards.texts import one_line
from orchestrator import records
from orchestrator.compare.numeric import details
from orchestrator.compare.picture import BINS
from orchestrator.health.evidence import Evidence
from orchestrator.job import OutputError, StageTime
from orchestrator.results.changes import Change, Surroundings, changes
from orchestrator.results.history.rows import unpack
from orchestrator.results.history.table import Ints, Table

_TRANSITIONS = 60
_LAST_WORDS = 20_000
_LONG = 2_000
_MOST_LINES = 200
_GRID = 64


def cell_pages(facts: Facts) -> Iterator[doc.CellPage]:
    """One for each cell that results know, by id."""
    steps = by_cell(facts)
    attempts = _attempts(facts)
    flaky = flaky_views(facts)
    months = _months(facts)
    transitions = _transitions(facts)
    nights, last = facts.nights, facts.last
    newest = nights.row[np.arange(len(nights.cells)), nights.known_night[:, last]].tolist()
    commands = nights.table.read("reproduce", newest)
    for index, cell in enumerate(nights.cells):
        # of a cell that is gone tonight: what it said when it was last there
        known = int(nights.known_night[index, last])
        status = int(nights.status[index, last])
        yield doc.CellPage(
            cell=cell.id,
            pipeline=cell.pipeline,
            workload=cell.workload,
            variant=cell.variant,
            pool=cell.pool,
            declared=bool(facts.expected[index]),
            speed=steps.get(index, ()),
            flaky=flaky.get(index),
            attempt=attempts.get(index),
            months=months[cell.group],
            transitions=transitions.get(index, ()),
            status=STATUSES[status],
            phase=nights.text("phase", index, last),
            message="" if status == PASS else nights.text("message", index, last)[:_LONG],
            since=nights.nights[int(facts.since[index])],
            tier=nights.text("tier", index, known) or "core",
            stack=nights.text("stack", index, known),
            reproduce=commands[newest[index]],
        )


def flaky_views(facts: Facts) -> dict[int, doc.FlakyView]:
    """Flaky cells, the worst first."""
    flaky, nights = facts.flaky, facts.nights
    return {
        int(cell): doc.FlakyView(
            cell=nights.cells[cell].id,
            href=nights.cells[cell].href,
            flakes=int(flaky.flakes[cell]),
            trials=int(flaky.trials[cell]),
            rate=round(float(flaky.rate[cell]), 4),
            lower_bound=round(float(flaky.lower[cell]), 4),
            last=nights.nights[facts.flaky_night(int(cell))],
        )
        for cell in flaky.ranking
    }


def _months(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Of each group: the months in which one of its cells has a row."""
    nights = facts.nights
    months = tuple(night[:7] for night in nights.nights)
    groups: dict[str, list[int]] = {}
    for index, cell in enumerate(nights.cells):
        groups.setdefault(cell.group, []).append(index)
    return {
        group: tuple(
            dict.fromkeys(
                months[night] for night in np.flatnonzero((nights.row[cells] >= 0).any(axis=0))
            )
        )
        for group, cells in groups.items()
    }


# --- states ------------------------------------------------------------------------------------


def _changed(facts: Facts) -> NDArray[np.bool_]:
    """Matrix: on this night the cell came into another state than it was in before."""
    nights = facts.nights
    changed = np.zeros(nights.status.shape, dtype=np.bool_)
    if len(nights.nights):
        changed[:, 0] = nights.status[:, 0] != NONE
        changed[:, 1:] = nights.state[:, 1:] != nights.state[:, :-1]
    return changed


def _transitions(facts: Facts) -> dict[int, tuple[doc.Transition, ...]]:
    """Of each cell, the newest first; how long a state lasted counts nights that happened."""
    nights = facts.nights
    cells, at = np.nonzero(_changed(facts))
    earlier = np.maximum(at - 1, 0)
    judged, known = nights.verdict_night[cells, earlier], nights.known_night[cells, earlier]
    before = np.where(at > 0, np.where(judged >= 0, judged, known), -1)
    status = nights.status[cells, at]
    was = np.where(before >= 0, nights.status[cells, before], np.int8(NONE))
    alike = nights.state[cells, before] == nights.state[cells, at]
    follows = np.append(cells[1:] == cells[:-1], [False])[: len(cells)]
    lasted = np.where(follows, np.append(at[1:], [0])[: len(at)] - at, 0)
    columns = (cells, at, status, was, alike & (before >= 0), before >= 0, lasted)
    found: dict[int, list[doc.Transition]] = {}
    for (cell, night, now, then, same, after, nights_), said in zip(
        zip(*(column.tolist() for column in columns), strict=True),
        _said(facts, nights.row[cells, at], status != PASS),
        strict=True,
    ):
        what: doc.TransitionKind = kind(then, now, same) or "same" if after else "first"
        run, phase, message = said
        each = doc.Transition(
            night=nights.nights[night],
            run=run,
            status=STATUSES[now],
            phase=phase,
            message=message,
            kind=what,
            nights=nights_ or None,
        )
        found.setdefault(cell, []).append(each)
    return {cell: tuple(reversed(each[-_TRANSITIONS:])) for cell, each in found.items()}


def _said(facts: Facts, rows: Ints, told: NDArray[np.bool_]) -> Iterator[tuple[str, str, str]]:
    """Run, phase and message of some rows (-1: there is none), the latter two where they are
    told; each distinct text is made ready once.
    """
    table = facts.nights.table
    runs = [record.run for record in table.runs]
    phases, messages = table.texts["phase"], table.texts["message"]
    short = cache(lambda code: one_line(messages.values[code]))
    columns = (rows >= 0, told, table.run[rows], phases.codes[rows], messages.codes[rows])
    for there, tell, run, phase, message in zip(*(c.tolist() for c in columns), strict=True):
        if not there:
            yield "", "", ""
        elif not tell:
            yield runs[run], "", ""
        else:
            yield runs[run], phases.values[phase], short(message)


# --- the last attempt that did not pass --------------------------------------------------------


def _attempts(facts: Facts) -> dict[int, doc.Attempt]:
    """Of each cell that is red, expected to be, or missed tonight."""
    nights, last = facts.nights, facts.last
    if not nights.nights:
        return {}
    column = nights.status[:, last]
    told = is_red(column) | (column == XFAIL) | (column == STATUSES.index("miss"))
    cells = np.flatnonzero(told).tolist()
    rows = nights.row[cells, last].tolist()
    turns = [_turn(facts, cell) for cell in cells]
    around = [int(nights.row[c, n]) for c, turn in zip(cells, turns, strict=True) for n in turn]
    texts = nights.table.read("details", rows)
    content = nights.table.read("content", [*rows, *around])

    def at(row: int) -> Surroundings:
        return surroundings(nights.table, row, content[row])

    return {
        cell: _attempt(facts, cell, turn, unpack(texts[row]), at)
        for cell, row, turn in zip(cells, rows, turns, strict=True)
    }


def _attempt(
    facts: Facts,
    cell: int,
    turn: tuple[int, int] | tuple[()],
    found: Mapping[str, object],
    at: Callable[[int], Surroundings],
) -> doc.Attempt:
    """`turn`: see `_turn`; `at` gives what was around the attempt of a row."""
    nights, last = facts.nights, facts.last
    row = int(nights.row[cell, last])
    here = at(row)
    differs = changes(*(at(int(nights.row[cell, night])) for night in turn)) if turn else ()
    return doc.Attempt(
        run=nights.table.runs[int(nights.table.run[row])].run,
        night=nights.nights[last],
        number=int(nights.table.numbers["attempt"][row]),
        agent=nights.text("agent", cell, last),
        expectation=nights.text("expectation", cell, last),
        notes=_strings(found.get("notes")),
        last_green=nights.nights[turn[0]] if turn else "",
        first_bad=nights.nights[turn[1]] if turn else "",
        changes=tuple(_change(each) for each in differs),
        errors=tuple(_errors(found.get("errors"))),
        evidence=(
            *_strings(found.get("blame")),
            *(one_line(piece.text) for piece in _records(Evidence, found.get("evidence"))),
        ),
        stages=tuple(
            doc.StageView(stage=one_line(s.stage), seconds=s.seconds, exit=one_line(s.exit))
            for s in _records(StageTime, found.get("stages"))
        ),
        last_words=str(found.get("last_words") or "")[-_LAST_WORDS:],
        versions={one_line(k): one_line(str(v)) for k, v in here.versions.items()},
        hardware={one_line(k): one_line(str(v)) for k, v in here.hardware.items()},
        environment=here.environment,
    )


def _change(change: Change) -> doc.ChangeView:
    return doc.ChangeView(
        what=one_line(change.what), before=one_line(change.before), after=one_line(change.after)
    )


def _turn(facts: Facts, cell: int) -> tuple[int, int] | tuple[()]:
    """The last night on which a cell passed, and the first after it on which it did not: what
    differs between them is what can have turned it. Empty: it never passed.
    """
    column = facts.nights.status[cell, : facts.last + 1]
    green = np.flatnonzero(column == PASS)
    if not len(green):
        return ()
    last = int(green[-1])
    later = column[last + 1 :]
    bad = np.flatnonzero(is_verdict(later) if is_verdict(later).any() else later == MISS)
    return last, last + 1 + int(bad[0])


def surroundings(table: Table, row: int, content: str) -> Surroundings:
    """What an attempt says of where and with what it ran; nothing, where it cannot be read."""
    found = {**unpack(table.texts["surroundings"].at(row)), **unpack(content)}
    try:
        return records.decode(Surroundings, {**found, "agent": table.texts["agent"].at(row)})
    except records.RecordError:
        return Surroundings()


def _errors(found: object) -> Iterator[doc.ErrorView]:
    for error in _records(OutputError, found):
        head, *rest = details(error) or ("",)
        yield doc.ErrorView(
            title=one_line(head),
            lines=tuple(one_line(line) for line in rest),
            # of other numbers of bins nobody knows what they mean
            histogram=tuple(zip(BINS, error.histogram, strict=False))
            if len(error.histogram) == len(BINS)
            else (),
            picture=_grid(error.picture),
        )


def _grid(picture: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Within its bounds: what other machines send may be anything."""
    width = len(picture[0]) if picture else 0
    good = len(picture) <= _GRID and 0 < width <= _GRID
    if not good or any(len(row) != width for row in picture):
        return ()
    return tuple(tuple(min(max(value, 0), 100) for value in row) for row in picture)


def _records(kind: type[records.T], found: object) -> Iterator[records.T]:
    """Those of a list that are what they should be."""
    for each in found if isinstance(found, list) else ():
        try:
            yield records.decode(kind, each)
        except records.RecordError:
            continue


def _strings(found: object) -> tuple[str, ...]:
    if not isinstance(found, list):
        return ()
    return tuple(one_line(str(each)) for each in found[:_MOST_LINES])
