"""A run in Markdown, for the pages of services that hand out jobs.

Everything that comes from results is text of somebody else: each character of it that Markdown or
HTML could act on is written as a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.plan import PlannedCell
from orchestrator.results.schema import Result
from orchestrator.text import one_line, plain

STATUSES = ("pass", "fail", "error", "miss", "xfail", "xpass")
MAX_BYTES = 900_000
"""GitHub takes 1 MiB for a step, Buildkite 1 MiB for an annotation."""
_MOST_ROWS = 100
_ACTS = re.compile(r"[^A-Za-z0-9 ,;]")
_RED = ("fail", "xpass", "error", "miss")
"""In the order of the exit code: who is to blame first comes first."""


def summarise(run: str, results: Iterable[Result], skipped: Sequence[PlannedCell]) -> str:
    """Counts by pool, then what is not green, the worst first."""
    latest = list(results)
    lines = [f"## Run {escaped(run)}", "", *_counts(latest), ""]
    lines += _bad(latest)
    lines += _skips(skipped)
    text = "\n".join(lines).rstrip() + "\n"
    if len(text.encode()) > MAX_BYTES:
        text = text.encode()[:MAX_BYTES].decode("utf-8", "ignore").rpartition("\n")[0] + "\n\n…\n"
    return text


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _ACTS.sub(lambda match: f"&#{ord(match[0])};", one_line(plain(text), 300))


def _counts(results: Sequence[Result]) -> Iterator[str]:
    yield "| pool | " + " | ".join(STATUSES) + " |"
    yield "| --- |" + " ---: |" * len(STATUSES)
    pools = sorted({_pool(result) for result in results})
    for pool in pools:
        there: list[str] = [result.status for result in results if _pool(result) == pool]
        numbers = " | ".join(str(there.count(status) or "") for status in STATUSES)
        yield f"| {escaped(pool)} | {numbers} |"


def _bad(results: Sequence[Result]) -> Iterator[str]:
    bad = [result for status in _RED for result in results if result.status == status]
    if not bad:
        yield from ("Nothing is red.", "")
        return
    yield "| cell | status | stage | |"
    yield "| --- | --- | --- | --- |"
    for result in bad[:_MOST_ROWS]:
        words = (result.cell, result.status, result.phase, result.message)
        yield "| " + " | ".join(escaped(word) for word in words) + " |"
    if len(bad) > _MOST_ROWS:
        yield from ("", f"and {len(bad) - _MOST_ROWS:,} more")
    yield ""


def _skips(skipped: Sequence[PlannedCell]) -> Iterator[str]:
    reasons: dict[str, int] = {}
    for planned in skipped:
        reasons[planned.reason] = reasons.get(planned.reason, 0) + 1
    for reason, count in reasons.items():
        yield f"- {count:,} skipped: {escaped(reason)}"


def _pool(result: Result) -> str:
    return result.cell.rpartition("@")[2]
