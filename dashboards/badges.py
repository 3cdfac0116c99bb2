"""Badges: one small picture for each pipeline and pool, and one for everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from dashboards.facts import Facts
from dashboards.nights import slug
from dashboards.tally import tally
from dashboards.texts import one_line

_COLORS = {
    "pass": "#1a7f37",
    "fail": "#b42318",
    "error": "#8a3ffc",
    "miss": "#8a5a00",
    "none": "#5b6470",
}
"""Each with white text on it has a contrast of at least 4.5 to 1."""
_CHARACTER = 6.6
"""Width of a character of 11 px text, in px, about: the text is stretched to what is reserved."""
_PADDING = 6
_HEIGHT = 20


def badges(facts: Facts) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of every badge."""
    expected = np.flatnonzero(facts.expected).tolist() if facts.nights.nights else []
    yield "badges/all.svg", _badge("MLIR end to end", tally(facts, expected) if expected else {})
    for kind, key in (("pipeline", "pipeline"), ("pool", "pool")):
        groups: dict[str, list[int]] = {}
        for index in expected:
            groups.setdefault(getattr(facts.nights.cells[index], key), []).append(index)
        for name, cells in sorted(groups.items()):
            yield f"badges/{kind}/{slug(name)}.svg", _badge(name, tally(facts, cells))


def _badge(name: str, counts: Mapping[str, int]) -> bytes:
    label = one_line(name, 40)
    text, color = _said(counts)
    left, right = (round(len(t) * _CHARACTER) + 2 * _PADDING for t in (label, text))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{escape(f"{label}: {text}")}">\n'
        f"<title>{escape(f'{label}: {text}')}</title>\n"
        f'<rect width="{left}" height="{_HEIGHT}" fill="#39424e"/>\n'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{color}"/>\n'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\n'
        f"{_words(label, _PADDING, left)}{_words(text, left + _PADDING, right)}"
        "</g>\n</svg>\n"
    ).encode("utf-8", "replace")


def _words(text: str, x: int, width: int) -> str:
    shown = width - 2 * _PADDING
    return f'<text x="{x}" y="14" textLength="{shown}">{escape(text)}</text>\n'


def _said(counts: Mapping[str, int]) -> tuple[str, str]:
    """What matters most, and its colour: a machine's fault is never the compiler's red."""
    ran = sum(number for status, number in counts.items() if status not in ("skip", "none"))
    green = counts.get("pass", 0) + counts.get("xfail", 0)
    for statuses, word in ((("fail", "xpass"), "fail"), (("error",), "error"), (("miss",), "miss")):
        if bad := sum(counts.get(status, 0) for status in statuses):
            return f"{bad:,} of {ran:,} {word}", _COLORS[word]
    if not green:
        return "no data", _COLORS["none"]
    return f"{green:,} of {ran:,} pass", _COLORS["pass"]
