"""Every page, from disk and from a server, in both themes, on a desktop and on a phone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboards.pages.conftest import PAGES, PHONE, Sites, opened, ready

pytestmark = pytest.mark.browser

WAYS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("file", "light", {}),
    ("file", "dark", {"viewport": PHONE}),
    ("http", "dark", {}),
    ("http", "light", {"viewport": PHONE}),
)
"""Any two of transport, theme and width are together in one."""


@pytest.fixture(scope="module")
def axe() -> Any:
    """The checker of accessibility."""
    sync = pytest.importorskip("axe_playwright_python.sync_playwright")
    return sync.Axe()


def accessible(axe: Any, page: Any) -> None:
    """Fails with what the checker finds."""
    # styles are of the page's own files: the policy does not let the checker read them again
    found = axe.run(page, options={"resultTypes": ["violations"], "preload": False})
    assert not found.response["violations"], found.generate_report()


@pytest.mark.parametrize("href", PAGES)
@pytest.mark.parametrize(("way", "theme", "options"), WAYS)
def test_a_page_is_whole(
    chromium: Any, sites: Sites, axe: Any, href: str, way: str, theme: str, options: dict[str, Any]
) -> None:
    root = sites.addresses[way]
    with opened(chromium, root + href, color_scheme=theme, **options) as (page, watch):
        ready(page)
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        assert not watch.complaints
        assert not watch.outside(root)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], "the page scrolls sideways"
        accessible(axe, page)


@pytest.mark.parametrize("way", ["file", "http"])
def test_what_is_opened_later_is_whole_too(chromium: Any, sites: Sites, axe: Any, way: str) -> None:
    root = sites.addresses[way]
    shown = f"{root}index.html#open=pytorch_cpu&status=F"
    with opened(chromium, shown, color_scheme="dark") as (page, watch):
        page.wait_for_selector("#finder tbody tr")
        page.wait_for_selector("tr.sub")
        assert not watch.complaints
        assert not watch.outside(root)
        accessible(axe, page)


@pytest.mark.parametrize("href", PAGES)
def test_it_says_what_it_has_without_scripts(chromium: Any, sites: Sites, href: str) -> None:
    url = sites.addresses["file"] + href
    with opened(chromium, url, java_script_enabled=False) as (page, watch):
        assert page.locator("noscript").inner_text().startswith("This page works without")
        assert page.locator("h1").inner_text()
        assert not page.locator("[data-script]").first.is_visible()
        assert not watch.complaints


def test_on_paper_everything_is_there(chromium: Any, sites: Sites) -> None:
    with opened(chromium, sites.addresses["file"] + "index.html") as (page, _):
        page.emulate_media(media="print")
        assert not page.locator(".tools").is_visible()
        assert page.locator("#grid").is_visible()
        assert (
            page.locator(".scroll").first.evaluate("node => getComputedStyle(node).overflowX")
            == "visible"
        )
