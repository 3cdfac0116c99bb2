"""What the benchmark of the dashboard measures with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import asv_project, weigh
from benchmarks.child import Cost, measured
from benchmarks.dashboard import Peer, Report, Site, table
from benchmarks.history.events import Parameters
from benchmarks.weigh import Folder, Paint, Weight
from tests.benchmarks.year import Year


@pytest.mark.process
def test_a_command_is_measured(tmp_path: Path) -> None:
    hungry = "data = bytearray(200 << 20); print(len(data))"
    cost = measured([sys.executable, "-c", hungry], tmp_path)
    assert 200 << 20 < cost.peak_bytes < 600 << 20
    assert cost.wall_s > 0
    assert cost.cpu_s > 0


@pytest.mark.process
def test_a_command_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)exit 3.*no luck"):
        measured([sys.executable, "-c", "print('no luck'); raise SystemExit(3)"], tmp_path)


@pytest.mark.process
def test_a_year_in_the_form_of_airspeed_velocity(year: Year, tmp_path: Path) -> None:
    conf = json.loads(asv_project.write(year.folder, tmp_path / "asv").read_text())
    results = Path(conf["results_dir"])
    nights = [night for night in year.planted.nights if night.run]
    files = sorted((results / "fleet").glob("*-*.json"))
    assert len(files) == len(nights)
    benchmarks = json.loads((results / "benchmarks.json").read_text())
    assert set(benchmarks) - {"version"} == {row.cell for row in year.rows}
    by_date = {each["date"]: each for each in map(json.loads, map(Path.read_text, files))}
    first = by_date[min(by_date)]
    passed = {
        cell
        for cell in year.nights[nights[0].night]
        if year.status(nights[0].night, cell) == "pass"
    }
    assert set(first["results"]) == passed
    for values in first["results"].values():
        named = dict(zip(first["result_columns"], values, strict=True))
        (low,), (high,) = named["stats_ci_99_a"], named["stats_ci_99_b"]
        assert low <= named["result"][0] <= high
    assert {e["commit_hash"][:8] for e in by_date.values()} == {f.name[:8] for f in files}


def test_the_heaviest_page_counts_what_it_loads(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "app.js").write_text("x" * 5000)
    (tmp_path / "feed.xml").write_text("x" * 90_000)
    (tmp_path / "plain.html").write_text("<p>" + "y" * 3000)
    (tmp_path / "sub" / "page.html").write_text(
        '<link rel="alternate" href="../feed.xml"><script src="../app.js" defer></script>'
    )
    (tmp_path / "small.html").write_text('<img src="https://example.org/x.png">')
    assert weigh.heaviest(tmp_path, 2) == ["sub/page.html", "plain.html"]
    assert weigh.folder(tmp_path).files == 5


def test_the_table_has_every_measurement() -> None:
    cost = Cost(wall_s=12.3, cpu_s=11.0, peak_bytes=512 << 20)
    report = Report(
        parameters=Parameters(series=7000, nights=300, seed=1),
        load=0.5,
        processors=2,
        site=Site(
            full=cost,
            nothing_new=cost,
            one_more_night=cost,
            folder=Folder(files=1234, bytes=99 << 20),
            index=Weight(page="index.html", raw=200 << 10, gzipped=40 << 10, files=5),
            heaviest=Weight(page="a.html", raw=250 << 10, gzipped=50 << 10, files=6),
            paint=Paint(first_contentful=210.0, matrix=321.0),
        ),
        asv=Peer(publish=cost, folder=Folder(files=7000, bytes=60 << 20), index_json=1 << 20),
    )
    text = table(report)
    for told in ("12.3 s", "512 MiB", "1,234 files", "40 KiB", "50 KiB", "321 ms", "asv publish"):
        assert told in text
