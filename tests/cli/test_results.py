"""`lh-ci results`: runs into a store, and answers out of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import SUM, Lab

FAILS = "SELECT cell, status FROM cells WHERE status <> 'skip' ORDER BY 1"


@pytest.fixture
def ran(lab: Lab) -> Lab:
    """A repository with two runs."""
    lab("run", SUM)
    lab("run", "torch_cpu")
    return lab


def archives(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.parquet"))


def test_all_runs_of_a_workspace_go_to_its_archive(ran: Lab) -> None:
    done = ran("results", "add")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("2 runs added, 0 already in ")
    store = ran.tree.root / ".lh" / "archive"
    assert archives(store) == sorted(f"{run.name}.parquet" for run in ran.runs.all())
    again = ran("results", "add")
    assert (again.exit_code, again.stdout.splitlines()) == (
        0,
        [f"0 runs added, 2 already in {store}"],
    )


def test_a_store_is_named_by_option_or_setting(ran: Lab, tmp_path: Path) -> None:
    ran("results", "add", "last", "--store", str(tmp_path / "one"))
    ran.environ["LH_STORE"] = str(tmp_path / "two")
    ran("results", "add", "last")
    assert archives(tmp_path / "one") == archives(tmp_path / "two") == [f"{ran.last.name}.parquet"]
    assert ran.json("results", "list")["store"] == str(tmp_path / "two")


def test_a_store_in_memory(ran: Lab, tmp_path: Path) -> None:
    ran.environ["LH_STORE"] = f"memory://{tmp_path}/x"
    assert ran("results", "add").exit_code == 0
    assert len(ran.json("results", "query", FAILS)["rows"]) == 4
    done = ran("dashboard", "--results", f"memory://{tmp_path}/x", "--out", str(tmp_path / "site"))
    assert (done.exit_code, "night " in done.stdout) == (0, True)


def test_other_peoples_archives_and_folders(ran: Lab, tmp_path: Path) -> None:
    ran("results", "add", "--store", str(tmp_path / "theirs"))
    ran.environ["LH_STORE"] = str(tmp_path / "ours")
    done = ran("results", "add", str(tmp_path / "theirs"), str(ran.last.folder), "--json")
    document = json.loads(done.stdout)
    assert [each["outcome"] for each in document["runs"]] == ["added", "added", "there"]
    (tmp_path / "bad.parquet").write_bytes(b"x")
    bad = ran("results", "add", str(tmp_path / "bad.parquet"))
    assert bad.exit_code == 4
    assert f"{tmp_path}/bad.parquet is damaged" in bad.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "2020-01-01T00-00-00"], "no run `2020-01-01T00-00-00`"),
        (["add", "recipes"], "recipes has no runs: name a run, its folder, or an archive"),
        (["list", "--store", "zzz://x"], "Protocol not known: zzz. A store's address is a folder"),
        (["query", "DROP VIEW runs"], "expected one SELECT, got DROP"),
        (["query", "SELECT 1", "--csv", "--json"], "--csv and --json contradict each other"),
        (["query", "SELECT 1", "--timeout", "long"], "`long` is no duration"),
    ],
)
def test_what_cannot_be_is_answered(ran: Lab, words: list[str], message: str) -> None:
    done = ran("results", *words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_run_that_differs_is_refused(ran: Lab) -> None:
    ran("results", "add", "last")
    info = ran.last.folder / "run.json"
    info.write_text(info.read_text().replace('"engine": "', '"engine": "another '))
    done = ran("results", "add", "last")
    assert done.exit_code == 2
    assert f"refused  {ran.last.name}: " in done.stdout


def test_a_run_that_was_stopped_is_left(ran: Lab) -> None:
    info = ran.last.folder / "run.json"
    document = json.loads(info.read_text())
    info.write_text(json.dumps({**document, "ended": None}))
    done = ran("results", "add")
    assert done.exit_code == 0
    assert f"left     {ran.last.name}: it was stopped: finish it" in done.stdout
    assert ran("results", "add", "last").exit_code == 2
    assert ran("results", "add", "last", "--as-is").exit_code == 0


def test_months_are_merged_when_they_are_over(ran: Lab) -> None:
    ran("results", "add")
    assert ran("results", "compact").stdout == "0 months merged, 0 archives removed\n"
    ran.engine.time.advance(40 * 24 * 3600)
    done = ran("results", "compact")
    assert done.stdout == "1 month merged, 2 archives removed\n"
    assert "merging 2 archives" in done.stderr
    assert ran.json("results", "compact")["removed"] == 0
    assert ran("results", "verify").stdout == "1 archive and 2 runs can be read\n"
    lines = ran("results", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == sorted(r.name for r in ran.runs.all())


def test_what_is_damaged_is_named(ran: Lab) -> None:
    ran("results", "add")
    path = ran.tree.root / ".lh" / "archive" / f"{ran.last.name}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    for words in (["list"], ["verify"]):
        done = ran("results", *words)
        assert done.exit_code == 4
        assert f"{path} is damaged" in done.stderr
    assert f"left out: {path} is damaged" in ran("results", "query", "FROM runs").stderr
    assert ran.json("results", "verify")["problems"]


def test_answers_as_table_csv_and_json(ran: Lab) -> None:
    ran("results", "add", "last")
    table = ran("results", "query", FAILS).stdout.splitlines()
    assert table[0].split() == ["cell", "status"]
    assert table[-1] == "3 rows"
    document = json.loads(ran("results", "query", FAILS, "--json").stdout)
    assert document["columns"] == ["cell", "status"]
    rows = list(csv.reader(io.StringIO(ran("results", "query", "-", "--csv", stdin=FAILS).stdout)))
    assert rows == [["cell", "status"], *document["rows"]]
    cut = ran("results", "query", FAILS, "--limit", "2").stdout.splitlines()
    assert cut[-1] == "2 rows, and more: --limit 20, --csv or --json"


def test_values_of_every_kind(ran: Lab) -> None:
    sql = (
        "SELECT 1 AS a, NULL AS b, 'nan'::DOUBLE AS c, [1, 2] AS d, {'x': DATE '2026-01-02'} AS e, "
        "TIMESTAMP '2026-01-02 03:04:05' AS f, 1.50::DECIMAL(5, 2) AS g, true AS h"
    )
    (row,) = json.loads(ran("results", "query", sql, "--json").stdout)["rows"]
    times = [{"x": "2026-01-02"}, "2026-01-02T03:04:05"]
    assert row == [1, None, None, [1, 2], *times, "1.50", True]


def test_a_table_does_nothing_to_a_terminal(ran: Lab) -> None:
    done = ran("results", "query", "SELECT chr(27) || '[31mred' || chr(10) || 'more' AS x")
    assert done.stdout.splitlines() == ["x", "red", "1 row"]


def test_cleaning_leaves_the_store(ran: Lab) -> None:
    ran("results", "add")
    ran("results", "query", "FROM runs")
    ran("clean", "--all")
    left = {path.name for path in (ran.tree.root / ".lh").iterdir()}
    assert "archive" in left
    assert "history" not in left
    assert ran("results", "verify").stdout == "2 archives and 2 runs can be read\n"
