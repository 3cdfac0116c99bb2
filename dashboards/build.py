"""From results to a site."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from dashboards import documents as doc
from dashboards.agents import agents_page
from dashboards.badges import badges
from dashboards.beside import beside
from dashboards.cells import cell_pages
from dashboards.expectations import expectations_page
from dashboards.facts import Facts, Options, Registered
from dashboards.feeds import feeds
from dashboards.memory import Memory
from dashboards.nights import nights_of, slug
from dashboards.origin import Origin
from dashboards.pipelines import pipeline_pages
from dashboards.render import assets, charts, charts_version, keep_compiled, render
from dashboards.series import (
    Histories,
    cell_lists,
    columns,
    groups,
    night_columns,
    night_list,
)
from dashboards.site import Site, Written
from dashboards.tonight import tonight
from dashboards.trends import trends_page
from dashboards.workloads import workload_pages
from orchestrator import __version__, results
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
    found: Found,
    out: Path,
    options: Options,
    *,
    url: str = "",
    memory: Path | None = None,
    progress: Callable[[str], None],
) -> Built:
    """Writes the site of some results to a folder.

    Args:
        found: where results are.
        out: the site's folder; a new one, or one that has a site.
        options: what results do not say.
        url: where the site will be, for feeds; empty: their addresses are relative.
        memory: where to keep what was judged, for the next time.
        progress: told what is going on.

    Raises:
        UsageError: `out` has something else in it.
        InfrastructureError: results are damaged, or the site cannot be written.
    """
    progress("reading results")
    table = load(found.sources, memory and memory / "columns")
    version, registered = _version(), options.agents(table)
    site, origin = Site(out, version), _origin(found, options, registered, url)
    if (said := site.made_of(origin)) is not None:
        return Built(**said, written=site.unchanged)
    nights = nights_of(table)
    facts = Facts(nights, options, found.problems, Memory(memory, version), registered)
    if memory is not None:
        keep_compiled(memory / "templates", version)
    site.begin()
    progress("writing pages and data")
    facts.judge()
    with beside(partial(site.part, partial(_write_others, facts, site))) as others:
        _write_pages(_pages(facts), facts, site)
        for path, data in (*feeds(facts, url), *badges(facts)):
            site.add(path, data)
        site.take(others())
    says: dict[str, Any] = {
        "night": facts.night,
        "nights": len(nights.nights),
        "cells": len(nights.cells),
        "counts": nights.counts(facts.last) if nights.nights else {},
    }
    return Built(**says, written=site.finish(origin, says))


def _origin(found: Found, options: Options, registered: Mapping[str, Registered], url: str) -> str:
    """A digest of all that a site is made of, besides the version that makes it."""
    parts = (
        tuple(source.digest.hex() for source in found.sources),
        (found.problems, options.title, options.expected_hours, url, charts_version()),
        sorted(registered.items()),
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()


def _write_others(facts: Facts, site: Site) -> None:
    """About half of the work; what it makes is asked for nowhere else."""
    for path, data in assets().items():
        site.add(f"assets/{path}", data)
    site.add("assets/charts.js", charts_version().encode(), charts)
    for record in _PUBLISHED:
        site.add(f"data/schema/{record.__name__}.json", b"", partial(_schema, record))
    _write_pages(_other_pages(facts), facts, site)
    _write_data(facts, site)


def _write_pages(pages: Iterable[tuple[str, Any]], facts: Facts, site: Site) -> None:
    for href, page in pages:
        path = href.removesuffix(".html")
        source = to_json(page)
        site.add(f"{path}.json", source)
        if isinstance(page, doc.TrendsPage):
            site.add(f"data/{path}.js", _script(path, source))
        title = facts.options.title
        # what else is around a page follows from its address, and from the page itself
        site.add(href, source + title.encode("utf-8", "replace"), _renderer(page, title, href))


def _renderer(page: Any, title: str, href: str) -> Callable[[], bytes]:
    return lambda: render(page, _chrome(title, href, page)).encode("utf-8", "replace")


def _pages(facts: Facts) -> Iterator[tuple[str, Any]]:
    """Address and record of every page that is not among `_other_pages`."""
    yield "index.html", tonight(facts)
    yield "compare.html", doc.ComparePage(night=facts.night, previous=facts.previous)
    yield "agents.html", agents_page(facts)
    yield "expectations.html", expectations_page(facts)
    if not facts.nights.nights:
        return
    for pipeline in pipeline_pages(facts):
        yield f"pipelines/{slug(pipeline.pipeline)}.html", pipeline
    for cell, page in zip(facts.nights.cells, cell_pages(facts), strict=True):
        yield cell.href, page


def _other_pages(facts: Facts) -> Iterator[tuple[str, Any]]:
    yield "trends.html", trends_page(facts)
    if facts.nights.nights:
        for workload in workload_pages(facts):
            yield f"workloads/{slug(workload.workload)}.html", workload


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
    """What scripts load. What a night or a month says depends on nothing that comes later, so
    that what was made of the same archives is not made again.
    """
    compared = tuple(columns(facts))
    lists = cell_lists(facts, compared)
    head = doc.SiteData(
        title=facts.options.title,
        night=facts.night,
        started=facts.started,
        expected_hours=facts.options.expected_hours,
    )
    _add(site, "site", to_json(head))
    _add(site, "nights", to_json(night_list(facts, compared, lists.of_column)))
    for digest, each in lists.lists.items():
        _add(site, f"cells/{digest}", to_json(each))
    origin = Origin(facts)
    for column, listed in zip(compared, lists.of_column, strict=True):
        source = origin.of(facts.nights.nights[column.night]) + listed.encode()
        _add(site, f"night/{column.name}", source, partial(night_columns, facts, column, listed))
    histories, found = Histories(facts), list(groups(facts))
    for month, nights in histories.months.items():
        source = origin.until(facts.nights.nights[nights[-1]])
        for group, cells in histories.there(month, found):
            _add(site, f"history/{group}/{month}", source, partial(histories.of, month, cells))


def _add(site: Site, name: str, source: bytes, make: Callable[[], Any] | None = None) -> None:
    """A record's JSON, and the script that gives it to pages, which may load no document from a
    disk; `source` is the JSON itself, or what the record that `make` gives is made from.
    """
    text = cache((lambda: source) if make is None else (lambda: to_json(make())))
    site.add(f"data/{name}.json", source, text)
    site.add(f"data/{name}.js", source, lambda: _script(name, text()))


def _script(name: str, text: bytes) -> bytes:
    return b"lighthouse.data(" + orjson.dumps(name) + b"," + text.rstrip() + b");\n"


def to_json(record: Any) -> bytes:
    """A record's JSON: sorted keys, UTF-8, no number that is none; ends with a line end."""
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


@cache
def _schema(record: type) -> bytes:
    document = TypeAdapter(record).json_schema()
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _version() -> str:
    """Over everything that pages are made with: when it differs, every page is made again."""
    found = hashlib.sha256(__version__.encode())
    for folder in (Path(__file__).parent, Path(results.__file__).parent):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                data = path.read_bytes()
                name = path.relative_to(folder).as_posix()
                found.update(f"\0{name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:16]
