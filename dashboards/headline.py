"""A night in one sentence: is it worse than the one before, where, and whose fault it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dashboards.documents import News, TonightPage
from dashboards.words import pipeline_of, plural

_WORSE = ("regression", "new-failure")
_MOST_PLACES = 3

Level = Literal["worse", "better", "same", "green", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Blame:
    """A layer, and what is new against it."""

    layer: str
    text: str
    """Empty: nothing new."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """What to read in five seconds."""

    level: Level
    text: str
    blames: tuple[Blame, ...]


def headline(page: TonightPage) -> Headline:
    """The verdict on a night, from its news."""
    if not page.night:
        return Headline(level="unknown", text="There are no results yet.", blames=())
    level, text = _verdict(page)
    return Headline(level=level, text=text, blames=_blames(page))


def _verdict(page: TonightPage) -> tuple[Level, str]:
    red = sum(page.counts.get(status, 0) for status in ("fail", "error", "xpass"))
    standing = f"{plural(red, 'cell is', 'cells are')} red" if red else "no cell is red"
    if not page.previous:
        return ("worse" if red else "green"), f"The first night with results: {standing}."
    fixed = _total(page.news, ("fixed",))
    worse = [
        f"{plural(count, 'cell')} {what}"
        for count, what in (
            (_total(page.news, ("regression",)), "went red"),
            (_total(page.news, ("new-failure",)), "failed in a new way"),
            (_total(page.news, ("xpass",)), "passed unexpectedly"),
            (_total(page.news, ("vanished",)), "vanished"),
        )
        if count
    ]
    better = [f"{plural(fixed, 'cell')} got well"] if fixed else []
    if worse:
        return "worse", f"Worse than {page.previous}: {_and([*worse, *better])}."
    if better:
        return "better", f"Better than {page.previous}: {_and(better)}; {standing}."
    if red:
        return "same", f"As on {page.previous}: {standing}, nothing new."
    return "green", f"Green, as on {page.previous}: no cell is red."


def _blames(page: TonightPage) -> tuple[Blame, ...]:
    news = [n for n in page.news if n.kind in _WORSE]
    by_status = {
        status: [n for n in news if n.cells and n.cells[0].status == status]
        for status in ("fail", "error")
    }
    passed = [n for n in page.news if n.kind == "xpass"]
    return (
        Blame(layer="Compiler", text=_places(by_status["fail"])),
        Blame(layer="Our definitions", text=_places([*by_status["error"], *passed])),
        Blame(layer="Machines", text=_machines(page)),
    )


def _places(news: Sequence[News]) -> str:
    counted: Counter[str] = Counter()
    for each in news:
        phase = each.cells[0].phase
        place = pipeline_of(each.cells[0].cell) + (f" at {phase}" if phase else "")
        counted[place] += each.total
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{place} ({plural(count, 'cell')})" for place, count in ranked[:_MOST_PLACES]]
    if more := len(ranked) - len(shown):
        shown.append(plural(more, "more place"))
    return _and(shown)


def _machines(page: TonightPage) -> str:
    said = []
    if page.agents:
        names = _and([a.agent for a in page.agents[:_MOST_PLACES]])
        rest = len(page.agents) - _MOST_PLACES
        said.append(f"sick: {names}" + (f" and {rest} more" if rest > 0 else ""))
    missed = sum(n.total for n in page.nodata if n.status == "miss")
    if missed:
        said.append(f"no verdict on {plural(missed, 'cell')}")
    return "; ".join(said)


def _total(news: Iterable[News], kinds: Sequence[str]) -> int:
    return sum(n.total for n in news if n.kind in kinds)


def _and(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
