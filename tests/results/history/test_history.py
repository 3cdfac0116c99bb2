"""Runs to rows, archives, and columns."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.job import OutputError, StageTime
from orchestrator.results.alike import likeness, normalised
from orchestrator.results.history.archive import (
    Archive,
    LazyDeclared,
    RunRecord,
    arrow_schema,
    read_archive,
    table_of,
    write,
)
from orchestrator.results.history.rows import Row, epoch, row, rows, unpack, worst_error
from orchestrator.results.history.source import Found, find
from orchestrator.results.history.table import load
from orchestrator.results.schema import RunInfo
from orchestrator.results.store import Run
from tests.results.test_store import plan, planned, result


def quiet(_: str) -> None:
    """Nobody listens."""


def error(
    max_abs: float = 0.0, worst_got: float = 1.0, atol: float = 0.1, mismatches: int = 0
) -> OutputError:
    return OutputError(
        index=0,
        shape=(4,),
        dtype="float32",
        elements=4,
        mismatches=mismatches,
        max_abs=max_abs,
        max_rel=0.0,
        worst=(0,),
        worst_got=worst_got,
        worst_golden=1.0,
        rtol=0.0,
        atol=atol,
        reason="",
    )


# --- rows --------------------------------------------------------------------------------------


def test_a_row_tells_what_its_result_tells() -> None:
    made = row(
        result(
            "p.w.f32@pool",
            2,
            status="fail",
            phase="compare",
            stages=(
                StageTime(stage="ingress", seconds=1.0, exit="ok"),
                StageTime(stage="execute", seconds=0.5, exit="ok"),
            ),
            errors=(error(max_abs=0.3, worst_got=1.3),),
            versions={"torch": "2"},
            kernel_ns=(0, 3_000, 1_000),
            agent="box-1",
            queued_seconds=4.0,
        ),
        "pytorch",
    )
    assert (made.cell, made.attempt, made.status, made.phase) == (
        "p.w.f32@pool",
        2,
        "fail",
        "compare",
    )
    assert made.stages.split("\n") == ["ingress", "execute"]
    assert made.stage_seconds == (1.0, 0.5)
    assert made.error == pytest.approx(3.0)
    assert made.kernel_seconds == pytest.approx(3e-6)
    assert (made.agent, made.queued_seconds, made.stack) == ("box-1", 4.0, "pytorch")
    assert unpack(made.surroundings)["versions"] == {"torch": "2"}


def test_no_gpu_and_no_queue_are_no_numbers() -> None:
    made = row(result(kernel_ns=(0, 0)))
    assert math.isnan(made.kernel_seconds)
    assert math.isnan(made.queued_seconds)
    assert math.isnan(made.error)


@pytest.mark.parametrize(
    ("errors", "worst"),
    [
        ((error(),), 0.0),
        ((error(max_abs=0.05, worst_got=1.05),), 0.5),
        ((error(max_abs=0.05, worst_got=1.05), error(max_abs=0.2, worst_got=1.2)), 2.0),
        ((error(max_abs=1.0, worst_got=math.nan, mismatches=1),), math.inf),
        ((error(max_abs=1.0, worst_got=2.0, atol=0.0, mismatches=1),), math.inf),
    ],
)
def test_an_error_is_in_units_of_its_tolerance(
    errors: tuple[OutputError, ...], worst: float
) -> None:
    assert worst_error(errors) == pytest.approx(worst)


def test_planned_cells_without_a_result_have_a_row_that_says_why() -> None:
    cells = [planned("ran"), planned("later"), planned("elsewhere", runnable=False)]
    found = {r.cell: r for r in rows([result("ran")], cells, "run", {("ran", 1): ("machine",)})}
    assert unpack(found["ran"].details)["blame"] == ["machine"]
    assert {name: r.status for name, r in found.items()} == {
        "ran": "pass",
        "later": "none",
        "elsewhere": "skip",
    }
    assert found["later"].message
    assert found["later"].attempt == 0


def test_times_are_seconds_of_utc() -> None:
    assert epoch("1970-01-02T00:00:01Z") == 86_401
    assert epoch("nonsense") == 0


# --- archives ----------------------------------------------------------------------------------

RECORD = RunRecord(run="2026-01-02T03-04-05", started="2026-01-02T03:04:05Z")


def archive(folder: Path, name: str, *attempts: Row, record: RunRecord = RECORD) -> Path:
    path = folder / name
    write(path, table_of(attempts), Archive(runs=(record,)))
    return path


def attempt(cell: str = "p.w.f32@x", **changed: object) -> Row:
    values: dict[str, object] = {"run": RECORD.run, "cell": cell, "attempt": 1, "status": "pass"}
    return Row(**{**values, **changed})  # type: ignore[arg-type]


def test_an_archive_says_what_it_holds(tmp_path: Path) -> None:
    path = archive(tmp_path, "a.parquet", attempt())
    assert read_archive(path).runs == (RECORD,)
    assert table_of([attempt()]).schema == arrow_schema()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1 nonsense PAR1"])
def test_what_is_no_archive_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(InfrastructureError, match=r"a\.parquet"):
        read_archive(tmp_path / "a.parquet")


def test_an_archive_of_another_version_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", table_of([]), Archive(runs=(), schema=99))
    with pytest.raises(InfrastructureError, match="schema 99"):
        read_archive(tmp_path / "a.parquet")


def test_somebody_elses_parquet_is_told(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InfrastructureError, match="no archive of results"):
        read_archive(tmp_path / "a.parquet")


def test_what_was_declared_in_a_way_that_nobody_can_read_is_not_known(tmp_path: Path) -> None:
    record = RunRecord(run=RECORD.run, started=RECORD.started, declared="d")
    declared = LazyDeclared({"d": {"pipelines": {}, "spurious": 1}})
    write(tmp_path / "a.parquet", table_of([attempt()]), Archive(runs=(record,)))
    (found,) = find(tmp_path, tmp_path / "cache", quiet).sources
    damaged = dataclasses.replace(
        found, archive=dataclasses.replace(found.archive, declared=declared)
    )
    table = load([damaged])
    assert "d" in declared
    assert table.declared("d") is None
    assert table.declared("other") is None


def test_rows_come_back_as_columns(tmp_path: Path) -> None:
    stages = "ingress\nlower:x\nexecute\ncompare"
    archive(
        tmp_path,
        "a.parquet",
        attempt(stages=stages, stage_seconds=(1.0, 2.0, 0.25, 0.1), message="m", details="{}"),
        attempt("p.w.f16@x", stages="ingress\nassemble", stage_seconds=(1.0, 4.0)),
        attempt("p.v.f32@x", stages=stages, stage_seconds=(1.0,) * 4, kernel_seconds=0.01),
    )
    table = load(find(tmp_path, tmp_path / "cache", quiet).sources)
    order = [table.texts["cell"].at(i) for i in range(len(table))]
    lowering, execute = table.numbers["lowering"], table.numbers["execute"]
    at = {cell: index for index, cell in enumerate(order)}
    assert lowering[at["p.w.f32@x"]] == pytest.approx(3.0)
    assert execute[at["p.w.f32@x"]] == pytest.approx(0.25)
    assert lowering[at["p.w.f16@x"]] == pytest.approx(5.0)
    assert np.isnan(execute[at["p.w.f16@x"]])
    assert execute[at["p.v.f32@x"]] == pytest.approx(0.01)
    rows = np.asarray([at["p.v.f32@x"], at["p.w.f32@x"]], dtype=np.int32)
    offsets, seconds = table.stage_seconds(rows)
    assert offsets.tolist() == [0, 4, 8]
    assert seconds.tolist() == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.25, 0.1])
    assert table.read("details", [at["p.w.f32@x"]]) == {at["p.w.f32@x"]: "{}"}


def test_a_run_that_is_in_two_archives_counts_once(tmp_path: Path) -> None:
    archive(tmp_path, "2026-01.parquet", attempt(), attempt("p.v.f32@x"))
    archive(tmp_path, "2026-01-02T03-04-05.parquet", attempt(status="fail"))
    table = load(find(tmp_path, tmp_path / "cache", quiet).sources)
    assert len(table.runs) == 1
    statuses = [table.texts["status"].at(i) for i in range(len(table))]
    # months come first: the run's own archive goes once it is in one
    assert statuses == ["pass", "pass"]


def test_a_run_whose_archives_differ_is_told(tmp_path: Path) -> None:
    archive(tmp_path, "2026-01.parquet", attempt())
    path = tmp_path / "2026-01-02T03-04-05.parquet"
    write(path, table_of([attempt()]), Archive(runs=(replace(RECORD, seconds=1.0),)))
    found = find(tmp_path, tmp_path / "cache", quiet)
    assert len(found.sources) == 1
    (problem,) = found.problems
    assert problem.startswith(f"{path} has a run {RECORD.run} that differs from the one before it")


def test_rows_of_runs_that_an_archive_does_not_name_are_left_out(tmp_path: Path) -> None:
    archive(tmp_path, "a.parquet", attempt(), attempt("p.v.f32@x", run="2026-09-09T09-09-09"))
    table = load(find(tmp_path, tmp_path / "cache", quiet).sources)
    assert [table.texts["cell"].at(i) for i in range(len(table))] == ["p.w.f32@x"]


# --- run folders -------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "runs" / RECORD.run
    folder.mkdir(parents=True)
    run = Run(folder)
    run.write_plan(plan(planned("a"), planned("b", runnable=False)))
    run.write_info(
        RunInfo(run=RECORD.run, started=RECORD.started, engine="venv", engine_note="", version="1")
    )
    run.add(result("a", run=RECORD.run))
    return run


def found(run: Run) -> Found:
    return find(run.folder.parent, run.folder.parent.parent / "cache", quiet)


def test_a_run_folder_is_read_once(run: Run) -> None:
    told: list[str] = []
    first = find(run.folder.parent, run.folder.parent.parent / "cache", told.append)
    again = find(run.folder.parent, run.folder.parent.parent / "cache", told.append)
    assert told == [f"reading {RECORD.run}"]
    assert first.problems == again.problems == ()
    assert first.sources[0].digest == again.sources[0].digest
    table = load(again.sources)
    assert sorted(table.texts["status"].at(i) for i in range(len(table))) == ["pass", "skip"]


def test_a_run_that_went_on_is_read_again(run: Run) -> None:
    before = found(run).sources[0].digest
    run.add(result("a", 2, run=RECORD.run, status="fail"))
    after = found(run)
    assert after.sources[0].digest != before
    assert len(load(after.sources)) == 3


def test_a_cached_run_that_is_damaged_is_made_again(run: Run) -> None:
    path = found(run).sources[0].path
    path.write_bytes(b"PAR1")
    assert len(load(found(run).sources)) == 2


def test_a_damaged_result_is_told_and_the_rest_counts(run: Run) -> None:
    (run.folder / "results" / "b.1.json").write_text("{")
    got = found(run)
    assert len(got.problems) == 1
    assert "b.1.json" in got.problems[0]
    assert len(load(got.sources)) == 2


def test_a_damaged_declaration_is_told_and_the_results_count(run: Run) -> None:
    (run.folder / "declared.json").write_text('{"spurious": 1}')
    got = found(run)
    assert len(got.problems) == 1
    assert "declared.json" in got.problems[0]
    assert len(load(got.sources)) == 2


def test_a_run_without_a_plan_is_told(run: Run) -> None:
    (run.folder / "plan.json").unlink()
    got = found(run)
    assert got.sources == ()
    assert "plan.json" in got.problems[0]


def test_a_run_that_was_stopped_early_is_known_by_its_name(run: Run) -> None:
    (run.folder / "run.json").unlink()
    record = found(run).sources[0].archive.runs[0]
    assert (record.started, record.ended) == (RECORD.started, None)


def test_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        find(tmp_path / "nowhere", tmp_path, quiet)


def test_other_files_are_passed_over(run: Run) -> None:
    (run.folder.parent / "notes.txt").write_text("mine")
    (run.folder.parent / ".hidden.parquet").write_text("x")
    os.mkfifo(run.folder.parent / "pipe.parquet")
    assert len(found(run).sources) == 1


# --- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("288 of 4,608 elements off, worst 0.41", "2 of 4,608 elements off, worst 1e-05"),
        ("crash at 0x7fff12ab", "crash at 0x1"),
        ("/tmp/job-1/x/mlp.mlir:3:1 error", "/scratch/y/mlp.mlir:77:12 error"),
        ("digest 0123456789abcdef", "digest fedcba9876543210ff"),
        ("two\n  lines", "two lines"),
    ],
)
def test_messages_that_differ_in_numbers_and_places_are_alike(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert likeness(one) == likeness(other)


def test_messages_that_say_something_else_are_not() -> None:
    assert normalised("failed to legalize arith.maxf") != normalised(
        "failed to legalize arith.minf"
    )


@given(st.text(max_size=3000))
def test_normalising_is_bounded_and_settles(message: str) -> None:
    once = normalised(message)
    assert len(once) <= 400
    assert "\n" not in once
    assert normalised(once) == once or len(once) == 400
