"""What was seen of a GPU from outside a job, and whom it speaks against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Vendor = Literal["nvidia", "amd", "intel"]

Blame = Literal["device", "program", "unclear", "nobody"]
"""`device`: hardware, firmware, driver or the machine; nothing that a program can bring about.
`program`: what a program does wrong. `unclear`: either can be the cause, as with a hang.
`nobody`: no fault, but worth knowing beside one."""

_MOST_LINES = 8
"""Of one attempt's evidence: a fault often repeats for each of a thousand threads."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One thing that was seen."""

    kind: str
    """`xid lost driver reset hang fault ecc retired memory tool busy aftermath unreadable`."""
    blame: Blame
    text: str
    """As it was said, on one line, and what it means where that is known."""
    gpu: str = ""
    """PCI address, or what the tool calls it; empty when unknown."""
    code: str = ""
    """The vendor's number or name for it (`79`, a ring, an engine); empty without one."""


def against(evidence: Iterable[Evidence], blame: Blame) -> Evidence | None:
    """The first piece that speaks against `blame`."""
    return next((piece for piece in evidence if piece.blame == blame), None)


def distinct(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each thing once, the first time it was seen; a handful of them, the gravest ones first."""
    seen: dict[tuple[str, str, str], Evidence] = {}
    for piece in evidence:
        seen.setdefault((piece.kind, piece.gpu, piece.code), piece)
    order: Sequence[Blame] = ("device", "program", "unclear", "nobody")
    return tuple(sorted(seen.values(), key=lambda piece: order.index(piece.blame)))[:_MOST_LINES]
