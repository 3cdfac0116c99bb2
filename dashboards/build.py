"""From results to a site."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from dashboards import documents as doc
from dashboards.agents import agents_page
from dashboards.badges import badges
from dashboards.cells import cell_pages
from dashboards.expectations import expectations_page
from dashboards.facts import Facts, Options
from dashboards.feeds import feeds
from dashboards.nights import nights_of, slug
from dashboards.pipelines import pipeline_pages
from dashboards.render import assets, render
from dashboards.series import Histories, cell_lists, groups, night_columns, night_list
from dashboards.site import Site, Written
from dashboards.tonight import tonight
from dashboards.trends import trends_page
from dashboards.workloads import workload_pages
from orchestrator import __version__
from orchestrator.results.history.source import Found
from orchestrator.results.history.table import load

_PUBLISHED: tuple[type, ...] = (
    *(doc.TonightPage, doc.CellPage, doc.PipelinePage, doc.WorkloadPage, doc.ComparePage),
    *(doc.AgentsPage, doc.ExpectationsPage, doc.TrendsPage, doc.SiteData, doc.NightList),
    *(doc.NightColumns, doc.CellList, doc.History),
)
"""Records whose JSON is in the site; each has its schema in `data/schema/`."""
_NAV = (
    doc.Link(href="index.html", text="Tonight"),
    doc.Link(href="compare.html", text="Compare"),
    doc.Link(href="trends.html", text="Trends"),
    doc.Link(href="agents.html", text="Pools and agents"),
    doc.Link(href="expectations.html", text="Expectations"),
)


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build came to."""

    night: str
    """Empty: there are no results."""
    nights: int
    cells: int
    counts: Mapping[str, int]
    """Of the newest night, by status."""
    written: Written


def build(
    found: Found, out: Path, options: Options, url: str, progress: Callable[[str], None]
) -> Built:
    """Writes the site of some results to a folder.

    Args:
        found: where results are.
        out: the site's folder; a new one, or one that has a site.
        options: what results do not say.
        url: where the site will be, for feeds; empty: their addresses are relative.
        progress: told what is going on.

    Raises:
        UsageError: `out` has something else in it.
        InfrastructureError: results are damaged, or the site cannot be written.
    """
    progress("reading results")
    nights = nights_of(load(found.sources))
    facts = Facts(nights, options, found.problems)
    site = Site(out, _version())
    progress("writing pages")
    for path, data in assets().items():
        site.add(f"assets/{path}", data)
    _write_pages(facts, site)
    progress("writing data")
    _write_data(facts, site)
    for path, data in (*feeds(facts, url), *badges(facts)):
        site.add(path, data)
    for record in _PUBLISHED:
        site.add(f"data/schema/{record.__name__}.json", _schema(record))
    return Built(
        night=facts.night,
        nights=len(nights.nights),
        cells=len(nights.cells),
        counts=nights.counts(facts.last) if nights.nights else {},
        written=site.finish(),
    )


def _write_pages(facts: Facts, site: Site) -> None:
    for href, page in _pages(facts):
        path = href.removesuffix(".html")
        source = to_json(page)
        site.add(f"{path}.json", source)
        chrome = _chrome(facts.options.title, href, page)
        site.add(href, source + to_json(chrome), _renderer(page, chrome))


def _renderer(page: Any, chrome: doc.Chrome) -> Callable[[], bytes]:
    return lambda: render(page, chrome).encode("utf-8", "replace")


def _pages(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Address and record of every page."""
    yield "index.html", tonight(facts)
    yield "compare.html", doc.ComparePage(night=facts.night, previous=facts.previous)
    yield "agents.html", agents_page(facts)
    yield "expectations.html", expectations_page(facts)
    yield "trends.html", trends_page(facts)
    if not facts.nights.nights:
        return
    for pipeline in pipeline_pages(facts):
        yield f"pipelines/{slug(pipeline.pipeline)}.html", pipeline
    for workload in workload_pages(facts):
        yield f"workloads/{slug(workload.workload)}.html", workload
    for cell, page in zip(facts.nights.cells, cell_pages(facts), strict=True):
        yield cell.href, page


def _chrome(title: str, href: str, page: Any) -> doc.Chrome:
    feeds = [doc.Link(href="feeds/all.xml", text="all regressions")]
    if isinstance(page, (doc.PipelinePage, doc.CellPage)):
        address = f"feeds/pipeline/{slug(page.pipeline)}.xml"
        feeds.append(doc.Link(href=address, text=f"regressions of {page.pipeline}"))
    return doc.Chrome(
        title=title,
        root="../" * href.count("/") or "./",
        href=href,
        nav=_NAV,
        json_href=f"{href.removesuffix('.html')}.json",
        feeds=tuple(feeds),
    )


def _write_data(facts: Facts, site: Site) -> None:
    for name, record in _data(facts):
        text = to_json(record)
        site.add(f"data/{name}.json", text)
        # what a page on a disk may load: a script, not a document
        call = b"lighthouse.data(" + orjson.dumps(name) + b"," + text.rstrip() + b");\n"
        site.add(f"data/{name}.js", call)


def _data(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Name and record of what scripts load."""
    yield (
        "site",
        doc.SiteData(
            title=facts.options.title,
            night=facts.night,
            started=facts.started,
            expected_hours=facts.options.expected_hours,
        ),
    )
    lists = cell_lists(facts)
    yield "nights", night_list(facts, lists.of_night)
    for digest, each in lists.lists.items():
        yield f"cells/{digest}", each
    for index, night in enumerate(facts.nights.nights):
        yield f"night/{night}", night_columns(facts, index, lists.of_night[index])
    histories = Histories(facts)
    for group, cells in groups(facts):
        for month in histories.months:
            history = histories.of(month, cells)
            if history.series:
                yield f"history/{group}/{month}", history


def to_json(record: Any) -> bytes:
    """A record's JSON: sorted keys, UTF-8, no number that is none; ends with a line end."""
    option = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(record, option=option)


@cache
def _schema(record: type) -> bytes:
    document = TypeAdapter(record).json_schema()
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _version() -> str:
    """Over everything that pages are made with: when it differs, every page is made again."""
    here = Path(__file__).parent
    found = hashlib.sha256(__version__.encode())
    for path in sorted(here.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            data = path.read_bytes()
            name = path.relative_to(here).as_posix()
            found.update(f"\0{name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:16]
