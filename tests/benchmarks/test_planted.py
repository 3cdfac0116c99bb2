"""What is planted shows in the rows, on the nights that the manifest says."""

from __future__ import annotations

import itertools
import math
from statistics import median

import pytest

from benchmarks.history.events import Event, Kind
from orchestrator.results.history.archive import RunRecord
from tests.benchmarks.year import Year

_RED = {"fail", "error"}


def _all(year: Year, kind: Kind) -> tuple[Event, ...]:
    found = year.planted.of(kind)
    assert found
    return found


def _record(year: Year, night: str) -> RunRecord:
    (record,) = (r for a in year.archives.values() for r in a.runs if r.run.startswith(night))
    return record


def test_regressions_begin_and_end(year: Year) -> None:
    expected = {cell for event in year.planted.of("expected") for cell in event.cells}
    for event in _all(year, "regression"):
        for cell in event.cells:
            before = year.last(year.before(event.night), cell)
            first = year.last(event.night, cell)
            assert before
            assert first
            assert before.status == "pass"
            assert (first.status, first.phase) == (event.status, event.phase)
            assert first.message
            if cell not in expected:
                assert all(year.status(n, cell) in _RED for n in year.during(event))
            assert before.fingerprint != first.fingerprint
        assert event.until == "" or any(
            fix.cells == event.cells and fix.night == event.until for fix in year.planted.of("fix")
        )


def test_one_regression_hits_many_cells_and_another_one(year: Year) -> None:
    sizes = {min(len(event.cells), 2) for event in _all(year, "regression")}
    assert sizes == {1, 2}


def test_the_cause_of_a_regression_is_in_its_rows(year: Year) -> None:
    for event in _all(year, "regression"):
        for cell in event.cells:
            before = year.last(year.before(event.night), cell)
            after = year.last(event.night, cell)
            assert before
            assert after
            column = "surroundings" if event.stack or "->" in event.what else "content"
            assert getattr(before, column) != getattr(after, column)


def test_fixes_are_green(year: Year) -> None:
    for event in _all(year, "fix"):
        assert {year.status(event.night, cell) for cell in event.cells} == {"pass"}
        assert not {year.status(year.before(event.night), cell) for cell in event.cells} - _RED


def test_failures_become_expected(year: Year) -> None:
    for event in _all(year, "expected"):
        for cell in event.cells:
            assert year.status(year.before(event.night), cell) in _RED
            row = year.last(event.night, cell)
            assert row
            assert row.status == "xfail"
            assert row.expectation
            declared = _declared_expectations(year, event.night)
            assert declared[cell] == event.night


def _declared_expectations(year: Year, night: str) -> dict[str, str]:
    """Glob to the day on which it was declared."""
    record = _record(year, night)
    declared = next(a.declared[record.declared] for a in year.archives.values() if record in a.runs)
    return {each.cells: each.since for each in declared.expectations}


def test_expected_failures_become_green_until_somebody_says_so(year: Year) -> None:
    for event in _all(year, "xpass"):
        (cell,) = event.cells
        assert year.status(year.before(event.night), cell) == "xfail"
        assert {year.status(night, cell) for night in year.during(event)} == {"xpass"}
        assert not event.until or year.status(event.until, cell) == "pass"


def test_expectations_expire(year: Year) -> None:
    for event in _all(year, "expired"):
        (cell,) = event.cells
        assert year.status(year.before(event.night), cell) == "xfail"
        first = year.last(event.night, cell)
        assert first
        assert first.status == "fail"
        notes = year.document(first, "details")["notes"]
        assert "expired on" in str(notes)
        assert not event.until or year.status(event.until, cell) == "xfail"


def test_steps_change_the_time(year: Year) -> None:
    noise = {each.cell: each for each in year.planted.noise}
    for event in _all(year, "step"):
        after = year.during(event)
        for cell in event.cells:
            before = [night for night in year.dates if night < event.night]
            ratio = median(year.times(event, cell, after)) / median(year.times(event, cell, before))
            allowed = 0.02 + 2 * noise[cell].sigma + (noise[cell].shape == "bimodal") * 0.15
            assert math.log(ratio) == pytest.approx(math.log(event.factor), abs=allowed)


def test_drifts_are_slow_and_stay(year: Year) -> None:
    for event in _all(year, "drift"):
        (cell,) = event.cells
        before = [night for night in year.dates if night < event.night]
        after = [night for night in year.dates if event.until and night >= event.until]
        ratio = median(year.times(event, cell, after)) / median(year.times(event, cell, before))
        assert ratio == pytest.approx(event.factor, rel=0.12)
        assert ratio > 1.04


def test_a_spike_is_one_night(year: Year) -> None:
    for event in _all(year, "spike"):
        (cell,) = event.cells
        usual = median(year.times(event, cell, year.dates))
        (spike,) = year.times(event, cell, [event.night])
        assert spike / usual == pytest.approx(event.factor, rel=0.2)
        assert year.during(event) == [event.night]


def test_flaky_cells_pass_and_fail_with_one_fingerprint(year: Year) -> None:
    for event in _all(year, "flaky"):
        (cell,) = event.cells
        rows = [row for night in year.during(event) if (row := year.last(night, cell))]
        assert rows[0].status == "fail"
        failed = {row.fingerprint for row in rows if row.status == "fail"}
        assert failed & {row.fingerprint for row in rows if row.status == "pass"}
        earlier = [night for night in year.dates if night < event.night]
        assert {year.status(night, cell) for night in earlier} == {"pass"}


def test_sick_machines_miss_until_they_are_well(year: Year) -> None:
    for event in _all(year, "sick-agent"):
        nights = year.during(event)
        ill = [r for n in nights for a in year.nights[n].values() for r in a if _by(r, event)]
        missed = [row for row in ill if row.status == "miss"]
        assert len(missed) > len(ill) / 2
        assert {row.message for row in missed} <= set(event.causes)
        day_after = year.nights[event.until].values() if event.until else []
        well = [r for attempts in day_after for r in attempts if _by(r, event)]
        assert not [r for r in well if r.message in event.causes]


def _by(row: object, event: Event) -> bool:
    return getattr(row, "agent", None) == event.agent


def test_a_miss_is_retried(year: Year) -> None:
    for event in _all(year, "retried"):
        (cell,) = event.cells
        first, *others = year.nights[event.night][cell]
        assert (first.status, first.message) == ("miss", event.causes[0])
        assert others


def test_drivers_change_on_one_machine(year: Year) -> None:
    for event in _all(year, "driver"):
        after = event.what.split(" -> ")[1]
        for night, there in ((event.night, True), (year.before(event.night), False)):
            rows = [r for a in year.nights[night].values() for r in a if _by(r, event)]
            told = [row.surroundings for row in rows if "cpu_model" in row.surroundings]
            assert all((f'"{after}"' in text) == there for text in told)


def test_pins_roll_in_declarations_and_versions(year: Year) -> None:
    for event in _all(year, "pins"):
        package, change = event.what.split(" ", 1)
        old, new = change.split(" -> ")
        for night, version in ((event.night, new), (year.before(event.night), old)):
            record = _record(year, night)
            declared = next(
                a.declared[record.declared] for a in year.archives.values() if record in a.runs
            )
            stacks = [event.stack] if event.stack else list(declared.stacks)
            assert {declared.stacks[stack].versions[package] for stack in stacks} == {version}


def test_recipes_and_workloads_change_in_content(year: Year) -> None:
    for event in (*_all(year, "recipe"), *_all(year, "workload")):
        night, before = event.night, year.before(event.night)
        changed = {
            cell
            for cell in year.nights[night]
            if (now := year.last(night, cell)) and (was := year.last(before, cell))
            if now.content and was.content and now.content != was.content
        }
        assert changed
        if event.kind == "workload":
            assert {c for c in year.nights[night] if f".{event.workload}." in c} & changed


def test_cells_appear(year: Year) -> None:
    for event in _all(year, "appeared"):
        for cell in event.cells:
            earlier = [night for night in year.dates if night < event.night]
            assert {year.status(night, cell) for night in earlier} == {""}
            assert year.status(event.night, cell)


def test_cells_go_with_their_declaration_or_without(year: Year) -> None:
    for event in _all(year, "removed"):
        for cell in event.cells:
            assert year.status(year.before(event.night), cell)
            assert {year.status(night, cell) for night in year.during(event)} == {""}
    for event in _all(year, "vanished"):
        for cell in event.cells:
            assert year.status(year.before(event.night), cell) not in ("", "none")
            assert {year.status(night, cell) for night in year.during(event)} == {event.status}


def test_pools_go_dark(year: Year) -> None:
    for event in _all(year, "pool-dark"):
        cells = [c for c in year.nights[year.dates[0]] if c.endswith(f"@{event.pool}")]
        assert cells
        for cell, night in itertools.product(cells, year.during(event)):
            assert year.status(night, cell) == event.status
        assert not {year.status(year.before(event.night), cell) for cell in cells} & {event.status}


def test_a_night_does_not_happen_and_another_is_thin(year: Year) -> None:
    for event in _all(year, "no-night"):
        assert not year.nights[event.night]
    for event in _all(year, "thin-night"):
        ran = [a for a in year.nights[event.night].values() if a[-1].attempt]
        usual = [a for a in year.nights[year.before(event.night)].values() if a[-1].attempt]
        assert len(ran) < len(usual) / 2
        assert (_record(year, event.night).ended is None) == (event.what == "stopped")
