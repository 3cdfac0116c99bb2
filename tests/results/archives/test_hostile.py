"""Archives that somebody forged: refused by name, and nothing of them is added."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.results.archives import content
from orchestrator.results.archives.collect import add_archive
from orchestrator.results.archives.store import Store
from orchestrator.results.archives.verify import verify
from orchestrator.results.history.archive import (
    ARCHIVE_SCHEMA,
    Archive,
    RunRecord,
    encode,
    table_of,
)
from orchestrator.results.history.derived import with_derived
from orchestrator.results.history.rows import Row
from tests.results.archives.samples import FEBRUARY, JANUARY, make_store, names, quiet

NAME = JANUARY[0]
RECORD = RunRecord(run=NAME, started="2026-01-03T02:00:00Z", ended="2026-01-03T03:00:00Z")
ROW = Row(run=NAME, cell="p.w.f32@cpu", attempt=1, status="pass", details='{"golden": "recorded"}')
KEY = b"lighthouse-ci"


def forged(record: RunRecord = RECORD, *, rows: int = 1, **changed: object) -> bytes:
    """An archive with one row again and again."""
    row = dataclasses.replace(ROW, **changed)  # type: ignore[arg-type]
    return encode((table_of([row] * rows),), Archive(runs=(record,)))


def with_metadata(text: bytes) -> bytes:
    table = with_derived(table_of([ROW])).replace_schema_metadata({KEY: text})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def with_table(change: Callable[[pa.Table], pa.Table]) -> bytes:
    table = change(with_derived(table_of([ROW])))
    metadata = {KEY: records.dumps(Archive(runs=(RECORD,))).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return bytes(sink.getvalue())


def nulls(table: pa.Table) -> pa.Table:
    index = table.schema.get_field_index("message")
    return table.set_column(index, "message", pa.array([None], pa.string()))


def of_run(name: str) -> RunRecord:
    return dataclasses.replace(RECORD, run=name)


def document(**changed: object) -> bytes:
    whole = {"runs": [records.encode(RECORD)], "schema": ARCHIVE_SCHEMA, **changed}
    return json.dumps(whole).encode()


DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "no Parquet": (lambda: b"<html>", "is damaged"),
    "cut short": (lambda: forged()[:-100], "is damaged"),
    "empty": (lambda: b"", "is damaged"),
    "no metadata": (lambda: with_table(lambda t: t).replace(KEY, b"x" * 13), "no archive of res"),
    "metadata that is no JSON": (lambda: with_metadata(b"\xff\xfe{"), "is damaged"),
    "metadata that is no object": (lambda: with_metadata(b"[]"), "is "),
    "deep metadata": (lambda: with_metadata(DEEP.encode()), "is damaged"),
    "unknown keys": (lambda: with_metadata(document(more=1)), "unknown key 'more'"),
    "runs that are no list": (lambda: with_metadata(document(runs=7)), "expected a list"),
    "a later version": (lambda: with_metadata(document(schema=99)), "schema 99, and this program"),
    "declared is no object": (lambda: with_metadata(document(declared=[])), "an object"),
    "declared nonsense": (lambda: with_metadata(document(declared={"x": 1})), "declares"),
    "deep declared": (
        lambda: with_metadata(document(declared={"x": 1}).replace(b"1}", DEEP.encode() + b"}")),
        "is damaged",
    ),
    "a missing column": (lambda: with_table(lambda t: t.drop_columns(["agent"])), "agent"),
    "another column": (
        lambda: with_table(lambda t: t.append_column("x", pa.array([1]))),
        r"x \(int64\)",
    ),
    "a wrong type": (
        lambda: with_table(
            lambda t: t.set_column(
                t.schema.get_field_index("attempt"), "attempt", pa.array(["1"], pa.string())
            )
        ),
        r"attempt \(string\)",
    ),
    "a run with path parts": (lambda: forged(of_run("../../etc/x"), run="../../etc/x"), "etc/x"),
    "a run that begins like one": (lambda: forged(of_run(f"{NAME}/../x")), "is damaged"),
    "a run twice": (
        lambda: encode((table_of([ROW]),), Archive(runs=(RECORD, RECORD))),
        "Archive.runs",
    ),
    "rows of another run": (lambda: forged(run=FEBRUARY[0]), "that it does not name"),
    "scattered rows": (
        lambda: encode(
            (table_of([ROW, dataclasses.replace(ROW, run=JANUARY[1]), ROW]),),
            Archive(runs=(RECORD, of_run(JANUARY[1]))),
        ),
        "in several places",
    ),
    "a cell with path parts": (lambda: forged(cell="../../x"), "which no matrix makes"),
    "a cell that a terminal acts on": (lambda: forged(cell="\x1b]0;x\x07"), "no matrix makes"),
    "a long cell": (lambda: forged(cell="x" * 5000), "a text of 5,000 bytes in `cell`"),
    "a status that is none": (lambda: forged(status="<b>"), "has a status"),
    "no value": (lambda: with_table(nulls), "has no value in a row of `message`"),
    "a long text": (lambda: forged(message="x" * (2 << 20)), "bytes in `message`"),
    "no JSON": (lambda: forged(details="{'a': 1}"), "something else than JSON in `details`"),
    "JSON that is no object": (lambda: forged(content="[1]"), "no object, or too deep"),
    "JSON too deep for the parser": (
        lambda: forged(details=f'{{"a": {DEEP}}}'),
        "something else than JSON",
    ),
    "deep JSON": (
        lambda: forged(surroundings=f'{{"a": {"[" * 100}1{"]" * 100}}}'),
        "no object, or too deep",
    ),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one."""
    return make_store(tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_by_name(store: Store, tmp_path: Path, name: str) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / "forged.parquet"
    path.write_bytes(make())
    with pytest.raises(InfrastructureError, match=message) as caught:
        list(add_archive(store, path))
    assert str(caught.value).startswith(str(path))
    assert names(store) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_named_and_passed_over_where_it_lies_in_a_store(
    store: Store, tmp_path: Path, name: str
) -> None:
    good = RunRecord(run=JANUARY[2], started="", ended="")
    store.objects.create(f"{JANUARY[2]}.parquet", forged(good, run=JANUARY[2]))
    store.objects.create(f"{NAME}.parquet", HOSTILE[name][0]())
    found = verify(store, quiet)
    assert (found.archives, len(found.problems)) == (1, 1)
    assert f"{NAME}.parquet" in found.problems[0]


def test_the_same_without_the_fault_is_taken(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "honest.parquet"
    path.write_bytes(forged())
    assert [each.outcome for each in add_archive(store, path)] == ["added"]


def test_a_small_file_does_not_become_a_large_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_MOST_TEXT_BYTES", 1 << 20)
    path = tmp_path / "bomb.parquet"
    path.write_bytes(forged(message="x" * 10_000, rows=200))
    assert path.stat().st_size < 20_000
    with pytest.raises(InfrastructureError, match="2,000,000 bytes of text in `message`"):
        list(add_archive(store, path))


def test_too_many_rows_are_not_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_MOST_ROWS", 99)
    path = tmp_path / "many.parquet"
    path.write_bytes(forged(rows=100))
    with pytest.raises(InfrastructureError, match="is too large: 100 rows"):
        list(add_archive(store, path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{JANUARY[1]}.parquet", f"is named after run {JANUARY[1]} and has others"),
        ("2026-02.0123456789abcdef.parquet", f"has run {NAME}, which is not of 2026-02"),
        ("latest.parquet", "is named after no run or month"),
    ],
)
def test_a_name_that_does_not_fit(store: Store, name: str, message: str) -> None:
    store.objects.create(name, forged())
    (problem,) = verify(store, quiet).problems
    assert message in problem
