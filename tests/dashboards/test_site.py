"""A site as a folder of files: whole, reproducible, brought up to date, never someone else's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pydantic import TypeAdapter

from benchmarks.history.writing import one_more
from dashboards import documents as doc
from dashboards.command import Options, make
from dashboards.site import MANIFEST, Site
from orchestrator.errors import InfrastructureError, UsageError


def quiet(_: str) -> None:
    """Nobody listens."""


def build(results: Path, out: Path, cache: Path) -> dict[str, int]:
    built = make(results, cache, out, Options(), "", quiet)
    return {"files": built.written.files, "written": built.written.written}


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def site(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(small, folder / "out", folder / "cache")
    return folder / "out"


def test_the_same_results_give_the_same_bytes(small: Path, site: Path, tmp_path: Path) -> None:
    build(small, tmp_path / "again", tmp_path / "cache")
    assert tree(tmp_path / "again") == tree(site)


def test_nothing_new_writes_nothing(small: Path, site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(site, copy)
    counted = build(small, copy, tmp_path / "cache")
    assert counted["written"] == 0
    assert tree(copy) == tree(site)


def test_one_more_night_gives_what_a_new_site_would_have(
    small: Path, site: Path, tmp_path: Path
) -> None:
    results, grown = tmp_path / "results", tmp_path / "grown"
    shutil.copytree(small, results)
    shutil.copytree(site, grown)
    build(results, grown, tmp_path / "cache")
    one_more(results)
    counted = build(results, grown, tmp_path / "cache")
    assert 0 < counted["written"] < counted["files"] * 2 / 3
    build(results, tmp_path / "new", tmp_path / "cache of another")
    assert tree(grown) == tree(tmp_path / "new")


def test_a_newest_night_that_goes_and_comes_again_is_no_other(small: Path, tmp_path: Path) -> None:
    results, out, cache = (tmp_path / name for name in ("results", "out", "cache"))
    shutil.copytree(small, results)
    build(results, out, cache)
    before = tree(out)
    newest = max(results.glob("????-??-??T*.parquet"))
    newest.rename(tmp_path / newest.name)
    build(results, out, cache)
    build(results, tmp_path / "new", tmp_path / "cache of another")
    assert tree(out) == tree(tmp_path / "new") != before
    (tmp_path / newest.name).rename(newest)
    build(results, out, cache)
    assert tree(out) == before


def test_what_is_told_otherwise_is_written(small: Path, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(site, out)
    written = []
    for title, url in (("Lighthouse CI", ""), ("Ours", ""), ("Ours", "https://example.org/")):
        built = make(small, tmp_path / "cache", out, Options(title=title), url, quiet)
        written.append(built.written.written)
    assert written[0] == 0 < written[2] < written[1]
    assert b"https://example.org/" in (out / "feeds/all.xml").read_bytes()


def test_pages_of_cells_that_no_result_has_go_away(small: Path, site: Path, tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    shutil.copytree(small, results)
    shutil.copytree(site, out)
    gone = sorted(results.glob("*.parquet"))[1:]
    for path in gone:
        path.unlink()
    build(results, out, tmp_path / "cache")
    build(results, tmp_path / "new", tmp_path / "cache")
    assert tree(out) == tree(tmp_path / "new")


def test_a_build_that_was_cut_short_is_made_good(small: Path, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(site, out)
    index = out / "index.html"
    index.write_bytes(index.read_bytes()[:100])
    manifest = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps({**manifest, "whole": False}))
    build(small, out, tmp_path / "cache")
    assert tree(out) == tree(site)


def test_a_file_that_somebody_removed_comes_back(small: Path, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(site, out)
    (out / "compare.html").unlink()
    assert build(small, out, tmp_path / "cache")["written"] == 1
    assert tree(out) == tree(site)


def test_a_folder_of_others_is_left_alone(small: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="no site of ours"):
        build(small, tmp_path, tmp_path.parent / "cache")
    assert tree(tmp_path) == {"thesis.tex": b"mine"}


def test_what_others_put_into_a_site_stays(small: Path, site: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(site, out)
    (out / "CNAME").write_text("mlir.example.org")
    build(small, out, tmp_path / "cache")
    assert (out / "CNAME").read_text() == "mlir.example.org"


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 99}'])
def test_a_damaged_manifest_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UsageError, match="--out"):
        Site(tmp_path, "1")


def test_two_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    site = Site(tmp_path / "out", "1")
    site.add("a.html", b"1")
    with pytest.raises(InfrastructureError, match="two pages"):
        site.add("a.html", b"2")


def test_a_new_version_makes_everything_again(tmp_path: Path) -> None:
    for version, written in (("1", 2), ("1", 0), ("2", 2)):
        site = Site(tmp_path / "out", version)
        site.begin()
        site.add("a/b.html", b"source", lambda: b"page")
        site.add("c.json", b"{}")
        assert site.finish().written == written
    site = Site(tmp_path / "out", "2")
    site.add("c.json", b"{}")
    assert site.finish().removed == 1
    assert not (tmp_path / "out" / "a").exists()


def test_no_results_are_a_site_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    built = make(tmp_path / "runs", tmp_path / "cache", tmp_path / "out", Options(), "", quiet)
    assert (built.night, built.cells) == ("", 0)
    assert (tmp_path / "out" / "index.html").is_file()


# --- what is in it -----------------------------------------------------------------------------

RECORDS: dict[str, type] = {
    "index.json": doc.TonightPage,
    "compare.json": doc.ComparePage,
    "agents.json": doc.AgentsPage,
    "expectations.json": doc.ExpectationsPage,
    "trends.json": doc.TrendsPage,
    "cells/*/*/*.json": doc.CellPage,
    "pipelines/*.json": doc.PipelinePage,
    "workloads/*.json": doc.WorkloadPage,
    "data/site.json": doc.SiteData,
    "data/nights.json": doc.NightList,
    "data/night/*.json": doc.NightColumns,
    "data/cells/*.json": doc.CellList,
    "data/history/*/*/*.json": doc.History,
}


@pytest.mark.parametrize("pattern", RECORDS)
def test_every_json_is_as_its_schema_says(site: Path, pattern: str) -> None:
    adapter: TypeAdapter[object] = TypeAdapter(RECORDS[pattern])
    paths = sorted(site.glob(pattern))
    assert paths
    for path in paths:
        adapter.validate_json(path.read_bytes())
    schema = json.loads((site / "data/schema" / f"{RECORDS[pattern].__name__}.json").read_text())
    assert schema == json.loads(json.dumps(adapter.json_schema()))


def test_every_json_belongs_to_a_record_a_schema_or_the_site(site: Path) -> None:
    known = {path for pattern in RECORDS for path in site.glob(pattern)}
    known |= set(site.glob("data/schema/*.json")) | {site / MANIFEST}
    assert set(site.rglob("*.json")) == known


def test_what_scripts_load_is_the_same_json(site: Path) -> None:
    scripts = sorted((site / "data").rglob("*.js"))
    assert scripts
    for path in scripts:
        name = path.relative_to(site / "data").with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        call = f"lighthouse.data({json.dumps(name)},"
        assert text.startswith(call)
        assert text.endswith(");\n")
        # what a page says itself is beside the page
        beside = site / f"{name}.json" if "/" not in name else path.with_suffix(".json")
        document = beside if beside.exists() else path.with_suffix(".json")
        assert json.loads(text.removeprefix(call).removesuffix(");\n")) == json.loads(
            document.read_text(encoding="utf-8")
        )


def test_feeds_are_atom_with_regressions(site: Path) -> None:
    atom = "{http://www.w3.org/2005/Atom}"
    paths = sorted((site / "feeds").rglob("*.xml"))
    assert len(paths) > 3
    for path in paths:
        feed = ET.parse(path).getroot()
        assert feed.tag == f"{atom}feed"
        for name in ("title", "id", "updated"):
            assert feed.findtext(atom + name)
        entries = feed.findall(f"{atom}entry")
        identities = [entry.findtext(f"{atom}id") for entry in entries]
        assert len(set(identities)) == len(identities)
        for entry in entries:
            link = entry.find(f"{atom}link")
            assert link is not None
            assert (path.parent / link.attrib["href"]).resolve().is_file()
    everything = ET.parse(site / "feeds/all.xml").getroot()
    assert everything.findall(f"{atom}entry")


def test_badges_are_pictures_with_words(site: Path) -> None:
    svg = "{http://www.w3.org/2000/svg}"
    paths = sorted((site / "badges").rglob("*.svg"))
    assert len(paths) > 3
    for path in paths:
        root = ET.parse(path).getroot()
        assert root.tag == f"{svg}svg"
        assert root.findtext(f"{svg}title")
