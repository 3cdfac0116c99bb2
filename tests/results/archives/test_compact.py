"""Merging months: at any moment each run is there, and once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.results.archives import compact as module
from orchestrator.results.archives.compact import compact
from orchestrator.results.archives.store import Store
from orchestrator.results.archives.verify import verify
from orchestrator.results.history.archive import Archive, encode
from tests.results.archives.samples import (
    FEBRUARY,
    JANUARY,
    TODAY,
    Died,
    Steps,
    Watched,
    add,
    make_run,
    make_store,
    names,
    quiet,
    seen,
)

LATE = "2026-01-20T02-00-00"


def merge(store: Store, today: str = TODAY) -> module.Compacted:
    return compact(store, today, quiet)


def test_months_that_are_over_become_one_file_each(store: Store) -> None:
    before = seen(store)
    done = merge(store)
    assert (done.months, done.removed, done.problems) == (("2026-01", "2026-02"), 4, ())
    assert [name[:8] for name in names(store)] == ["2026-01.", "2026-02."]
    assert seen(store) == before
    assert set(before) == {*JANUARY, *FEBRUARY}


def test_again_there_is_nothing_to_do(store: Store) -> None:
    merge(store)
    before = names(store)
    assert merge(store) == module.Compacted(months=(), removed=0, problems=())
    assert names(store) == before


def test_what_is_merged_is_not_read_again(tmp_path: Path, template: Store) -> None:
    steps: list[str] = []
    store = make_store(tmp_path, "folder", template)
    merge(store)
    merge(Store(Watched(store.objects, steps.append), store.cache))
    assert steps == ["list"]


def test_the_month_that_is_not_over_stays(store: Store) -> None:
    assert merge(store, "2026-02-28").months == ("2026-01",)
    assert f"{FEBRUARY[0]}.parquet"[:19] in {name[:19] for name in names(store)}


def test_a_late_run_is_merged_into_its_month(store: Store, tmp_path: Path) -> None:
    merge(store)
    add(store, make_run(tmp_path / "late", LATE))
    expected = seen(store)
    assert merge(store).removed == 2
    assert len(names(store)) == 2
    assert seen(store) == expected
    assert LATE in expected


def test_details_and_declarations_are_kept(store: Store) -> None:
    def records() -> list[object]:
        found = store.each(store.archive, [])
        return sorted((r for _, a in found for r in a.runs), key=str)

    before = records()
    merge(store)
    assert records() == before


def test_what_was_there_is_the_same_whoever_merges(
    tmp_path: Path, template: Store, kind: str
) -> None:
    stores = [make_store(tmp_path, kind, template) for _ in range(2)]
    for store in stores:
        merge(store)
    assert names(stores[0]) == names(stores[1])


def test_killed_at_any_step_nothing_is_lost_or_doubled(
    tmp_path: Path, template: Store, kind: str
) -> None:
    expected, finished = seen(template), make_store(tmp_path, kind, template)
    merge(finished)

    def die(store: Store, step: str) -> None:
        raise Died(step)

    def still_right(store: Store) -> None:
        assert seen(store) == expected
        merge(store)
        assert (seen(store), names(store)) == (expected, names(finished))

    steps = Steps(lambda: make_store(tmp_path, kind, template), merge)
    assert steps.run(die, still_right) > 10


def test_a_full_disk_at_any_step_loses_nothing(tmp_path: Path, template: Store) -> None:
    def fail(store: Store, step: str) -> None:
        raise InfrastructureError(f"no space left: {step}")

    def attempt(store: Store) -> None:
        try:
            merge(store)
        except InfrastructureError as error:
            assert "no space left" in str(error)  # noqa: PT017  it may also be told as a problem

    steps = Steps(lambda: make_store(tmp_path, "folder", template), attempt)
    expected = seen(template)
    steps.run(fail, lambda store: None if seen(store) == expected else pytest.fail("lost"))


def test_another_compactor_at_any_step(tmp_path: Path, template: Store, kind: str) -> None:
    expected = seen(template)

    def still_right(store: Store) -> None:
        assert seen(store) == expected
        merge(store)
        assert (seen(store), len(names(store))) == (expected, 2)

    steps = Steps(lambda: make_store(tmp_path, kind, template), merge)
    assert steps.run(lambda store, _: _ignore(merge(store)), still_right) > 10


def test_a_late_run_and_another_compactor_at_any_step(tmp_path: Path, template: Store) -> None:
    late = make_run(tmp_path / "late", LATE)
    reference = make_store(tmp_path, "folder", template)
    add(reference, late)
    expected = seen(reference)

    def add_and_merge(store: Store, step: str) -> None:
        assert add(store, late).outcome == "added"
        merge(store)

    def still_right(store: Store) -> None:
        assert seen(store) == expected
        merge(store)
        assert (seen(store), len(names(store))) == (expected, 2)

    Steps(lambda: make_store(tmp_path, "folder", template), merge).run(add_and_merge, still_right)


def test_readers_see_all_of_it_at_any_step(tmp_path: Path, template: Store, kind: str) -> None:
    expected, views = seen(template), []
    steps = Steps(lambda: make_store(tmp_path, kind, template), merge)
    steps.run(lambda store, _: views.append(seen(store)), lambda _: None)
    assert len(views) > 10
    assert all(view == expected for view in views)


def test_two_versions_of_a_run_are_left_to_people(tmp_path: Path, kind: str) -> None:
    first, second = make_store(tmp_path, kind), make_store(tmp_path, "loose")
    for name in JANUARY:
        add(first, make_run(tmp_path / "x", name))
    add(second, make_run(tmp_path / "y", JANUARY[1], message="another"))
    (other,) = names(second)
    first.objects.create(other, second.objects.read(other))
    done = merge(first)
    assert done.months == ("2026-01",)
    assert len(done.problems) == 1
    assert f"run {JANUARY[1]} is in " in done.problems[0]
    left = [name for name in names(first) if name.startswith(JANUARY[1])]
    assert len(left) == 2
    assert len(names(first)) == 3
    first.objects.remove(other)
    merge(first)
    assert (len(names(first)), set(seen(first))) == (1, set(JANUARY))


def test_a_damaged_archive_is_named_and_stays(store: Store) -> None:
    damaged = next(name for name in names(store) if name.startswith(JANUARY[1]))
    data = store.objects.read(damaged)
    store.objects.remove(damaged)
    store.objects.create(damaged, data[: len(data) // 2])
    done = merge(store)
    assert len(done.problems) == 1
    assert damaged.removesuffix(".parquet") in done.problems[0]
    assert damaged in names(store)
    assert len(names(store)) == 3
    assert len(verify(store, quiet).problems) == 1


def test_what_is_read_back_wrong_removes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(names(store))

    def broken(tables: Iterable[pa.Table], archive: Archive) -> bytes:
        return encode([each.slice(1) for each in tables], archive)

    monkeypatch.setattr(module, "encode", broken)
    with pytest.raises(InfrastructureError, match="is not what was written: nothing was removed"):
        merge(store)
    assert before <= set(names(store))


def _ignore(done: module.Compacted) -> None:
    assert done.problems == ()
