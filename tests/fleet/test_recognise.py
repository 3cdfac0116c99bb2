"""Failures that are not news."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from orchestrator.fleet.recognise import (
    VERDICTS,
    Recognised,
    Sighting,
    from_runs,
    from_table,
    recognise,
    sighting,
)
from orchestrator.results.store import Runs
from tests.fleet.test_reliability import attempt, history
from tests.results.test_store import result

CELL = "p.w.f32@x"
FAILED = Sighting(
    run="r50", started=50, cell=CELL, status="fail", phase="compare", message="wrong: # of #"
)


def past(word: str, cell: str = CELL, start: int = 1) -> list[Sighting]:
    """A night for each letter: `f` this failure, `o` another, `.` a pass, `m` a miss."""
    ends: dict[str, dict[str, Any]] = {
        "f": {},
        "o": {"message": "otherwise"},
        "p": {"phase": "execute"},
        "e": {"status": "error"},
        ".": {"status": "pass", "phase": "", "message": ""},
        "m": {"status": "miss"},
        "s": {"status": "skip"},
    }
    return [
        dataclasses.replace(FAILED, run=f"r{n}", started=n, cell=cell, **ends[letter])
        for n, letter in enumerate(word, start)
    ]


@pytest.mark.parametrize(
    ("word", "kind", "since", "times", "spells"),
    [
        ("", "new", "", 0, 0),
        ("....", "new", "", 0, 0),
        ("..o", "new", "", 0, 0),
        ("p", "new", "", 0, 0),
        ("e", "new", "", 0, 0),
        ("..f", "known", "r3", 1, 1),
        ("..ff", "known", "r3", 2, 1),
        ("f..ff", "known", "r4", 2, 2),
        ("..ffmms", "known", "r3", 2, 1),
        ("..fmf", "known", "r3", 2, 1),
        ("..f.", "recurring", "r3", 1, 1),
        (".ff.f..", "recurring", "r2", 3, 2),
        ("fo", "recurring", "r1", 1, 1),
    ],
)
def test_before(word: str, kind: Any, since: str, times: int, spells: int) -> None:
    expected = Recognised(kind=kind, since=since, times=times, spells=spells)
    assert recognise(FAILED, past(word)) == expected
    assert recognise(FAILED, reversed(past(word))) == expected


def test_what_came_later_and_itself_do_not_count() -> None:
    assert recognise(FAILED, [FAILED, *past("ff", start=51)]).kind == "new"


def test_what_is_long_ago_does_not_count() -> None:
    late = dataclasses.replace(FAILED, run="r900", started=900)
    assert recognise(late, past("f" + "." * VERDICTS)).kind == "new"
    assert recognise(late, past("f" + "." * (VERDICTS - 1))).kind == "recurring"


def test_elsewhere_is_the_last_verdict_of_each_pool() -> None:
    others = [
        *past(".f", "p.w.f32@b"),
        *past("f.", "p.w.f32@c"),
        *past("fm", "p.w.f32@d"),
        *past("f", "p.w.f32@a", start=60),
        *past("f", "p.v.f32@e"),
        *past("f"),
    ]
    assert recognise(FAILED, others).elsewhere == ("a", "b", "d")


def test_words() -> None:
    assert recognise(FAILED, []).lines() == ()
    assert recognise(FAILED, past("ff")).lines() == (
        "known: it fails like this since r1 (2 verdicts)",
    )
    found = recognise(FAILED, [*past("f."), *past("f", "p.w.f32@b")])
    assert found.lines() == (
        "recurring: it failed like this and went away before, 1 time, first in r1",
        "the same in b",
    )


def test_a_result_as_a_sighting_has_no_paths_and_numbers() -> None:
    made = result(CELL, status="xfail", phase="compare", message="/tmp/a/b.mlir: 3 of 4 wrong")
    assert sighting(made).message == "#: # of # wrong"
    assert sighting(made).status == "fail"
    assert sighting(made).pool == "x"


def test_from_runs(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    for night in range(3):
        moment = dt.datetime(2026, 11, 18 + night, 21, tzinfo=dt.UTC)
        run = runs.create(moment)
        started = moment.isoformat()
        for cell in (CELL, "p.w.f32@y", "p.ww.f32@x"):
            run.add(result(cell, run=run.name, status="fail", message=f"{night}", started=started))
        run.add(result(CELL, attempt=2, run=run.name, status="pass", started=started))
    (run.folder / "results" / "p.w.f32@z.1.json").write_text("{")
    found = list(from_runs(runs, CELL, most=2))
    assert [(each.run[:10], each.cell, each.status) for each in found] == [
        ("2026-11-20", CELL, "pass"),
        ("2026-11-20", "p.w.f32@y", "fail"),
        ("2026-11-19", CELL, "pass"),
        ("2026-11-19", "p.w.f32@y", "fail"),
    ]


def test_from_a_history(tmp_path: Path) -> None:
    wrong = {"status": "xfail", "phase": "compare", "message": "3 of 4"}
    table = history(
        tmp_path,
        attempt(1, cell=CELL, status="miss"),
        attempt(1, cell=CELL, attempt=2, **wrong),
        attempt(0, cell="p.w.f32@y", **wrong),
        attempt(0, cell="p.v.f32@x", **wrong),
        attempt(0, cell=CELL, attempt=0, status="skip"),
    )
    found = sorted(from_table(table, [CELL]), key=lambda each: each.started)
    assert [(each.cell, each.status, each.message) for each in found] == [
        (CELL, "fail", "# of #"),
        ("p.w.f32@y", "fail", "# of #"),
    ]
    failure = dataclasses.replace(found[0], run="now", started=found[1].started + 1)
    assert recognise(failure, found) == Recognised(
        kind="known", since=found[0].run, times=1, spells=1, elsewhere=("y",)
    )
