"""The made-up year is what it says: its files, its rows, and that it can be made again."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.history.events import KINDS, MANIFEST, Parameters, read
from benchmarks.history.writing import generate, one_more
from orchestrator import records
from orchestrator.results.history.archive import arrow_schema
from orchestrator.results.history.derived import DERIVED
from orchestrator.results.history.rows import Row, row, unpack
from orchestrator.results.schema import Result
from orchestrator.results.store import RUN_NAME
from tests.benchmarks.year import Year

FEW = Parameters(series=25, nights=12, seed=3)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        generate(tmp_path / name, dataclasses.replace(FEW, seed=seed))
    assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")
    assert _bytes(tmp_path / "a") != _bytes(tmp_path / "c")


def test_one_more_night_is_that_night_of_a_longer_year(tmp_path: Path) -> None:
    generate(tmp_path / "shorter", FEW)
    before = _bytes(tmp_path / "shorter")
    one_more(tmp_path / "shorter")
    generate(tmp_path / "longer", dataclasses.replace(FEW, nights=13))
    shorter, longer = _bytes(tmp_path / "shorter"), _bytes(tmp_path / "longer")
    (added,) = set(shorter) - set(before)
    assert shorter[added] == longer[added]
    assert shorter[MANIFEST] == longer[MANIFEST]
    assert {name for name in before if before[name] != shorter[name]} == {MANIFEST}


def test_a_night_that_does_not_happen_is_passed_over(tmp_path: Path) -> None:
    generate(tmp_path, dataclasses.replace(FEW, nights=15))
    planted = one_more(tmp_path)
    assert [night.run != "" for night in planted.nights[-3:]] == [True, False, True]
    assert planted.parameters.nights == 17
    with pytest.raises(ValueError, match="does not happen"):
        generate(tmp_path / "b", dataclasses.replace(FEW, nights=16))


def test_archives_are_a_month_each_and_the_newest_night(year: Year) -> None:
    newest = year.planted.nights[-1].run
    assert set(year.archives) == {
        *(f"2026-{month:02}.parquet" for month in (1, 2, 3)),
        f"{newest}.parquet",
    }
    for name, archive in year.archives.items():
        assert all(record.run.startswith(name.removesuffix(".parquet")) for record in archive.runs)
        assert {record.declared for record in archive.runs} == set(archive.declared)
        assert all(d == declared.digest() for d, declared in archive.declared.items())
    runs = [record.run for archive in year.archives.values() for record in archive.runs]
    assert sorted(runs) == [night.run for night in year.planted.nights if night.run]
    assert all(RUN_NAME.fullmatch(run) for run in runs)


def test_tables_have_the_schema_of_rows(year: Year) -> None:
    for path in year.paths:
        schema = pq.read_schema(path).remove_metadata()
        for name in DERIVED:
            schema = schema.remove(schema.get_field_index(name))
        assert schema.equals(arrow_schema())


def test_the_manifest_can_be_read_and_has_every_kind(year: Year) -> None:
    assert read(year.folder) == year.planted
    assert {event.kind for event in year.planted.events} == set(KINDS)


def test_rows_are_those_of_results(year: Year) -> None:
    """A row and its JSON make a result whose row is the same."""
    for each in year.attempts():
        packed = {**unpack(each.surroundings), **unpack(each.content), **unpack(each.details)}
        document = {
            **packed,
            **{name: getattr(each, name) for name in _SAME},
            "started": "1970-01-01T00:00:00Z",
            "queued_seconds": None,
            "kernel_ns": [],
            "dropped_bytes": packed["dropped_bytes"],
        }
        made = row(records.decode(Result, document), each.stack)
        for name in ("stages", "error", "surroundings", "content"):
            assert _equal(getattr(made, name), getattr(each, name)), (name, each)
        assert unpack(made.details) == unpack(each.details)
        assert made.stage_seconds == pytest.approx(each.stage_seconds)


_SAME = (
    *("run", "cell", "attempt", "status", "phase", "message", "expectation", "tier", "agent"),
    *("seconds", "peak_memory_bytes", "fingerprint", "reproduce"),
)


def _equal(one: object, other: object) -> bool:
    nan = [isinstance(each, float) and math.isnan(each) for each in (one, other)]
    return all(nan) or one == other


def test_fingerprints_are_equal_when_nothing_that_matters_differs(year: Year) -> None:
    by_print: defaultdict[str, set[str]] = defaultdict(set)
    by_what: defaultdict[str, set[str]] = defaultdict(set)
    for each in year.attempts():
        what = _what_matters(year, each)
        by_print[each.fingerprint].add(what)
        by_what[what].add(each.fingerprint)
    assert {len(found) for found in (*by_print.values(), *by_what.values())} == {1}
    assert len(by_print) > len(year.nights[year.dates[0]])


def _what_matters(year: Year, each: Row) -> str:
    surroundings = year.document(each, "surroundings")
    hardware = surroundings["hardware"]
    assert isinstance(hardware, dict)
    lasting = {name: value for name, value in hardware.items() if name != "memory_bytes"}
    kept = {k: surroundings[k] for k in ("environment", "toolchain", "versions")}
    return records.dumps([each.cell, kept, lasting, year.document(each, "content")])


def test_attempts_of_a_cell_are_in_order_and_runs_count_their_cells(year: Year) -> None:
    for cells in year.nights.values():
        for attempts in cells.values():
            assert [a.attempt for a in attempts] in ([0], [1], [1, 2], [1, 2, 3])
            assert all(a.status == "miss" for a in attempts[:-1])
            assert sorted(a.started for a in attempts) == [a.started for a in attempts]
    silent = {c for e in year.planted.of("vanished") if not e.status for c in e.cells}
    for archive in year.archives.values():
        for record in archive.runs:
            there = set(year.nights[record.run[:10]])
            assert there <= {*there, *silent}
            assert record.cells - len(there) <= len(silent)


def test_a_full_sized_matrix_has_so_many_cells(tmp_path: Path) -> None:
    planted = generate(tmp_path, Parameters(series=900, nights=2, seed=1))
    assert 890 <= planted.nights[-1].cells <= 900
    (newest,) = tmp_path.glob("2026-01-26*.parquet")
    assert pq.read_metadata(newest).num_rows >= planted.nights[-1].cells
