"""What the layout of wrong elements looks like, in words that point at a loop or a tile."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

_PERIODS = (2, 4, 8, 16, 32, 64, 128)


def describe(wrong: Mask) -> str:
    """A sentence about where `wrong` is true; empty when it is nowhere."""
    count = int(wrong.sum())
    if count == 0:
        return ""
    if count == wrong.size:
        return "every element: a wrong computation, or an output that nobody wrote"
    if count == 1:
        return "a single element"
    found = [text for axis in range(wrong.ndim) if (text := _along(wrong, axis))]
    if found:
        return "; ".join(found)
    return f"scattered over {count / wrong.size:.2%} of the elements"


def _along(wrong: Mask, axis: int) -> str:
    """What is regular along one axis: whole slices that are wrong while others are not."""
    size = wrong.shape[axis]
    others = tuple(a for a in range(wrong.ndim) if a != axis)
    hit = wrong.any(axis=others)
    if hit.all() or size < 2:
        return ""
    where = np.flatnonzero(hit)
    name = f"axis {axis}"
    if (period := _period(where, size)) is not None:
        width, phase = period
        tail = ": a tile's tail" if phase == width - 1 else ""
        return f"{name}: index {phase} of every {width}{tail}"
    if where.size == 1:
        last = ", the last" if where[0] == size - 1 else ""
        return f"{name}: only index {where[0]}{last}"
    if np.array_equal(where, np.arange(where[0], where[-1] + 1)):
        end = (
            ", to the end: a remainder that a tile does not cover" if where[-1] == size - 1 else ""
        )
        return f"{name}: indices {where[0]} to {where[-1]} of {size}{end}"
    return ""


def _period(where: npt.NDArray[np.intp], size: int) -> tuple[int, int] | None:
    """(width, phase) when exactly the indices equal to phase modulo width are wrong."""
    for width in _PERIODS:
        if width * 2 > size:
            return None
        phase = int(where[0]) % width
        if np.array_equal(where, np.arange(phase, size, width)):
            return width, phase
    return None
