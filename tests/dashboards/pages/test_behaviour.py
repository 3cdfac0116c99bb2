"""What pages do: by keyboard, by address."""

from __future__ import annotations

from typing import Any

import pytest

from dashboards.documents import LETTERS, Kind
from dashboards.kinds import kind
from dashboards.nights import STATUSES
from orchestrator.results.alike import normalised
from tests.dashboards.pages.conftest import Sites, fragment, opened
from tests.dashboards.pages.sample import AFTER, BEFORE, MESSAGE, cells, state

pytestmark = pytest.mark.browser


def focused(page: Any) -> str:
    """What the focused element is called."""
    name: str = page.evaluate(
        "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText)"
    )
    return name.strip()


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
