"""Regressions as Atom feeds: of everything, of each pipeline, of each pool."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

import numpy as np

from dashboards.facts import FEW, Facts
from dashboards.nights import STATUSES, is_red, is_verdict, slug
from dashboards.texts import one_line
from orchestrator.results.alike import normalised
from orchestrator.text import plural

_ATOM = "http://www.w3.org/2005/Atom"
_NIGHTS = 60
_ENTRIES = 50
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 does not allow, however it is written."""


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Cells that became red on one night in the same way."""

    night: str
    started: str
    """UTC, ISO 8601: of the night's newest run."""
    pipeline: str
    pools: tuple[str, ...]
    status: str
    phase: str
    message: str
    cells: tuple[str, ...]
    href: str
    """The page of the first."""


def regressions(facts: Facts) -> tuple[Regression, ...]:
    """Those of the newest nights, the newest first."""
    nights = facts.nights
    found: list[Regression] = []
    for night in range(facts.last, max(0, facts.last - _NIGHTS), -1):
        before = nights.verdict_night[:, night - 1]
        was = nights.status[np.arange(len(nights.cells)), before]
        new = is_red(nights.status[:, night]) & (before >= 0) & is_verdict(was) & ~is_red(was)
        found += _together(facts, night, np.flatnonzero(new).tolist())
    return tuple(found)


def _together(facts: Facts, night: int, cells: list[int]) -> Iterator[Regression]:
    nights = facts.nights
    groups: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells:
        message = normalised(nights.text("message", cell, night))
        key = (nights.cells[cell].pipeline, nights.text("phase", cell, night), message)
        groups.setdefault(key, []).append(cell)
    for (pipeline, phase, _), mine in sorted(groups.items()):
        first = nights.cells[mine[0]]
        yield Regression(
            night=nights.nights[night],
            started=nights.runs[night][-1].started,
            pipeline=pipeline,
            pools=tuple(sorted({nights.cells[cell].pool for cell in mine})),
            status=STATUSES[int(nights.status[mine[0], night])],
            phase=phase,
            message=one_line(nights.text("message", mine[0], night)),
            cells=tuple(nights.cells[cell].id for cell in mine),
            href=first.href,
        )


def feeds(facts: Facts, url: str) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every feed; a cell that never was red has its feeds all the same."""
    found = regressions(facts)
    title = facts.options.title
    yield "feeds/all.xml", _feed(f"{title}: regressions", found, "feeds/all.xml", facts, url)
    cells = [facts.nights.cells[index] for index in np.flatnonzero(facts.expected)]
    for name in sorted({cell.pipeline for cell in cells}):
        path = f"feeds/pipeline/{slug(name)}.xml"
        mine = [each for each in found if each.pipeline == name]
        yield path, _feed(f"{title}: regressions of {name}", mine, path, facts, url)
    for name in sorted({cell.pool for cell in cells}):
        path = f"feeds/pool/{slug(name)}.xml"
        mine = [each for each in found if name in each.pools]
        yield path, _feed(f"{title}: regressions on {name}", mine, path, facts, url)


def _feed(
    title: str,
    entries: tuple[Regression, ...] | list[Regression],
    path: str,
    facts: Facts,
    url: str,
) -> bytes:
    """Addresses are absolute where the site's is known, else relative to the feed."""
    root = url.rstrip("/") + "/" if url else "../" * path.count("/")
    feed = ET.Element("feed", xmlns=_ATOM)
    _text(feed, "title", title)
    _text(feed, "id", f"urn:lighthouse-ci:{path}")
    # a feed is as new as its newest entry, so that a quiet night leaves it as it is
    newest = entries[0].started if entries else _first_started(facts)
    _text(feed, "updated", newest)
    ET.SubElement(feed, "link", rel="self", href=root + path)
    ET.SubElement(feed, "link", rel="alternate", href=f"{root}index.html")
    _text(ET.SubElement(feed, "author"), "name", facts.options.title)
    for each in entries[:_ENTRIES]:
        _entry(feed, each, root)
    ET.indent(feed, " ")
    document: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _first_started(facts: Facts) -> str:
    runs = facts.nights.runs
    return runs[0][0].started if runs else "1970-01-01T00:00:00Z"


def _entry(feed: ET.Element, each: Regression, root: str) -> None:
    entry = ET.SubElement(feed, "entry")
    many = plural(len(each.cells), "cell")
    _text(entry, "title", f"{each.status}: {many} of {each.pipeline} in {each.phase}")
    key = "\0".join((each.night, each.pipeline, each.phase, each.cells[0]))
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]
    _text(entry, "id", f"urn:lighthouse-ci:regression:{digest}")
    _text(entry, "updated", each.started)
    ET.SubElement(entry, "link", href=root + each.href)
    shown = ", ".join(each.cells[:FEW]) + (", …" if len(each.cells) > FEW else "")
    _text(entry, "summary", f"{each.message}\n{shown}")


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, name).text = _NOT_XML.sub("\ufffd", text)
