"""What pages show to who reads them: of a cell, of charts, of their own age."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.pages.conftest import PAGES, Sites, fragment, opened, ready
from tests.dashboards.pages.sample import AFTER

pytestmark = pytest.mark.browser

RED_CELL, GREEN_CELL = PAGES[-2], PAGES[-1]


@pytest.mark.parametrize("way", ["file", "http"])
def test_the_command_is_copied(chromium: Any, sites: Sites, way: str) -> None:
    with opened(chromium, sites.addresses[way] + GREEN_CELL) as (page, _):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy: Command that runs").click()
        page.wait_for_function("() => document.getElementById('live').textContent !== ''")
        assert page.inner_text("#live") == "Copied to the clipboard"
        assert page.evaluate("navigator.clipboard.readText()") == (
            "nox -s pytorch_cpu -- --cell pytorch_cpu.gelu.f32@arm-cpu"
        )


def test_it_is_copied_where_the_clipboard_is_not_given(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["http"] + GREEN_CELL) as (page, _):
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.evaluate(
            "document.addEventListener('copy', () => { window.copied = String(getSelection()); })"
        )
        page.get_by_role("button", name="Copy: Command that runs").click()
        page.wait_for_function("() => document.getElementById('live').textContent !== ''")
        assert page.inner_text("#live") == "Copied to the clipboard"
        assert page.evaluate("window.copied").endswith("pytorch_cpu.gelu.f32@arm-cpu")


def test_the_strip_has_a_mark_a_night(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["file"] + RED_CELL) as (page, watch):
        page.wait_for_function("() => document.querySelectorAll('#strip .st').length === 38")
        assert not [url for url in watch.requests if "2026-09" in url]
        page.mouse.move(20, 20)
        page.wait_for_function("() => document.querySelectorAll('#strip .st').length === 57")
        marks = page.locator("#strip tbody tr").first.locator("td")
        assert marks.nth(3).inner_text().split() == ["F", "fail"]
        assert marks.nth(6).locator(".st").get_attribute("title") == "2026-11-07: miss, 2 attempts"
        assert marks.nth(19).inner_text() == ""


def test_charts_say_in_words_what_they_show(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["file"] + RED_CELL) as (page, watch):
        ready(page)
        titles = page.locator("figcaption b").all_inner_texts()
        assert titles == ["Stages", "Error", "Execution"]
        assert page.locator(".plot [role=img]").count() == 3
        page.get_by_text("The numbers").click()
        page.wait_for_selector(".numbers tbody tr")
        assert page.locator(".numbers tbody tr").count() == 57
        page.get_by_role("button", name="Theme").click()
        assert not watch.complaints


def test_a_choice_without_data_says_so(chromium: Any, sites: Sites) -> None:
    url = f"{sites.addresses['file']}trends.html"
    with opened(chromium, url) as (page, watch):
        ready(page)
        page.select_option("#by-pool", "arm-cpu")
        page.wait_for_selector("#speed-chart figure p")
        assert page.inner_text("#speed-chart figure p") == "No data for this choice."
        assert fragment(page) == {"pool": "arm-cpu"}
        assert not watch.complaints


# --- clock, theme, weight ---------------------------------------------------------------------


@pytest.mark.parametrize("href", ["index.html", RED_CELL])
@pytest.mark.parametrize(
    ("now", "words"),
    [
        (f"{AFTER}T02:30:13Z", "Newest run 30 minutes ago"),
        (f"{AFTER}T09:00:00Z", "Newest run 7 hours ago"),
        ("2026-11-21T03:59:00Z", "Newest run 26 hours ago"),
        ("2026-11-21T04:01:00Z", "Newest run 26 hours ago, late"),
        ("2026-11-24T02:00:13Z", "Newest run 4 days ago, late"),
    ],
)
def test_a_page_knows_its_age(chromium: Any, sites: Sites, href: str, now: str, words: str) -> None:
    with opened(chromium, "about:blank") as (page, _):
        page.clock.set_fixed_time(now)
        page.goto(sites.addresses["file"] + href)
        page.wait_for_function("() => document.querySelector('.tools .age').textContent !== ''")
        assert page.inner_text(".tools .age") == words
        alarms = page.get_by_role("alert").all_inner_texts()
        assert len(alarms) == (words.endswith("late") and href == "index.html")
        assert not alarms or "A night did not happen" in alarms[0]


@pytest.mark.parametrize("way", ["file", "http"])
def test_a_theme_is_kept(chromium: Any, sites: Sites, way: str) -> None:
    url = sites.addresses[way] + "index.html"
    with opened(chromium, url, color_scheme="light") as (page, _):
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Theme: auto").click()
        page.get_by_role("button", name="Theme: light").click()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark != light
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
        page.get_by_role("button", name="Theme: dark").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


@pytest.mark.parametrize("href", PAGES)
def test_a_page_is_light_until_somebody_reads_it(chromium: Any, sites: Sites, href: str) -> None:
    with opened(chromium, sites.addresses["file"] + href) as (page, watch):
        page.wait_for_function("() => document.querySelector('.tools .age').textContent !== ''")
        page.wait_for_load_state("networkidle")
        loaded = [Path(url.removeprefix("file://").split("#")[0]) for url in watch.requests]
        assert "charts.js" not in {path.name for path in loaded}
        size = sum(len(gzip.compress(path.read_bytes())) for path in loaded)
        assert size <= (100_000 if href == "index.html" else 300_000)


@pytest.mark.parametrize("href", ["index.html", RED_CELL])
def test_nothing_moves_while_a_page_loads(chromium: Any, sites: Sites, href: str) -> None:
    with opened(chromium, sites.addresses["http"] + href) as (page, _):
        page.wait_for_load_state("networkidle")
        moved = page.evaluate(
            """() => new Promise(resolve => {
              new PerformanceObserver(list => resolve(
                list.getEntries().reduce((sum, each) => sum + each.value, 0)
              )).observe({ type: 'layout-shift', buffered: true });
              requestAnimationFrame(() => requestAnimationFrame(() => resolve(0)));
            })"""
        )
        # what https://web.dev/articles/cls calls good
        assert moved <= 0.1


def test_a_site_that_is_not_whole_says_so(chromium: Any, sites: Sites, tmp_path: Path) -> None:
    page_ = (sites.folder / "compare.html").read_text(encoding="utf-8")
    (tmp_path / "compare.html").write_text(page_, encoding="utf-8")
    for name in ("site.css", "theme.js", "app.js", "cells.js", "compare.js"):
        target = tmp_path / "assets" / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((sites.folder / "assets" / name).read_bytes())
    with opened(chromium, f"{tmp_path.as_uri()}/compare.html") as (page, _):
        page.wait_for_selector("[role=alert]")
        assert page.inner_text("[role=alert]") == (
            "data/nights.js cannot be read: the site is not whole."
        )
