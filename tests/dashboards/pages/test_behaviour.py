"""What pages do: by keyboard, by address, by the clock."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from dashboards.documents import LETTERS, Kind
from dashboards.kinds import kind
from dashboards.nights import STATUSES
from orchestrator.results.alike import normalised
from tests.dashboards.pages.conftest import PAGES, Sites, opened, ready
from tests.dashboards.pages.sample import AFTER, BEFORE, MESSAGE, cells, state

pytestmark = pytest.mark.browser

RED_CELL, GREEN_CELL = PAGES[-2], PAGES[-1]


def focused(page: Any) -> str:
    """What the focused element is called."""
    name: str = page.evaluate(
        "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText)"
    )
    return name.strip()


def fragment(page: Any) -> dict[str, str]:
    """The filters in the address."""
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).fragment).items()}


# --- keyboard ---------------------------------------------------------------------------------


def test_the_main_page_by_keyboard(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["file"] + "index.html") as (page, watch):
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.locator("#grid .open").first.focus()
        assert focused(page) == "Cells of pytorch_cpu"
        page.keyboard.press("Enter")
        page.wait_for_selector("tr.sub")
        page.keyboard.press("ArrowRight")
        assert focused(page) == "pytorch_cpu"
        page.keyboard.press("ArrowRight")
        assert focused(page).startswith("pytorch_cpu on intel-cpu: fail at lower:vectorize, 4 of")
        page.keyboard.press("ArrowDown")
        assert focused(page) == "attention.f32 on intel-cpu: fail at lower:vectorize"
        page.keyboard.press("End")
        assert focused(page) == "attention.f32 on arm-cpu: fail at lower:vectorize"
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        page.wait_for_selector("tr.sub", state="detached")
        assert page.locator("#grid [tabindex='0']").count() == 1
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_selector("#finder tbody tr")
        assert fragment(page) == {"pipeline": "pytorch_cpu", "pool": "intel-cpu"}
        assert not watch.complaints


def test_focus_is_seen(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["file"] + "index.html") as (page, _):
        seen = set()
        for _step in range(40):
            page.keyboard.press("Tab")
            outline = page.evaluate(
                "(() => { const style = getComputedStyle(document.activeElement);"
                " return `${style.outlineStyle} ${style.outlineWidth}`; })()"
            )
            assert outline == "solid 2px", page.evaluate("document.activeElement.outerHTML")
            seen.add(page.evaluate("document.activeElement.outerHTML"))
        assert len(seen) == 40


# --- filters ----------------------------------------------------------------------------------


def expected(statuses: str = "", pool: str = "", message: str = "") -> list[str]:
    """Ids of cells of the second night."""
    found = []
    for cell in cells():
        status, _, said = state(cell, AFTER)
        fits = (not statuses or LETTERS[status] in statuses) and message in said
        if status != "none" and fits and pool in ("", cell.pool):
            found.append(cell.id)
    return found


def listed(page: Any) -> list[str]:
    """Ids in the list that was found."""
    page.wait_for_selector("#finder .found")
    ids: list[str] = page.locator("#finder tbody th").all_inner_texts()
    return ids


@pytest.mark.parametrize("way", ["file", "http"])
def test_a_view_is_in_the_address(chromium: Any, sites: Sites, way: str) -> None:
    url = f"{sites.addresses[way]}index.html#status=F,E&pool=intel-cpu&message=matched%20nothing"
    with opened(chromium, url) as (page, _):
        wanted = expected("FE", "intel-cpu", MESSAGE)
        assert listed(page) == wanted
        found = page.inner_text("#finder .found")
        assert found == f"{len(wanted)} of {len(expected())} cells"
        assert page.input_value("#by-pool") == "intel-cpu"
        page.select_option("#by-pool", "arm-cpu")
        assert fragment(page)["pool"] == "arm-cpu"
        assert listed(page) == expected("FE", "arm-cpu", MESSAGE)
        page.get_by_role("button", name="Clear filters").click()
        assert fragment(page) == {}
        assert listed(page) == expected()


def test_counts_say_what_a_filter_would_leave(chromium: Any, sites: Sites) -> None:
    url = f"{sites.addresses['file']}index.html#pool=nvidia-gpu"
    with opened(chromium, url) as (page, _):
        listed(page)
        toggle = page.locator(".toggle", has_text="fail").first
        assert toggle.locator(".n").inner_text() == str(len(expected("F", "nvidia-gpu")))
        options = page.locator("#by-pool option").all_inner_texts()
        assert f"intel-cpu ({len(expected(pool='intel-cpu'))})" in options


def test_text_is_searched_as_words(chromium: Any, sites: Sites) -> None:
    with opened(chromium, f"{sites.addresses['file']}index.html#q=GPU%20mlp") as (page, _):
        assert listed(page) == ["pytorch_gpu.mlp.bf16@nvidia-gpu", "pytorch_gpu.mlp.f32@nvidia-gpu"]
        page.fill("#by-q", "no such cell")
        assert listed(page) == []
        assert page.inner_text("#finder .found").startswith("0 of")


# --- comparisons ------------------------------------------------------------------------------


def changed() -> dict[str, Kind]:
    """The kind of every cell that differs, by the rule that the rest of the site has."""
    found = {}
    for cell in cells():
        (was, phase, said), (now, phase_now, said_now) = (
            state(cell, night) for night in (BEFORE, AFTER)
        )
        alike = (was, phase, normalised(said)) == (now, phase_now, normalised(said_now))
        difference = kind(STATUSES.index(was), STATUSES.index(now), alike)
        if difference:
            found[cell.id] = difference
    return found


def compared(page: Any) -> dict[str, str]:
    """Cells that the page lists, by their kind."""
    page.wait_for_selector(".results > *", state="attached")
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    page.wait_for_function("() => !document.querySelector('details.kind:not(:has(table))')")
    found: dict[str, str] = page.evaluate(
        """Object.fromEntries([...document.querySelectorAll('details.kind')].flatMap(each =>
          [...each.querySelectorAll('tbody th')].map(cell => [cell.innerText, each.dataset.kind])
        ))"""
    )
    return found


@pytest.mark.parametrize("way", ["file", "http"])
def test_two_nights_differ_as_everywhere_else(chromium: Any, sites: Sites, way: str) -> None:
    with opened(chromium, f"{sites.addresses[way]}compare.html") as (page, watch):
        assert compared(page) == changed()
        assert len(set(changed().values())) == 7
        assert not watch.complaints


def test_a_comparison_is_in_the_address(chromium: Any, sites: Sites) -> None:
    url = f"{sites.addresses['file']}compare.html#pool=arm-cpu&kind=regression,fixed"
    with opened(chromium, url) as (page, _):
        wanted = {
            cell: each
            for cell, each in changed().items()
            if cell.endswith("@arm-cpu") and each in ("regression", "fixed")
        }
        assert compared(page) == wanted
        page.get_by_role("button", name="Swap").click()
        page.wait_for_function("() => document.querySelector('#night-before').value > '2026-11-19'")
        assert fragment(page)["before"] == AFTER
        page.wait_for_function("() => document.querySelectorAll('details.kind').length === 2")
        swapped = compared(page)
        assert swapped["pytorch_cpu.gelu.f32@arm-cpu"] == "regression"
        assert swapped["pytorch_cpu.matmul.f32@arm-cpu"] == "fixed"
        page.select_option("#night-after", AFTER)
        page.wait_for_function("() => !document.querySelector('[data-kind=regression]')")
        assert set(compared(page).values()) <= {"still-failing"}


def test_a_list_is_sorted_by_its_headings(chromium: Any, sites: Sites) -> None:
    with opened(chromium, f"{sites.addresses['file']}workloads/mlp.html") as (page, _):
        heading = page.locator("th", has_text="Error, of the tolerance")
        column = "table tbody tr td:nth-child(6)"
        for order, first in (("ascending", "0.41"), ("descending", "∞")):
            heading.get_by_role("button").click()
            assert heading.get_attribute("aria-sort") == order
            texts = page.locator(column).all_inner_texts()
            assert texts[0] == first
            assert texts[-1] == "–", "what is not known comes last, whichever way"


# --- a cell's page ----------------------------------------------------------------------------


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
        assert page.locator("figure [role=img]").count() == 3
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
