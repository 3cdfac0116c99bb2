"""Texts from an attacker, in a browser: nothing runs, nothing is asked for, nothing breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboards.pages.conftest import BASE, PAGES, PHONE, Sites, opened, ready, served
from tests.dashboards.pages.hostile import hostile

pytestmark = pytest.mark.browser

_LOOK = """() => ({
  pwned: window.__pwned, polluted: ({}).polluted,
  scripts: [...document.scripts].map(each => each.src),
  strange: [...document.querySelectorAll(
    'iframe,object,embed,base,style,math,svg script,svg image'
  )].map(each => each.outerHTML),
  handlers: [...document.querySelectorAll('*')].filter(each =>
    [...each.attributes].some(attribute => attribute.name.startsWith('on'))).length,
  links: [...document.querySelectorAll('a')].map(each => each.protocol),
  forms: [...document.forms].filter(each => each.hasAttribute('action')).length,
})"""


@pytest.fixture(scope="module")
def attacking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A site in which every text attacks."""
    folder = tmp_path_factory.mktemp("attacking")
    hostile().write(folder / BASE)
    with served(folder) as found:
        yield found


def unharmed(page: Any, watch: Any, root: str) -> None:
    """Fails for anything that a text made happen."""
    found = page.evaluate(_LOOK)
    assert found["pwned"] is None
    assert found["polluted"] is None
    assert [each for each in found["scripts"] if not each.startswith(root)] == []
    assert found["strange"] == []
    assert found["handlers"] == 0
    assert found["forms"] == 0
    assert set(found["links"]) <= {"file:", "http:", "https:"}
    assert watch.complaints == []
    assert watch.outside(root) == []


@pytest.mark.parametrize("href", PAGES)
@pytest.mark.parametrize(("way", "options"), [("file", {}), ("http", {"viewport": PHONE})])
def test_a_page_is_unharmed(
    chromium: Any, attacking: Sites, href: str, way: str, options: dict[str, Any]
) -> None:
    root = attacking.addresses[way]
    with opened(chromium, root + href, **options) as (page, watch):
        ready(page)
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        page.eval_on_selector_all("select", _CHOOSE)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= page.viewport_size["width"], "the page scrolls sideways"
        unharmed(page, watch, root)


_CHOOSE = """all => all.forEach(each => {
  each.selectedIndex = each.options.length - 1;
  each.dispatchEvent(new Event('change'));
})"""


def test_search_shows_texts_as_texts(chromium: Any, attacking: Sites) -> None:
    root = attacking.addresses["file"]
    with opened(chromium, f"{root}index.html#q=onerror&message=script") as (page, watch):
        page.wait_for_selector("#finder tbody tr")
        page.eval_on_selector_all("#finder select", _CHOOSE)
        for button in page.query_selector_all("#grid .open"):
            button.click()
        assert "<script>" in page.inner_text("body")
        unharmed(page, watch, root)


def test_what_a_chart_shows_under_the_pointer_is_text(chromium: Any, attacking: Sites) -> None:
    root = attacking.addresses["file"]
    with opened(chromium, root + PAGES[-2]) as (page, watch):
        ready(page)
        page.locator("#plots svg .mark-rect path").first.hover()
        page.wait_for_selector(".tip:not([hidden])")
        assert "onerror" in page.inner_text(".tip")
        unharmed(page, watch, root)


def test_pages_of_a_hostile_year_are_unharmed(chromium: Any, attacked: Sites) -> None:
    root = attacked.addresses["file"]
    cells = sorted(attacked.folder.rglob("cells/**/*.html"))
    some = [*attacked.folder.glob("*.html"), *attacked.folder.glob("pipelines/*.html"), *cells[::9]]
    assert len(some) > 15
    for path in some:
        with opened(chromium, root + quote(str(path.relative_to(attacked.folder)))) as (
            page,
            watch,
        ):
            page.mouse.move(10, 10)
            page.wait_for_load_state("networkidle")
            unharmed(page, watch, root)
