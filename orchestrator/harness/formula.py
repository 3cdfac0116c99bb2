"""Signed, seeded numbers by formula: the same on every machine, with nothing to store.

Element `i` of stream `name` is `mix(seed(name) + (i + 1) * GOLDEN_GAMMA)`, the SplitMix64
generator of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
2014), read at any position. Its top 24 bits become a multiple of 2**-23 in [-1, 1), which
float32 holds exactly: so float32 and float64 start from the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def signed_uniform(stream: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Numbers in [-1, 1), each a multiple of 2**-23, of shape `shape`; `stream` seeds them."""
    seed = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    index = np.arange(1, int(np.prod(shape, dtype=np.int64)) + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = _mix(np.uint64(seed) + index * _GOLDEN_GAMMA) >> np.uint64(40)
    return (bits.astype(np.float64) * 2.0**-23 - 1.0).reshape(shape)


@dataclass(frozen=True, kw_only=True)
class FormulaSpec:
    """Which numbers: `plus + times * (u / divide_by)`, with `u` the stream's signed numbers."""

    stream: str
    divide_by: float = 1.0
    times: float = 1.0
    plus: float = 0.0

    def numbers(self, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """An array of that shape."""
        scaled = signed_uniform(self.stream, shape) / self.divide_by
        return np.asarray(self.plus + self.times * scaled)


def for_input(position: int) -> FormulaSpec:
    """The input at `position` of a workload: in [-1, 1)."""
    return FormulaSpec(stream=f"input:{position}")


def for_parameter(name: str, initial: npt.NDArray[np.float64]) -> FormulaSpec:
    """A trained-looking parameter: never all ones or zeros, and scaled so that nets stay tame.

    Two dimensions and more: uniform in [-1, 1) / sqrt(fan-in), fan-in being the elements of one
    output (shape without its first axis). Fewer: `c + 0.1 u` where the module's own
    initialisation is the constant `c` (norm scales, running statistics), else `0.1 u`. The only
    element of a vector is constant when it is 0 or 1: anything else may have been drawn.
    """
    stream = f"parameter:{name}"
    if initial.ndim >= 2:
        fan_in = max(1, initial.size // max(1, initial.shape[0]))
        return FormulaSpec(stream=stream, divide_by=float(np.sqrt(fan_in)))
    first = float(initial.flat[0]) if initial.size else 0.0
    told = initial.shape != (1,) or first in (0.0, 1.0)
    constant = told and bool(np.all(initial == first))
    return FormulaSpec(stream=stream, times=0.1, plus=first if constant else 0.0)


def digest(arrays: Iterable[npt.NDArray[np.generic]]) -> str:
    """SHA-256 over types, shapes and bytes of arrays, in order."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype.str}{array.shape};".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()
