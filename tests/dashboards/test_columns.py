"""What can be compared: nights, and the runs of a night that had several."""

from __future__ import annotations

from pathlib import Path

from dashboards.facts import Facts, Options
from dashboards.memory import Memory
from dashboards.nights import nights_of
from dashboards.series import cell_lists, columns, night_columns, night_list
from orchestrator.results.history.archive import Archive, RunRecord, table_of, write
from orchestrator.results.history.rows import Row
from orchestrator.results.history.source import find
from orchestrator.results.history.table import load

FIRST, SECOND, ALONE = "2026-05-01T02-00-00", "2026-05-01T09-00-00", "2026-05-02T02-00-00"


def facts(folder: Path) -> Facts:
    rows = [
        Row(run=FIRST, cell="p.a.f32@x", attempt=1, status="miss", message="lost"),
        Row(run=FIRST, cell="p.a.f32@x", attempt=2, status="fail", phase="compare"),
        Row(run=FIRST, cell="p.b.f32@x", attempt=1, status="pass"),
        Row(run=SECOND, cell="p.a.f32@x", attempt=1, status="pass"),
        Row(run=SECOND, cell="p.b.f32@x", attempt=0, status="skip", message="not here"),
        Row(run=ALONE, cell="p.a.f32@x", attempt=1, status="pass"),
    ]
    records = tuple(
        RunRecord(run=run, started=f"{run[:10]}T{run[11:].replace('-', ':')}Z")
        for run in (FIRST, SECOND, ALONE)
    )
    write(folder / "a.parquet", table_of(rows), Archive(runs=records))
    table = load(find(folder, folder / "cache", lambda _: None).sources)
    return Facts(nights_of(table), Options(), (), Memory(None, ""))


def test_runs_of_a_night_are_before_it_and_a_single_run_is_the_night(tmp_path: Path) -> None:
    known = facts(tmp_path)
    compared = tuple(columns(known))
    assert [each.name for each in compared] == [FIRST, SECOND, "2026-05-01", "2026-05-02"]
    lists = cell_lists(known, compared)
    entries = night_list(known, compared, lists.of_column).nights
    assert [dict(each.counts) for each in entries] == [
        {"fail": 1, "pass": 1},
        {"skip": 1, "pass": 1},
        # the skip of the second run hides nothing
        {"pass": 2},
        {"pass": 1},
    ]
    assert [each.runs for each in entries][2] == (FIRST, SECOND)


def test_columns_say_what_each_cell_came_to(tmp_path: Path) -> None:
    known = facts(tmp_path)
    compared = tuple(columns(known))
    lists = cell_lists(known, compared)
    first, second, night, _ = (
        night_columns(known, each, digest)
        for each, digest in zip(compared, lists.of_column, strict=True)
    )
    assert (first.statuses, second.statuses, night.statuses) == ("FP", "PS", "PP")
    assert first.phases[first.phase[0]] == "compare"
    assert second.messages[second.message[0]] == "not here"
    assert lists.lists[first.cells].cells == ("p.a.f32@x", "p.b.f32@x")
