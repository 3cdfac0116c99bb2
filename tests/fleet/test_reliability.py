"""What is counted of agents."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from orchestrator.fleet.levels import Reliability
from orchestrator.fleet.quarantine import Event, Seen
from orchestrator.fleet.reliability import count
from orchestrator.results.history.archive import Archive, RunRecord, table_of, write
from orchestrator.results.history.rows import Row
from orchestrator.results.history.source import find
from orchestrator.results.history.table import Table, load

NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
LOST = {"status": "miss", "message": "lab was lost"}
PULLED = {"status": "miss", "message": "failed to pull"}


def attempt(days: int, agent: str = "a", **changed: Any) -> Row:
    run = f"{(NOW - dt.timedelta(days=days)).date()}T02-00-00"
    values = {"attempt": 1, "status": "pass", "cell": "p.w.f32@x", "stack": "s", **changed}
    return Row(run=run, agent=agent, **values)


def history(folder: Path, *attempts: Row) -> Table:
    def record(run: str) -> RunRecord:
        day, _, time = run.partition("T")
        started = f"{day}T{time.replace('-', ':')}Z"
        return RunRecord(
            run=run,
            started=started,
            ended=None,
            seconds=0.0,
            engine="docker",
            version="1",
            selection=(),
            cells=1,
            declared="",
        )

    runs = tuple(record(run) for run in sorted({each.run for each in attempts}))
    write(folder / "a.parquet", table_of(attempts), Archive(runs=runs))
    return load(find(folder, folder / "cache", lambda _: None).sources)


def line(event: Event, days: int) -> Seen:
    return Seen(agent="a", event=event, at=(NOW - dt.timedelta(days=days)).isoformat())


def test_jobs_are_attempts_of_one_run_stack_pool_and_number(tmp_path: Path) -> None:
    table = history(
        tmp_path,
        attempt(0),
        attempt(0, cell="p.v.f32@x"),
        attempt(0, cell="p.v.f32@y"),
        attempt(0, stack="t"),
        attempt(0, attempt=2),
        attempt(1),
        attempt(0, agent="b"),
        attempt(0, agent=""),
        attempt(0, agent="c", attempt=0, status="skip"),
    )
    found = count(table, [], NOW)
    assert found == {"a": Reliability(jobs=5, days=2), "b": Reliability(jobs=1, days=1)}


def test_misses_are_those_that_speak_against_the_machine(tmp_path: Path) -> None:
    table = history(
        tmp_path,
        attempt(0, **LOST),
        attempt(0, cell="p.v.f32@x"),
        attempt(1, **PULLED),
        attempt(2, status="fail"),
        attempt(3, agent="b", **LOST),
        attempt(3, agent="b", cell="p.v.f32@x", **LOST),
    )
    found = count(table, [], NOW)
    assert (found["a"].jobs, found["a"].misses) == (3, 1)
    assert (found["b"].jobs, found["b"].misses) == (1, 1)


@pytest.mark.parametrize(("days", "counts"), [(0, True), (29, True), (30, False), (-1, False)])
def test_the_window(tmp_path: Path, days: int, counts: bool) -> None:
    seen = count(history(tmp_path, attempt(days)), [line("sick", days)], NOW)["a"]
    assert (seen.jobs, seen.days, seen.health_jobs) == ((1,) * 3 if counts else (0,) * 3)
    assert seen.silent_days == max(0, days)


def test_health_jobs_come_from_the_journal(tmp_path: Path) -> None:
    table = history(tmp_path, attempt(9))
    lines = [line("sick", 8), line("healthy", 7), line("sick", 6), line("missed", 5)]
    seen = count(table, [*lines, line("sick", 4), line("worked", 3)], NOW)["a"]
    assert (seen.health_jobs, seen.health_failures, seen.health_failures_in_a_row) == (4, 3, 2)
    assert (seen.days, seen.silent_days) == (7, 3)
    assert count(table, [line("sick", 1)] * 3, NOW)["a"].health_failures_in_a_row == 3


def test_refusals_are_told_from_outside(tmp_path: Path) -> None:
    found = count(history(tmp_path, attempt(0)), [], NOW, {"a": 2, "new": 1})
    assert found["a"] == Reliability(jobs=1, days=1, refusals=2)
    assert found["new"] == Reliability(refusals=1)


def test_no_results(tmp_path: Path) -> None:
    assert count(load(()), [], NOW) == {}
