"""Questions: what views have, what nobody gets at, and an index that is never stale."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import LighthouseError, UsageError
from orchestrator.results.archives.compact import compact
from orchestrator.results.archives.query import Limits, ask
from orchestrator.results.archives.store import Store
from tests.results.archives.samples import (
    FEBRUARY,
    JANUARY,
    TODAY,
    add,
    make_run,
    make_store,
    names,
    quiet,
)


def answer(store: Store, sql: str, limits: Limits | None = None) -> list[tuple[Any, ...]]:
    with ask(store, sql, limits or Limits(), quiet) as found:
        return [tuple(row) for row in found.rows]


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path, template: Store) -> Store:
    """Four runs in a folder."""
    return make_store(tmp_path, "folder", template)


def test_the_three_views(store: Store) -> None:
    assert answer(store, "SELECT count(*), count(DISTINCT run) FROM attempts") == [(12, 4)]
    assert answer(store, "SELECT status, count(*) FROM cells GROUP BY 1 ORDER BY 1") == [
        ("fail", 4),
        ("pass", 4),
        ("skip", 4),
    ]
    runs = answer(store, "SELECT run, night::VARCHAR, cells FROM runs ORDER BY 1")
    assert runs[0] == (JANUARY[0], "2026-01-03", 3)
    assert len(runs) == 4


def test_columns_are_made_for_questions(folder: Store) -> None:
    (row,) = answer(
        folder,
        "SELECT started::VARCHAR, queued_seconds, stages, details->>'$.golden' FROM attempts "
        f"WHERE run = '{JANUARY[0]}' AND cell = 'b'",
    )
    assert row == ("2026-01-03 02:00:00", None, [], "recorded")


def test_the_last_attempt_is_the_highest_that_is_there(folder: Store, tmp_path: Path) -> None:
    run = make_run(tmp_path / "gap", "2026-01-10T02-00-00")
    (run.folder / "results" / "a.1.json").unlink()
    add(folder, run)
    text = f"SELECT attempt FROM cells WHERE run = '{run.name}' AND cell = 'a'"
    assert answer(folder, text) == [(2,)]


def test_parts_of_a_cell_are_columns(tmp_path: Path) -> None:
    store, run = make_store(tmp_path), make_run(tmp_path / "runs", JANUARY[0])
    document = run.folder / "results" / "b.1.json"
    name = "pytorch_cpu.my.mlp.f32@amd-cpu"
    text = document.read_text().replace('"cell": "b"', f'"cell": "{name}"')
    document.with_name(f"{name}.1.json").write_text(text)
    add(store, run)
    where = f"WHERE cell = '{name}'"
    assert answer(store, f"SELECT pipeline, workload, variant, pool FROM attempts {where}") == [
        ("pytorch_cpu", "my.mlp", "f32", "amd-cpu")
    ]


def test_an_empty_store_answers(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert answer(store, "SELECT count(*) FROM cells") == [(0,)]


class TestIndex:
    """It follows the archives."""

    def paths(self, store: Store) -> list[Path]:
        return list(store.cache.glob("index-*.duckdb"))

    def test_it_is_made_once(self, folder: Store) -> None:
        said: list[str] = []
        for _ in range(3):
            with ask(folder, "SELECT 1", Limits(), said.append):
                pass
        assert said == ["making the index"]
        assert len(self.paths(folder)) == 1

    def test_it_is_made_again_when_runs_came_or_went(self, folder: Store, tmp_path: Path) -> None:
        count = "SELECT count(*) FROM runs"
        assert answer(folder, count) == [(4,)]
        add(folder, make_run(tmp_path / "more", "2026-02-02T02-00-00"))
        assert answer(folder, count) == [(5,)]
        compact(folder, TODAY, quiet)
        assert answer(folder, count) == [(5,)]
        folder.objects.remove(names(folder)[0])
        assert answer(folder, count) == [(2,)]
        assert answer(folder, "SELECT count(DISTINCT run) FROM cells") == [(2,)]

    @pytest.mark.parametrize("damage", [None, b"", b"no database", b"\0" * 20_000])
    def test_it_can_be_thrown_away_or_damaged(self, folder: Store, damage: bytes | None) -> None:
        answer(folder, "SELECT 1")
        (path,) = self.paths(folder)
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        assert answer(folder, "SELECT count(*) FROM runs") == [(4,)]

    def test_a_run_in_several_archives_counts_once(
        self, folder: Store, tmp_path: Path, template: Store
    ) -> None:
        compact(folder, "2026-02-01", quiet)
        for name in names(template):
            folder.objects.create(name, template.objects.read(name))
        (month,) = (name for name in names(folder) if name.startswith("2026-01."))
        folder.objects.create("2026-01.parquet", folder.objects.read(month))
        add(folder, make_run(tmp_path / "late", "2026-01-20T02-00-00"))
        compact(folder, "2026-02-01", quiet)
        folder.objects.create(month, template.objects.read(names(template)[0]))
        assert answer(folder, "SELECT count(*), count(DISTINCT run) FROM attempts") == [(15, 5)]

    def test_a_month_of_which_only_some_runs_count(self, tmp_path: Path, template: Store) -> None:
        months = []
        for extra in ("2026-01-10T02-00-00", "2026-01-11T02-00-00"):
            one = make_store(tmp_path, "folder", template)
            add(one, make_run(tmp_path / extra, extra))
            compact(one, "2026-02-01", quiet)
            months.append((names(one)[0], one))
        both = make_store(tmp_path)
        for name, one in months:
            both.objects.create(name, one.objects.read(name))
        assert answer(both, "SELECT count(*), count(DISTINCT run) FROM attempts") == [(15, 5)]
        assert answer(both, "SELECT count(*) FROM runs") == [(5,)]

    def test_what_is_damaged_is_left_out_and_told(self, folder: Store) -> None:
        name = f"{FEBRUARY[0]}.parquet"
        folder.objects.remove(name)
        folder.objects.create(name, b"PAR1")
        for _ in range(2):  # made, and read
            with ask(folder, "SELECT count(*) FROM runs", Limits(), quiet) as found:
                assert list(found.rows) == [(3,)]
                assert len(found.problems) == 1
                assert name in found.problems[0]


ESCAPES = (
    "COPY (SELECT 1) TO '{out}'",
    "COPY runs TO '{archive}'",
    "WITH x AS (COPY (SELECT 1) TO '{out}') SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{archive}' (use_tmp_file false)) SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{index}' (use_tmp_file false)) SELECT 1",
    "WITH x AS (COPY (SELECT 1) TO '{index}.wal' (use_tmp_file false)) SELECT 1",
    "SELECT * FROM read_blob('{index}')",
    "WITH x AS (INSERT INTO runs SELECT * FROM runs) SELECT 1",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_parquet('{archive}')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('{archive}')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "SELECT * FROM read_csv('s3://bucket/x.csv')",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{out}''')",
    "SELECT getenv('HOME')",
    "SELECT * FROM folder",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL httpfs FROM 'http://example.org'",
    "ATTACH '{out}' AS other",
    "ATTACH 'postgres://example.org/x' AS other (TYPE postgres)",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW cells AS SELECT 1",
    "CREATE SECRET s (TYPE s3)",
    "DROP VIEW attempts",
    "DELETE FROM runs",
    "INSERT INTO runs SELECT * FROM runs",
    "UPDATE runs SET cells = 0",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW cells",
    "",
    "-- nothing",
    "nonsense",
    "SELECT nothing FROM runs",
)


@pytest.mark.parametrize("sql", ESCAPES)
def test_nobody_gets_out(folder: Store, tmp_path: Path, sql: str) -> None:
    answer(folder, "SELECT 1")
    before = files(tmp_path)
    archive = folder.path(folder.entries()[0][0])
    (index,) = folder.cache.glob("index-*")
    text = sql
    for mark, path in (("out", tmp_path / "out"), ("archive", archive), ("index", index)):
        text = text.replace(f"{{{mark}}}", str(path))
    with pytest.raises(UsageError):
        answer(folder, text)
    assert files(tmp_path) == before
    assert answer(folder, "SELECT count(*) FROM runs") == [(4,)]


def test_settings_of_the_sandbox(folder: Store) -> None:
    names = ("enable_external_access", "lock_configuration", "autoload_known_extensions")
    for name, value in zip(names, (False, True, False), strict=True):
        assert answer(folder, f"SELECT current_setting('{name}')") == [(value,)]
    assert answer(folder, "SELECT current_setting('allowed_paths')") == [([],)]


def test_it_ends_when_its_time_is_over(folder: Store) -> None:
    with pytest.raises(LighthouseError, match=r"longer than 0.2 s: ask for less, or --timeout"):
        answer(folder, "SELECT count(*) FROM range(1000000000000)", Limits(seconds=0.2))


def test_it_ends_when_it_takes_too_much_memory(folder: Store) -> None:
    with pytest.raises(UsageError, match=r"needs more than 64 MiB: ask for less, or --memory"):
        answer(
            folder,
            "SELECT list(x) FROM range(30000000) t(x)",
            Limits(memory_bytes=64 << 20),
        )


def test_rows_come_as_they_are_asked_for(folder: Store) -> None:
    with ask(folder, "SELECT range FROM range(100000)", Limits(), quiet) as found:
        assert next(iter(found.rows)) == (0,)
        assert sum(1 for _ in found.rows) == 99_999


def test_numbers_that_are_none_are_null(folder: Store) -> None:
    (row,) = answer(folder, "SELECT max(error) FROM attempts")
    assert row == (None,)
    assert not math.isnan(answer(folder, "SELECT sum(seconds) FROM attempts")[0][0])
