"""Answers to typos: one voice for definitions and for the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was most likely meant; None when none is near."""
    by_lower = {k.lower(): k for k in sorted(known, reverse=True)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def listing(names: Iterable[str], limit: int = 12) -> str:
    """`a, b, c`, cut after `limit` names with an ellipsis."""
    ordered = sorted(names)
    return ", ".join([*ordered[:limit], *(["…"] if len(ordered) > limit else [])])


def unknown(kind: str, name: str, known: Iterable[str], plural: str = "") -> str:
    """A sentence or two about a name that does not exist, with what was likely meant.

    >>> unknown("pool", "inter-cpu", ["amd-cpu", "intel-cpu"])
    'no pool `inter-cpu`. Did you mean `intel-cpu`? Pools: amd-cpu, intel-cpu'
    """
    names = sorted(known)
    plural = plural or f"{kind}s"
    meant = nearest(name, names)
    question = f" Did you mean `{meant}`?" if meant else ""
    if not names:
        return f"no {kind} `{name}`. There are no {plural}"
    return f"no {kind} `{name}`.{question} {plural[0].upper()}{plural[1:]}: {listing(names)}"
