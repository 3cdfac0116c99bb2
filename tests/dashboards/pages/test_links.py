"""Every link of every page leads to something that is there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.dashboards.pages.conftest import Sites, opened
from tests.dashboards.pages.sample import sample


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.twice: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.twice += [value] if value in self.ids else []
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


def test_links_and_places_are_there(tmp_path: Path) -> None:
    sample().write(tmp_path)
    assert checked(tmp_path) == len(sample().pages)


def test_links_of_a_hostile_year_are_there(attacked: Sites) -> None:
    texts = [each.read_text(encoding="utf-8") for each in attacked.folder.rglob("cells/**/*.html")]
    assert any("does not have this cell any more" in text for text in texts)
    assert checked(attacked.folder) > len(texts)


def checked(folder: Path) -> int:
    """How many pages a site has, all of whose links are good."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        assert page.twice == [], path
        for link in page.links:
            if link.startswith(("https://", "http://")):
                continue
            address, _, place = link.partition("#")
            target = (path.parent / unquote(address)).resolve() if address else path
            assert target.is_file(), f"{path}: {link}"
            # with a = it is a filter
            if place and "=" not in place:
                assert unquote(place) in pages[target].ids, f"{path}: {link}"
    return len(pages)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("href", "links"),
    [
        ("index.html#open=pytorch_cpu,pytorch_gpu&status=F,E,X", "#grid tr.sub a, #finder a"),
        ("compare.html", ".results a"),
    ],
)
def test_links_that_scripts_make_are_there(
    chromium: Any, sites: Sites, href: str, links: str
) -> None:
    with opened(chromium, sites.addresses["file"] + href) as (page, _):
        page.wait_for_selector(links)
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        found = page.eval_on_selector_all(links, "all => all.map(each => each.href)")
        assert len(found) > 20
        for link in set(found):
            assert Path(unquote(link.removeprefix("file://"))).is_file(), link
