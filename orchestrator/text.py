"""Text for people: harmless, aligned, short."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from orchestrator.job import KernelFacts

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|$)"  # OSC, DCS, …: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
_KEPT = "\n\t"


def plain(text: str) -> str:
    """`text` without anything that a terminal acts on.

    What a cell prints is data: escape sequences go, other control characters and those that
    reorder or hide text show as `?`. Newlines and tabs stay.
    """
    clean = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(c if c in _KEPT or not _acts(c) else "?" for c in clean)


def is_plain(text: str) -> bool:
    """Whether a terminal would only show `text`: it has nothing that `plain` takes out."""
    return not any(c not in _KEPT and _acts(c) for c in set(text))


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def one_line(text: str, width: int = 120) -> str:
    """The first line of `text`, harmless, at most `width` characters."""
    lines = plain(text).strip().splitlines()
    line = lines[0] if lines else ""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def indented(text: str, indent: str, limit: int = 0) -> list[str]:
    """The lines of `text`, harmless, each behind `indent`; at most `limit` when that is given."""
    lines = [f"{indent}{line}".rstrip() for line in plain(text).strip("\n").splitlines()]
    if limit and len(lines) > limit:
        more = len(lines) - limit
        return [*lines[:limit], f"{indent}… {plural(more, 'more line')}"]
    return lines


def table(rows: Sequence[Sequence[str]], *, indent: str = "", gap: int = 3) -> list[str]:
    """Left-aligned columns; the last one is never padded."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [
        (
            indent
            + "".join(cell.ljust(width + gap) for cell, width in zip(row, widths, strict=False))
            + row[-1]
        ).rstrip()
        for row in rows
    ]


def kernel_rows(facts: Iterable[KernelFacts]) -> list[tuple[str, ...]]:
    """What an assembler said of each kernel, below a row of titles; nothing of no kernels."""
    rows = []
    for fact in facts:
        registers = "" if fact.registers is None else f"{fact.registers:,}"
        spilled, shared = (
            "" if count is None else size(count)
            for count in (fact.spilled_bytes, fact.shared_bytes)
        )
        code = f"{fact.form} {size(fact.code_bytes)}"
        rows.append((fact.chip, fact.kernel, code, registers, spilled, shared))
    return [("chip", "kernel", "code", "registers", "spilled", "shared"), *rows] if rows else []


def plural(count: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds(value: float) -> str:
    """`0.31 s`, `12.4 s`, `3 min 05 s`, `1 h 02 min`."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def duration(nanoseconds: float) -> str:
    """`850 ns`, `12.3 us`, `4.56 ms`, `1.20 s`: three digits."""
    amount = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if amount < 999.5:
            return f"{amount:.{0 if unit == 'ns' or amount >= 99.95 else 1}f} {unit}"
        amount /= 1000
    return f"{amount:.2f} s"


def size(value: int) -> str:
    """`512 B`, `1.5 MiB`."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{value} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError(value)


def counts(statuses: Iterable[str]) -> str:
    """`30 pass · 1 xfail · 1 fail`, in the order in which people look at them."""
    order = ("pass", "xfail", "fail", "xpass", "error", "miss", "skip")
    seen = list(statuses)
    return " · ".join(f"{seen.count(s):,} {s}" for s in order if s in seen) or "no cells"
