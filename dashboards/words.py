"""Numbers and names as texts of a page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote
from zlib import crc32

from dashboards.documents import LETTERS

STATUSES_IN_WORDS: Mapping[str, str] = {
    "pass": "passed",
    "fail": "failed: the compiler",
    "error": "error: our own definitions",
    "miss": "missed: a machine gave no verdict",
    "skip": "skipped: not runnable",
    "xfail": "failed as expected",
    "xpass": "passed, though a failure is expected",
    "none": "no data",
}
"""Status to what it says, and of whom."""

KINDS_IN_WORDS: Mapping[str, str] = {
    "first": "first seen",
    "regression": "regression",
    "new-failure": "new failure",
    "xpass": "passes unexpectedly",
    "vanished": "vanished",
    "fixed": "fixed",
    "flaky": "flaky",
    "still-failing": "still failing",
    "slower": "slower",
    "faster": "faster",
    "new-pass": "new pass",
    "same": "no change that counts",
    "appeared": "appeared",
    "disappeared": "disappeared",
}
"""Kinds of changes, of news and of transitions."""

_SPACE = re.compile(r"\s+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.:-]+")
_UNITS = ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3), (60.0, "s", 1.0))
"""Below so many seconds: the unit, and how many of it are a second."""


def duration(seconds: float | None) -> str:
    """Three digits and a unit: `1.24 ms`, `3 min 20 s`, `2 h 5 min`; `–` for None."""
    if seconds is None:
        return "–"
    if not math.isfinite(seconds):
        return "∞" if seconds > 0 else "?"
    if seconds < 0:
        return f"−{duration(-seconds)}"
    for below, unit, factor in _UNITS:
        if seconds < below:
            return f"{seconds * factor:.3g} {unit}" if seconds else "0 s"
    whole = round(seconds)
    if whole < 3600:
        return _two(whole, 60, "min", "s")
    return _two(round(seconds / 60), 60, "h", "min")


def _two(value: int, per: int, large: str, small: str) -> str:
    high, low = divmod(value, per)
    return f"{high:,} {large} {low} {small}" if low else f"{high:,} {large}"


def number(value: float | None, digits: int = 3) -> str:
    """`7,000`, `0.0123`; `–` for None."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "not a number")
    return f"{value:.{digits}g}"


def percent(share: float) -> str:
    """`98 %`; no rounding to 0 or 100 of what is neither."""
    if not math.isfinite(share):
        return "?"
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{100 * share:.0f} %"


def difference(now: int, before: int) -> str:
    """`+3`, `−2`; empty where nothing changed."""
    step = now - before
    return f"+{step:,}" if step > 0 else f"−{-step:,}" if step else ""


def plural(count: int, one: str, many: str = "") -> str:
    """`1 cell`, `7,000 cells`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def one_line(text: str) -> str:
    """A text without line breaks."""
    return _SPACE.sub(" ", text).strip()


def letter(status: str) -> str:
    """Of a status; `?` for one that this version does not know."""
    return LETTERS.get(status, "?")


def word(status: str) -> str:
    """What a status means, in a few words."""
    return STATUSES_IN_WORDS.get(status, status)


def known(status: str) -> str:
    """A status as the name of a style; `none` for one that this version does not know."""
    return status if status in LETTERS else "none"


def url(path: str) -> str:
    """A path as an address: what has a meaning in addresses is quoted."""
    return quote(path, safe="/@:+,=~!$*;", errors="replace")


def moment(started: str) -> str:
    """`2026-11-20 21:04 UTC` of an ISO 8601 time."""
    return f"{started[:10]} {started[11:16]} UTC" if len(started) >= 16 else started


def anchor(name: str) -> str:
    """A name as the id of an element: different names give different ids."""
    plain = _NOT_PLAIN.sub("-", name)
    return plain if plain == name else f"{plain}-{crc32(name.encode('utf-8', 'replace')):08x}"


def is_web(text: str) -> bool:
    """Whether a text is the address of a web page, and so may be a link."""
    return re.fullmatch(r"https?://[^\s\"'<>\\]+", text) is not None


def pipeline_of(cell: str) -> str:
    """The first part of a cell's id."""
    return cell.partition(".")[0]


def workload_of(row: str) -> str:
    """Of a row of a grid, `workload.variant`."""
    return row.rpartition(".")[0]


def total(counts: Mapping[str, int]) -> int:
    """All cells of some counts."""
    return sum(counts.values())


FILTERS: Mapping[str, Callable[..., Any]] = {
    "duration": duration,
    "number": number,
    "percent": percent,
    "difference": difference,
    "plural": plural,
    "one_line": one_line,
    "letter": letter,
    "word": word,
    "known": known,
    "url": url,
    "moment": moment,
    "anchor": anchor,
    "is_web": is_web,
    "pipeline_of": pipeline_of,
    "total": total,
    "workload_of": workload_of,
}
