"""The newest night as a page: what is new, in order of weight, and what is not known."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import numpy as np

from dashboards import documents as doc
from dashboards.agents import sick_agents
from dashboards.facts import FEW, Facts
from dashboards.nights import MISS, NONE, SKIP, STATUSES, XPASS, slug
from dashboards.speed import called_on
from dashboards.tally import tally
from dashboards.texts import one_line
from orchestrator.results.alike import normalised
from orchestrator.results.history.archive import RunRecord
from orchestrator.text import plural

_ORDER: tuple[doc.NewsKind, ...] = (
    *("regression", "new-failure", "xpass", "vanished", "fixed", "flaky", "still-failing"),
    *("slower", "faster", "new-pass"),
)


def tonight(facts: Facts) -> doc.TonightPage:
    """The page of the newest night; without any results, one that says so."""
    nights, last = facts.nights, facts.last
    empty = not nights.nights
    pools = () if empty else _pools(facts)
    return doc.TonightPage(
        night=facts.night,
        started=facts.started,
        expected_hours=facts.options.expected_hours,
        previous=facts.previous,
        runs=() if empty else tuple(_head(run) for run in nights.runs[last]),
        counts={} if empty else nights.counts(last),
        counts_before=nights.counts(last - 1) if last > 0 else {},
        alarms=tuple(_alarms(facts)),
        pools=pools,
        matrix=() if empty else tuple(_matrix(facts, pools)),
        news=() if empty else tuple(_news(facts)),
        agents=() if empty else sick_agents(facts),
        nodata=() if empty else tuple(_nodata(facts)),
    )


def _head(run: RunRecord) -> doc.RunHead:
    return doc.RunHead(
        run=run.run,
        started=run.started,
        ended=run.ended,
        seconds=run.seconds,
        engine=run.engine,
        version=run.version,
        selection=run.selection,
    )


# --- what makes the whole night doubtful -------------------------------------------------------


def _alarms(facts: Facts) -> Iterator[doc.Alarm]:
    for problem in facts.problems[:FEW]:
        yield doc.Alarm(kind="damaged", text=one_line(problem))
    if not facts.nights.nights:
        return
    runs = facts.nights.runs[facts.last]
    for run in runs:
        if run.ended is None:
            text = f"run {run.run} has no end: it was stopped, or is still running"
            yield doc.Alarm(kind="stopped", text=text)
    # whoever runs a part of the matrix by hand misses no night and no cell
    if any(not run.selection for run in runs) and facts.last:
        yield from _compared(facts)
    for agent in sick_agents(facts):
        text = f"{agent.agent}: {agent.misses} of {plural(agent.attempts, 'attempt')} missed"
        yield doc.Alarm(kind="sick-agent", text=f"{text}, since {agent.since}: {agent.why}")


def _compared(facts: Facts) -> Iterator[doc.Alarm]:
    now, before = (attempted(facts, night) for night in (facts.last, facts.last - 1))
    if now < before:
        text = f"{plural(now, 'cell')} ran, {before - now:,} fewer than on {facts.previous}"
        yield doc.Alarm(kind="fewer-cells", text=text)
    missing = days_between(facts.previous, facts.night)
    if missing:
        shown = ", ".join(missing[:FEW]) + (", …" if len(missing) > FEW else "")
        yield doc.Alarm(kind="missed-night", text=f"nothing ran on {shown}")


def attempted(facts: Facts, night: int) -> int:
    """How many cells were tried on a night."""
    column = facts.nights.status[:, night]
    return int(np.count_nonzero((column != NONE) & (column != SKIP)))


def days_between(first: str, last: str) -> list[str]:
    """The days after one and before another."""
    start, end = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    return [(start + dt.timedelta(days=n)).isoformat() for n in range(1, (end - start).days)]


# --- the matrix --------------------------------------------------------------------------------


def _pools(facts: Facts) -> tuple[str, ...]:
    """Of tonight's cells, in the matrix's order."""
    present = {facts.nights.cells[i].pool for i in np.flatnonzero(facts.expected)}
    order = list(facts.declared.pools) if facts.declared else []
    return tuple([p for p in order if p in present] + sorted(present - set(order)))


def _matrix(facts: Facts, pools: tuple[str, ...]) -> Iterator[doc.MatrixGroup]:
    groups: dict[str, dict[str, list[int]]] = {}
    for index in np.flatnonzero(facts.expected):
        cell = facts.nights.cells[index]
        groups.setdefault(cell.pipeline, {}).setdefault(cell.pool, []).append(int(index))
    declared = facts.declared.pipelines if facts.declared else {}
    order = [name for name in declared if name in groups]
    for name in order + sorted(set(groups) - set(order)):
        about = declared.get(name)
        yield doc.MatrixGroup(
            pipeline=name,
            about=about.about if about else "",
            tier=about.tier if about else "core",
            href=f"pipelines/{slug(name)}.html",
            tallies=tuple(_tally(facts, pool, groups[name].get(pool, [])) for pool in pools),
        )


def _tally(facts: Facts, pool: str, cells: list[int]) -> doc.Tally | None:
    if not cells:
        return None
    counts = tally(facts, cells)
    return doc.Tally(
        pool=pool,
        counts=counts,
        worst=facts.worst(counts),
        phase=facts.first_bad(np.asarray(cells, dtype=np.int32)),
        worse=sum(facts.kinds[cell] in ("regression", "new-failure") for cell in cells),
    )


# --- what is new -------------------------------------------------------------------------------


def _news(facts: Facts) -> Iterator[doc.News]:
    """Cells with the same news together; the weightiest first, core before peripheral."""
    groups: dict[tuple[doc.NewsKind, str, str, str], list[int]] = {}
    for kind, cell in items(facts):
        where = facts.nights.cells[cell]
        phase, message = ("", "")
        if kind in ("regression", "new-failure", "still-failing"):
            phase = facts.nights.text("phase", cell, facts.last)
            message = normalised(facts.nights.text("message", cell, facts.last))
        groups.setdefault((kind, where.pipeline, phase, message), []).append(cell)

    def weight(item: tuple[tuple[doc.NewsKind, str, str, str], list[int]]) -> tuple[object, ...]:
        (kind, *rest), cells = item
        aside = all(facts.ref(cell).tier != "core" for cell in cells[:FEW])
        return _ORDER.index(kind), aside, -len(cells), rest

    for (kind, pipeline, phase, _), cells in sorted(groups.items(), key=weight):
        yield doc.News(
            kind=kind,
            text=_sentence(facts, kind, pipeline, phase, cells),
            cells=facts.refs(cells),
            total=len(cells),
            before=_before(facts, cells[0]),
        )


def items(facts: Facts) -> Iterator[tuple[doc.NewsKind, int]]:
    """What is new, cell by cell: the kind, and the cell's index."""
    last = facts.last
    for index, kind in enumerate(facts.kinds):
        if kind in ("regression", "new-failure", "still-failing"):
            xpass = facts.nights.status[index, last] == XPASS
            yield ("xpass" if xpass and kind != "still-failing" else kind), index
        elif kind in ("fixed", "new-pass") and last:
            yield kind, index
    for cell in facts.vanished:
        yield "vanished", int(cell)
    for cell in facts.flaky.ranking:
        if facts.flaky_night(int(cell)) == last:
            yield "flaky", int(cell)
    for cell, direction in called_on(facts, last):
        yield direction, cell


def _before(facts: Facts, cell: int) -> str:
    night = int(facts.verdict_before[cell])
    return STATUSES[int(facts.nights.status[cell, night])] if night >= 0 else "none"


def _sentence(facts: Facts, kind: doc.NewsKind, pipeline: str, phase: str, cells: list[int]) -> str:
    many = f"{plural(len(cells), 'cell')} of {pipeline}"
    status = STATUSES[int(facts.nights.status[cells[0], facts.last])]
    since = facts.nights.nights[int(facts.since[cells[0]])]
    be = "is" if len(cells) == 1 else "are"
    green = int(facts.verdict_before[cells[0]])
    was = f", green on {facts.nights.nights[green]}" if green >= 0 else ""
    return {
        "regression": f"{many} {be} {status} in {phase}{was}",
        "new-failure": f"{many} {be} {status} in {phase}, in a way that is new",
        "still-failing": f"{many} {be} still {status} in {phase}, since {since}",
        "xpass": f"{many} passed where matrix.yaml expects a failure",
        "vanished": f"{many} {'has' if len(cells) == 1 else 'have'} no data, unlike before",
        "fixed": f"{many} {be} green again",
        "flaky": f"{many} passed and failed though nothing that could matter differed",
        "slower": f"{many} became slower",
        "faster": f"{many} became faster",
        "new-pass": f"{many} {be} green for the first time, or after a gap",
    }[kind]


# --- what has no data --------------------------------------------------------------------------


def _nodata(facts: Facts) -> Iterator[doc.NoData]:
    """Together by pool, pipeline, status and reason; reasons that differ in numbers are one."""
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    column = facts.nights.status[:, facts.last]
    for index in np.flatnonzero(facts.expected & (column <= MISS)):
        cell, why = facts.nights.cells[index], normalised(_why(facts, int(index)))
        key = (cell.pool, cell.pipeline, STATUSES[int(column[index])], why)
        groups.setdefault(key, []).append(int(index))
    for (pool, pipeline, status, _), cells in sorted(
        groups.items(), key=lambda item: (item[0][2] == "skip", -len(item[1]), item[0])
    ):
        since = min(int(facts.since[cell]) for cell in cells)
        yield doc.NoData(
            pool=pool,
            pipeline=pipeline,
            status=status,
            total=len(cells),
            since=facts.nights.nights[since] if (facts.verdict_before[cells] >= 0).any() else "",
            why=one_line(_why(facts, cells[0])),
            cells=facts.refs(cells),
        )


def _why(facts: Facts, cell: int) -> str:
    if facts.nights.row[cell, facts.last] < 0:
        return "declared, and no run of this night has it"
    return facts.nights.text("message", cell, facts.last)
