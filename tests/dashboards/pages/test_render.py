"""Pages as texts: what they are made of, whatever results say."""

from __future__ import annotations

import dataclasses
import gzip
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from dashboards import documents as doc
from dashboards.headline import headline
from dashboards.render import CONTENT_SECURITY_POLICY, assets, charts, render
from tests.dashboards.pages import records
from tests.dashboards.pages.conftest import PAGES
from tests.dashboards.pages.hostile import hostile
from tests.dashboards.pages.sample import Sample, chrome, sample


class Shape(HTMLParser):
    """Elements, the names of their attributes, and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.inline: list[str] = []
        self._script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes note of it."""
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._script = tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        """Takes note of scripts."""
        if self._script and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Ends a script."""
        self._script = False


def shapes(site: Sample) -> dict[str, Shape]:
    """Of every page."""
    return {href: Shape(render(page, chrome(href))) for href, page in site.pages.items()}


@pytest.mark.parametrize("site", [sample(), hostile(names=True)], ids=["plain", "hostile"])
def test_no_page_has_a_script_or_a_style_in_it(site: Sample) -> None:
    for href, shape in shapes(site).items():
        names = {name for _, attributes in shape.elements for name in attributes}
        assert not shape.inline, href
        assert "style" not in names
        assert not [name for name in names if name.startswith("on")]
        assert {tag for tag, _ in shape.elements}.isdisjoint({"style", "iframe", "form", "base"})


def test_the_policy_comes_before_anything_that_it_is_for() -> None:
    for href, page in sample().pages.items():
        head = render(page, chrome(href)).split("<title>")[0]
        policy = head.index("Content-Security-Policy")
        assert CONTENT_SECURITY_POLICY.replace("'", "&#39;") in head
        assert not re.search(r"<(script|link|style)", head[:policy])


def test_hostile_texts_change_no_element_of_any_page() -> None:
    plain, attacked = shapes(sample()), shapes(hostile())
    for href in PAGES:
        # an address that is none becomes text: of links, only those with a web address may go
        expected = [each for each in plain[href].elements if each != ("a", ("href", "rel"))]
        found = [each for each in attacked[href].elements if each != ("a", ("href", "rel"))]
        assert found == expected, href


def test_no_link_runs_a_script() -> None:
    for href, shape in shapes(hostile(names=True)).items():
        for link in shape.links:
            assert re.match(r"(\.{1,2}/|#|https://)", link), (href, link)


def test_every_text_is_on_its_page() -> None:
    text = render(records.tonight(), chrome("index.html"))
    for said in ("An alarm: damaged.", "Xid 48: double-bit error", "no machine serves it"):
        assert said in text


@pytest.mark.parametrize("href", PAGES)
def test_pages_and_files_are_the_same_every_time(href: str) -> None:
    page = sample().pages[href]
    assert render(page, chrome(href)) == render(sample().pages[href], chrome(href))
    assert list(assets()) == sorted(assets())


def test_the_library_of_charts_keeps_its_names_to_itself() -> None:
    text = charts().decode()
    assert text.startswith("(()=>{")
    assert text.rstrip().endswith("})();")
    assert "window.vegaEmbed=" in text


# --- weight -----------------------------------------------------------------------------------


def test_the_main_page_of_a_large_matrix_is_light() -> None:
    """7,000 cells in 12 pipelines on 14 pools, on a night on which much happened."""
    small = records.tonight()
    pools = tuple(f"pool-{n}" for n in range(14))
    square = small.matrix[0].tallies[0]
    group = dataclasses.replace(small.matrix[0], tallies=(square,) * len(pools))
    page = dataclasses.replace(
        small,
        pools=pools,
        matrix=tuple(dataclasses.replace(group, pipeline=f"pipeline_{n}") for n in range(12)),
        news=tuple(
            dataclasses.replace(each, text=f"{n}: {each.text}", cells=each.cells * 4)
            for n in range(12)
            for each in small.news
        ),
        nodata=small.nodata * 40,
    )
    files = assets()
    loaded = [render(page, chrome("index.html")).encode()]
    loaded += [files[name] for name in ("site.css", "theme.js", "app.js", "cells.js", "index.js")]
    assert sum(len(gzip.compress(each)) for each in loaded) <= 100_000


# --- headline ---------------------------------------------------------------------------------


def night(**changed: Any) -> doc.TonightPage:
    """A night on which nothing happened."""
    quiet = dataclasses.replace(
        records.tonight(), news=(), agents=(), nodata=(), counts={"pass": 9}, alarms=()
    )
    return dataclasses.replace(quiet, **changed)


def news(kind: doc.NewsKind) -> tuple[doc.News, ...]:
    """What of the sample is of a kind."""
    return tuple(each for each in records.tonight().news if each.kind == kind)


@pytest.mark.parametrize(
    ("page", "level", "text"),
    [
        (night(night=""), "unknown", "There are no results yet."),
        (night(), "green", "Green, as on 2026-11-19: no cell is red."),
        (
            night(counts={"fail": 1}),
            "same",
            "As on 2026-11-19: 1 cell is red, nothing new.",
        ),
        (
            night(news=news("fixed"), counts={"error": 2}),
            "better",
            "Better than 2026-11-19: 3 cells got well; 2 cells are red.",
        ),
        (
            night(news=news("regression") + news("fixed"), counts={"fail": 3}),
            "worse",
            "Worse than 2026-11-19: 3 cells went red and 3 cells got well.",
        ),
        (
            night(news=news("vanished")),
            "worse",
            "Worse than 2026-11-19: 3 cells vanished.",
        ),
        (
            night(previous="", counts={"xpass": 1}),
            "worse",
            "The first night with results: 1 cell is red.",
        ),
    ],
)
def test_the_headline_says_whether_it_is_worse(
    page: doc.TonightPage, level: str, text: str
) -> None:
    assert (headline(page).level, headline(page).text) == (level, text)


def test_an_unexpected_pass_alone_is_no_quiet_night() -> None:
    found = headline(night(news=news("xpass"), counts={"xpass": 3}))
    assert found.text == "Worse than 2026-11-19: 3 cells passed unexpectedly."


@pytest.mark.parametrize(
    ("page", "blames"),
    [
        (night(), ("", "", "")),
        (night(news=news("regression")), ("pytorch_cpu at lower:vectorize (3 cells)", "", "")),
        (
            night(news=news("new-failure") + news("xpass")),
            ("", "pytorch_cpu at lower:vectorize (6 cells)", ""),
        ),
        (night(agents=records.tonight().agents), ("", "", "sick: lab-3")),
        (night(nodata=records.tonight().nodata), ("", "", "no verdict on 1 cell")),
    ],
)
def test_the_headline_tells_the_compiler_from_machines(
    page: doc.TonightPage, blames: tuple[str, ...]
) -> None:
    assert tuple(blame.text for blame in headline(page).blames) == blames
