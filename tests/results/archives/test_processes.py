"""Real processes: killed at each call that changes a file, and two at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.results.archives.compact import compact
from orchestrator.results.archives.store import Store
from orchestrator.results.archives.verify import verify
from tests.results.archives.child import KILLED
from tests.results.archives.samples import (
    FEBRUARY,
    JANUARY,
    TODAY,
    add,
    make_run,
    make_store,
    names,
    quiet,
    seen,
)

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.process


def start(action: str, store: Store, runs: Path, step: int = 0) -> subprocess.Popen[str]:
    """A child that is ready, and waits."""
    argv = [sys.executable, "-m", "tests.results.archives.child"]
    child = subprocess.Popen(
        [*argv, action, store.objects.address, str(runs), str(step)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def together(children: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Lets all go at once; what each says."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return [child.communicate(timeout=120)[0].strip() for child in children]


def killed_at_each_step(action: str, prepare: Store, runs: Path, tmp_path: Path) -> list[Store]:
    """Stores that a child left behind; the last one's was not killed."""
    left: list[Store] = []
    code = KILLED
    while code == KILLED:
        store = make_store(tmp_path, "folder", prepare)
        child = start(action, store, runs, len(left) + 1)
        together([child])
        code = child.returncode
        left.append(store)
    assert code == 0
    return left


def test_killed_while_adding(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", JANUARY[0])
    run.write_artifact("b", "ir.mlir", b"ir")
    left = killed_at_each_step("add", make_store(tmp_path), tmp_path / "runs", tmp_path)
    expected = seen(left[-1])
    assert list(expected) == [JANUARY[0]]
    assert len(left) > 6
    assert [bool(seen(store)) for store in left].count(False) >= 3
    for store in left:
        assert seen(store) in ({}, expected)
        add(store, run, artifacts=True)
        assert seen(store) == expected
        assert verify(store, quiet).problems == ()


def test_killed_while_merging(tmp_path: Path, template: Store) -> None:
    (tmp_path / "runs").mkdir()
    left = killed_at_each_step("compact", template, tmp_path / "runs", tmp_path)
    assert len(left) > 8
    for store in left:
        assert seen(store) == seen(template)
        assert compact(store, TODAY, quiet).problems == ()
        assert names(store) == names(left[-1])
        assert seen(store) == seen(template)


def test_two_collectors_at_once(tmp_path: Path) -> None:
    """Both have all runs; of the last one each has its own."""
    store = make_store(tmp_path)
    for each in ("x", "y"):
        for name in JANUARY:
            make_run(tmp_path / each, name)
        make_run(tmp_path / each, FEBRUARY[0], message=each)
    said = together([start("add", store, tmp_path / each) for each in ("x", "y")])
    outcomes = list(zip(*(line.split() for line in said), strict=True))
    for pair in outcomes[: len(JANUARY)]:
        assert set(pair) <= {"added", "there"}
        assert "added" in pair
    assert sorted(outcomes[-1]) == ["added", "refused"]
    assert set(seen(store)) == {*JANUARY, *FEBRUARY}
    assert verify(store, quiet).problems == ()


def test_two_compactors_and_a_collector_at_once(tmp_path: Path, template: Store) -> None:
    store, late = make_store(tmp_path, "folder", template), "2026-01-20T02-00-00"
    make_run(tmp_path / "late", late)
    (tmp_path / "none").mkdir()
    children = [start("compact", store, tmp_path / "none") for _ in range(2)]
    said = together([*children, start("add", store, tmp_path / "late")])
    assert said == ["()", "()", "added"]
    assert set(seen(store)) == {*JANUARY, *FEBRUARY, late}
    assert together([start("compact", store, tmp_path / "none")]) == ["()"]
    assert [name[:8] for name in names(store)] == ["2026-01.", "2026-02."]
    assert set(seen(store)) == {*JANUARY, *FEBRUARY, late}
    assert verify(store, quiet).problems == ()
