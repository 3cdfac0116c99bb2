"""What was counted of each agent, for `levels`: from the record and the journal. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from orchestrator.fleet.levels import WINDOW_DAYS, Reliability
from orchestrator.fleet.misses import kind_of
from orchestrator.fleet.quarantine import Seen
from orchestrator.results.history.rows import epoch
from orchestrator.results.history.table import Ints, Table

_DAY_S = 86_400


@dataclass(kw_only=True)
class _Counts:
    """Of one agent."""

    days: set[int] = field(default_factory=set)
    """Numbers of days since 1970, in UTC, of the window."""
    last: int = 0
    """The last one, of all."""
    jobs: int = 0
    misses: int = 0
    health: list[bool] = field(default_factory=list)
    """Whether each health job of the window passed, the oldest first."""


def count(
    table: Table,
    journal: Iterable[Seen],
    now: dt.datetime,
    refusals: Mapping[str, int] | None = None,
) -> dict[str, Reliability]:
    """What was seen of each agent in the last `levels.WINDOW_DAYS` days, today included.

    A job is what one agent did of one run, stack and pool at a time: the record keeps attempts, and
    those of one number belong together. It was missed when any of them was, for something that
    speaks against the machine. Its day is the one on which its run began.

    Args:
        table: the record. Attempts without an agent are the orchestrator's own, and nobody's here.
        journal: of health jobs; see `quarantine`.
        now: aware of its time zone.
        refusals: bundles of each agent that were refused in that time.
    """
    today = int(now.timestamp()) // _DAY_S
    first = today - WINDOW_DAYS + 1
    found: dict[str, _Counts] = {}
    _attempts(table, first, today, found)
    for line in journal:
        day = int(dt.datetime.fromisoformat(line.at).timestamp()) // _DAY_S
        counts = found.setdefault(line.agent, _Counts())
        counts.last = max(counts.last, day)
        if first <= day <= today:
            counts.days.add(day)
            if line.event in ("healthy", "sick"):
                counts.health.append(line.event == "healthy")
    refused = refusals or {}
    for name in refused:
        found.setdefault(name, _Counts(last=today))
    return {
        name: Reliability(
            health_jobs=len(counts.health),
            health_failures=counts.health.count(False),
            health_failures_in_a_row=_in_a_row(counts.health),
            jobs=counts.jobs,
            misses=counts.misses,
            refusals=refused.get(name, 0),
            days=len(counts.days),
            silent_days=max(0, today - counts.last),
        )
        for name, counts in found.items()
    }


def _in_a_row(passed: list[bool]) -> int:
    """Failures since the last pass."""
    return passed[::-1].index(True) if True in passed else len(passed)


def _attempts(table: Table, first: int, today: int, found: dict[str, _Counts]) -> None:
    """Adds what the record says."""
    agents = table.texts["agent"]
    began = [epoch(record.started) // _DAY_S for record in table.runs]
    day = np.asarray(began or [0], np.int64)[table.run]
    tried = (table.numbers["attempt"] > 0) & (agents.codes != agents.code(""))
    for code in np.unique(agents.codes[tried]).tolist():
        mine = tried & (agents.codes == code)
        counts = found.setdefault(agents.values[code], _Counts())
        counts.last = int(day[mine].max())
    rows = np.flatnonzero(tried & (day >= first) & (day <= today)).astype(np.int32)
    if not len(rows):
        return
    key = np.stack(
        [
            agents.codes[rows],
            table.run[rows],
            table.texts["stack"].codes[rows],
            _pools(table)[rows],
            table.numbers["attempt"][rows].astype(np.int64),
        ]
    )
    jobs, of_row = np.unique(key, axis=1, return_inverse=True)
    missed = np.zeros(jobs.shape[1], np.bool_)
    np.logical_or.at(missed, of_row.reshape(-1), _own_misses(table, rows))
    for code, did in zip(jobs[0].tolist(), missed.tolist(), strict=True):
        counts = found[agents.values[code]]
        counts.jobs += 1
        counts.misses += did
    for code, number in np.unique(np.stack([agents.codes[rows], day[rows]]), axis=1).T.tolist():
        found[agents.values[code]].days.add(number)


def _pools(table: Table) -> Ints:
    """Shape (rows,): a number for each pool."""
    cells = table.texts["cell"]
    names: dict[str, int] = {}
    codes = [names.setdefault(cell.rpartition("@")[2], len(names)) for cell in cells.values]
    found: Ints = np.asarray(codes or [0], np.int32)[cells.codes]
    return found


def _own_misses(table: Table, rows: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Of some rows, those that are a `miss` that speaks against the machine."""
    status, phase, message = (table.texts[name] for name in ("status", "phase", "message"))
    own = np.zeros(len(rows), np.bool_)
    kinds: dict[tuple[int, int], bool] = {}
    for index in np.flatnonzero(status.codes[rows] == status.code("miss")).tolist():
        row = int(rows[index])
        key = int(phase.codes[row]), int(message.codes[row])
        if key not in kinds:
            kinds[key] = kind_of(phase.at(row), message.at(row)).own
        own[index] = kinds[key]
    return own
