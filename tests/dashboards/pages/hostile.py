"""The sample with texts from an attacker in it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from benchmarks.history.payloads import LINKS, TEXTS
from dashboards import documents as doc
from tests.dashboards.pages.conftest import PAGES
from tests.dashboards.pages.sample import Sample, sample

_KEPT = {
    *("href", "hrefs", "json_href", "root", "status", "worst", "statuses", "before"),
    *("night", "previous", "started", "month", "months", "nights", "missing"),
}
"""What the builder makes itself, of dates, digests and a closed set of words."""
_NAMES = {"pipeline", "workload", "variant", "pool"}
"""Of a cell's page: its history is at an address made of them."""
_TIER = {"tier"}
"""Another one makes another table."""


def hostile(names: bool = False) -> Sample:
    """Every text of every record attacks; `names`: those that change what a page has, too."""
    texts = attacks()
    plain = sample()
    pages = {href: _page(plain.pages[href], texts, names) for href in PAGES}
    return Sample(pages=pages, data={n: _data(n, r, texts) for n, r in plain.data.items()})


def attacks() -> Iterator[str]:
    """Each has all payloads, and begins with another one."""
    everything = " ".join(TEXTS)
    for first in itertools.cycle((*LINKS, *TEXTS)):
        yield f"{first} {everything}"


def _page(page: Any, texts: Iterator[str], names: bool) -> Any:
    if names:
        return _record(page, texts, _KEPT)
    return _record(
        page, texts, _KEPT | _TIER | (_NAMES if isinstance(page, doc.CellPage) else set())
    )


def _data(name: str, record: Any, texts: Iterator[str]) -> Any:
    if isinstance(record, doc.CellList):
        ids = tuple(f"{next(texts)}.{n}.x@{next(texts)}" for n in range(len(record.cells)))
        stacks = tuple(next(texts) for _ in record.stacks)
        hrefs = dict.fromkeys(ids, PAGES[-1])
        return dataclasses.replace(record, cells=ids, stacks=stacks, hrefs=hrefs)
    if isinstance(record, doc.NightColumns):
        phases, messages = (
            ("", *(next(texts) for _ in column[1:])) for column in (record.phases, record.messages)
        )
        return dataclasses.replace(record, phases=phases, messages=messages)
    if isinstance(record, doc.History):
        return dataclasses.replace(
            record, series={key: _series(each, texts) for key, each in record.series.items()}
        )
    return _record(record, texts, _KEPT | {"cells"}) if name == "trends" else record


def _series(series: doc.Series, texts: Iterator[str]) -> doc.Series:
    return dataclasses.replace(series, stages={next(texts): c for c in series.stages.values()})


def _record(record: Any, texts: Iterator[str], kept: set[str]) -> Any:
    hints = get_type_hints(type(record))
    return dataclasses.replace(
        record,
        **{
            each.name: _value(getattr(record, each.name), texts, kept)
            for each in dataclasses.fields(record)
            if each.name not in kept and not _closed(hints[each.name])
        },
    )


def _closed(hint: Any) -> bool:
    """Whether a field has one of a few words."""
    return get_origin(hint) is Literal or any(get_origin(a) is Literal for a in get_args(hint))


def _value(value: Any, texts: Iterator[str], kept: set[str]) -> Any:
    if isinstance(value, str):
        return next(texts) if value else value
    if dataclasses.is_dataclass(value):
        return _record(value, texts, kept)
    if isinstance(value, Mapping):
        # counts are by status, which is a closed set; all others have texts on both sides
        if all(isinstance(each, int) for each in value.values()):
            return value
        return {next(texts): _value(each, texts, kept) for each in value.values()}
    if isinstance(value, tuple):
        return tuple(_value(each, texts, kept) for each in value)
    return value
