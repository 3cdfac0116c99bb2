"""The judgement of faults can fail: records that say what they must not."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.fleet.misses import Kind
from orchestrator.results.store import Run
from tests.faults.judging import Aftermath, complaints
from tests.results.test_store import result

PLANNED = ("a", "b")
LOST = "lab-1 was lost"


def add(run: Run, cell: str, attempt: int, status: str = "pass", message: str = "") -> None:
    run.add(result(cell, attempt, status=status, message=message))


@pytest.fixture
def after(tmp_path: Path) -> Aftermath:
    """A fault that was taken well: one cell was missed once."""
    run = Run(tmp_path / "run")
    add(run, "a", 1, "miss", LOST)
    add(run, "a", 2)
    add(run, "b", 1)
    return Aftermath(run=run, planned=PLANNED, codes=(4, 0), kind=Kind.LOST)


def test_a_fault_that_was_taken_well_is_no_complaint(after: Aftermath) -> None:
    assert complaints(after) == []


def test_all_is_well_without_a_miss_where_none_is_expected(after: Aftermath) -> None:
    (after.run.folder / "results/a.1.json").unlink()
    (after.run.folder / "results/a.2.json").unlink()
    add(after.run, "a", 1)
    assert complaints(dataclasses.replace(after, kind=None)) == []
    assert complaints(after) == ["no miss tells of it; expected lost"]


def _instead(name: str, status: str, message: str = "") -> Callable[[Run], None]:
    def change(run: Run) -> None:
        cell, attempt = name.split(".")
        (run.folder / "results" / f"{name}.json").unlink()
        add(run, cell, int(attempt), status, message)

    return change


def _more(
    cell: str, attempt: int, status: str = "pass", message: str = ""
) -> Callable[[Run], None]:
    return lambda run: add(run, cell, attempt, status, message)


def _gone(name: str) -> Callable[[Run], None]:
    return lambda run: (run.folder / "results" / f"{name}.json").unlink()


def _copied(run: Run) -> None:
    shutil.copy(run.folder / "results/b.1.json", run.folder / "results/b.1 (copy)")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_instead("a.1", "fail", "wrong"), "a is blamed: fail: wrong"),
        (_instead("b.1", "error", "raised"), "b is blamed: error: raised"),
        (_instead("b.1", "xfail"), "b is blamed: xfail: "),
        (_instead("b.1", "miss", LOST), "b has 0 verdicts"),
        (_gone("b.1"), "b has 0 verdicts"),
        (_more("b", 2), "b has 2 verdicts"),
        (_more("b", 2, "miss", LOST), "b was tried again after its verdict"),
        (_more("c", 1), "c was not planned"),
        (_gone("a.1"), "a has attempts [2]"),
        (_more("b", 3, "miss", LOST), "b has attempts [1, 3]"),
        (_instead("a.1", "miss", "out of luck"), "a: other and not lost: out of luck"),
        (_copied, "left behind: b.1 (copy)"),
    ],
)
def test_what_a_record_must_not_say(
    after: Aftermath, change: Callable[[Run], None], complaint: str
) -> None:
    change(after.run)
    assert complaint in complaints(after)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"codes": (1, 0)}, "a command ended with 1"),
        ({"codes": (3, 0)}, "a command ended with 3"),
        ({"codes": (70, 0)}, "a command ended with 70"),
        ({"codes": (4, 4)}, "it did not end green"),
        ({"codes": ()}, "it did not end green"),
        ({"kind": None}, f"a: lost and not None: {LOST}"),
        ({"left": ("process 7",)}, "left behind: process 7"),
    ],
)
def test_what_must_not_be_left(after: Aftermath, changed: dict[str, Any], complaint: str) -> None:
    assert complaint in complaints(dataclasses.replace(after, **changed))
