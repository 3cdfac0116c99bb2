"""What was read of archives before: kept, found again, and never believed of another file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import (
    Archive,
    RunRecord,
    read_archive,
    read_rows,
    table_of,
    write,
)
from orchestrator.results.history.growing import Growing, lines
from orchestrator.results.history.known import Known
from orchestrator.results.history.rows import Row
from orchestrator.results.history.source import Found, find
from orchestrator.results.history.table import Table, load

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def quiet(_: str) -> None:
    """Nobody listens."""


def night(folder: Path, day: str, *, message: str = "m\n\u2028ü", also: str = "") -> None:
    """An archive of one run, with two attempts and words that no other day has."""
    runs = tuple(RunRecord(run=f"{d}T02-00-00", started=f"{d}T02:00:00Z") for d in (day, also) if d)
    rows = [
        Row(run=run.run, cell=cell, attempt=1, status="fail", message=f"{message} {day}", error=2.0)
        for run in runs
        for cell in ("p.w.f32@x", f"p.w.f{day[-1]}@x")
    ]
    write(folder / f"{day}.parquet", table_of(rows), Archive(runs=runs, declared={}))


@pytest.fixture
def year(tmp_path: Path) -> Path:
    folder = tmp_path / "year"
    folder.mkdir()
    for day in DAYS[:2]:
        night(folder, day)
    return folder


def looked(year: Path) -> Found:
    return find(year, year.parent / "cache", quiet)


def said(found: Table) -> list[tuple[object, ...]]:
    """Everything that a table says, as values."""
    texts = ([text.at(row) for row in range(len(found))] for text in found.texts.values())
    numbers = (np.nan_to_num(column, nan=-1).tolist() for column in found.numbers.values())
    runs = [found.runs[run].run for run in found.run.tolist()]
    places = zip(found.source.tolist(), found.position.tolist(), strict=True)
    words = (text.values for text in found.texts.values())
    return [*zip(runs, places, *texts, *numbers, strict=True), *words]


def grown(year: Path) -> None:
    """Holds what is kept against what is read anew."""
    sources = looked(year).sources
    assert said(load(sources, year.parent / "kept")) == said(load(sources))


def add(year: Path) -> None:
    night(year, DAYS[2])


def replace_last(year: Path) -> None:
    night(year, DAYS[1], message="another")


def replace_first(year: Path) -> None:
    night(year, DAYS[0], message="another")


def remove_last(year: Path) -> None:
    (year / f"{DAYS[1]}.parquet").unlink()


def remove_all(year: Path) -> None:
    for path in year.iterdir():
        path.unlink()


def add_what_a_month_has(year: Path) -> None:
    night(year, DAYS[2], also=DAYS[1])


@pytest.mark.parametrize(
    "change", [add, replace_last, replace_first, remove_last, remove_all, add_what_a_month_has]
)
def test_what_is_kept_says_what_reading_anew_says(
    year: Path, change: Callable[[Path], None]
) -> None:
    grown(year)
    grown(year)
    change(year)
    grown(year)
    add(year)
    grown(year)


def test_only_what_is_new_is_read(year: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(year)
    add(year)
    sources = looked(year).sources
    read: list[str] = []

    def counted(path: Path, columns: list[str]) -> object:
        read.append(path.name)
        return read_rows(path, columns)

    monkeypatch.setattr(f"{load.__module__}.read_rows", counted)
    load(sources, year.parent / "kept")
    assert read == [f"{DAYS[2]}.parquet"]


def test_a_run_that_started_before_others_has_its_place(year: Path) -> None:
    grown(year)
    night(year, "2025-12-31")
    (year / "2025-12-31.parquet").rename(year / "z.parquet")
    grown(year)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "another", "marks": []}'])
def test_a_head_that_says_nothing_is_none(year: Path, text: str) -> None:
    grown(year)
    (year.parent / "kept/head.json").write_text(text)
    grown(year)


def test_files_that_are_shorter_than_they_should_be_are_none(year: Path) -> None:
    grown(year)
    (year.parent / "kept/cell").write_bytes(b"")
    grown(year)


def test_what_was_written_and_not_marked_is_nothing(tmp_path: Path) -> None:
    first = Growing(tmp_path / "a", "1")
    first.append("one", {"n": np.arange(3), "t.texts": lines(["a", "b"])})
    first.keep()
    first.append("two", {"n": np.arange(9), "t.texts": lines(["c"])})
    again = Growing(tmp_path / "a", "1")
    assert again.names == ("one",)
    assert again.array("n", np.int64).tolist() == [0, 1, 2]
    assert again.texts("t.texts") == ["a", "b"]
    again.append("three", {"n": np.asarray([7])})
    assert again.array("n", np.int64).tolist() == [0, 1, 2, 7]
    assert again.array("n", np.int64, 2).tolist() == [[0, 1], [2, 7]]


def test_who_has_mapped_files_keeps_them_when_others_begin_anew(tmp_path: Path) -> None:
    files = Growing(tmp_path / "a", "1")
    files.append("one", {"n": np.arange(3)})
    mapped = files.array("n", np.int64)
    other = Growing(tmp_path / "a", "2")
    other.append("one", {"n": np.zeros(2, np.int64)})
    assert mapped.tolist() == [0, 1, 2]


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(InfrastructureError, match="cannot write"):
        Growing(tmp_path / "a", "1").append("one", {"n": np.arange(3)})


def test_an_archive_that_did_not_change_is_not_opened(
    year: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = looked(year)
    opened: list[str] = []

    def counted(path: Path) -> Archive:
        opened.append(path.name)
        return read_archive(path)

    monkeypatch.setattr(f"{Known.__module__}.read_archive", counted)
    after = looked(year)
    assert not opened
    assert [s.digest for s in after.sources] == [s.digest for s in before.sources]
    assert [s.archive.runs for s in after.sources] == [s.archive.runs for s in before.sources]
    replace_last(year)
    changed = looked(year)
    assert opened == [f"{DAYS[1]}.parquet"]
    assert changed.sources[1].digest != before.sources[1].digest
    (year.parent / "cache/archives.json").write_text("[]")
    looked(year)
    assert len(opened) == 3


def test_what_was_declared_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "year"
    declared = Declared(pipelines={}, recipes={}, pools={}, stacks={}, workloads={"w": "about w"})
    folder.mkdir()
    record = RunRecord(run=f"{DAYS[0]}T02-00-00", started=f"{DAYS[0]}T02:00:00Z", declared="d")
    archive = Archive(runs=(record,), declared={"d": declared})
    write(folder / "a.parquet", table_of([]), archive)
    for _ in range(2):
        (found,) = looked(folder).sources
        assert list(found.archive.declared) == ["d"]
        assert len(found.archive.declared) == 1
        assert found.archive.declared["d"] == declared
        assert load([found]).declared("d") == declared
        assert load([found]).declared("e") is None
        with pytest.raises(KeyError):
            found.archive.declared["e"]
