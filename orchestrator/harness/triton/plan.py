"""What is launched, as plain data: enough for a machine that has NumPy and a driver alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.harness.elements import Array, ElementType, aligned, storage

_GUARD = 256
"""Bytes before and after each buffer that no kernel may write; a multiple of every alignment."""
_GUARD_BYTE = 0xFF
"""Makes NaN of whatever is read from there without a mask."""

Grid = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class View:
    """A tensor in a buffer."""

    buffer: int
    offset: int
    """Bytes."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements."""
    element: ElementType


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A number that is passed to a kernel by value."""

    kind: str
    """As Triton names it: `i32`, `u1`, `fp32`."""
    value: int | float


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Memory that a kernel wants besides its arguments."""

    block_bytes: int
    """For each block of the grid; 0: its address is null."""
    alignment: int


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A compiled kernel."""

    name: str
    """Its symbol."""
    code: bytes
    """A cubin or HSACO."""
    threads: int
    """In a block, all along x."""
    shared_bytes: int
    """Dynamic, for each block."""
    scratch: tuple[Scratch, ...]
    """Passed after all other parameters."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel."""

    kernel: int
    grid: Grid
    parameters: tuple[View | Scalar, ...]
    """Without the scratch memory; a tensor is passed as its address."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The buffers that a program works on, as they are before its first launch."""

    buffers: tuple[Array, ...]
    """Their bytes."""
    inputs: frozenset[int]
    """Buffers that must come back as they were."""
    outputs: tuple[View, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All launches of a program, in order."""

    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    memory: Memory


def guarded(contents: Array) -> Array:
    """A copy of a buffer's bytes between guards; the whole is 64-byte aligned."""
    tail = _GUARD + -contents.nbytes % _GUARD
    return aligned(np.pad(contents, (_GUARD, tail), constant_values=_GUARD_BYTE))


def inside(whole: Array, contents: Array) -> Array:
    """The part of `guarded(contents)` that is between the guards."""
    return whole[_GUARD : _GUARD + contents.nbytes]


def disturbed(memory: Memory, wholes: Sequence[Array]) -> str:
    """What was written that must not be written, in words; empty: nothing.

    Args:
        memory: as it was.
        wholes: what became of the guarded copy of each of its buffers.
    """
    for index, (contents, whole) in enumerate(zip(memory.buffers, wholes, strict=True)):
        guards = (whole[:_GUARD], whole[_GUARD + contents.nbytes :])
        for side, guard in zip(("before", "after"), guards, strict=True):
            if (guard != _GUARD_BYTE).any():
                return f"memory {side} {_called(memory, index)} was written"
        if index in memory.inputs and (inside(whole, contents) != contents).any():
            return f"{_called(memory, index)} was overwritten"
    return ""


def _called(memory: Memory, index: int) -> str:
    for position, view in enumerate(memory.outputs):
        if view.buffer == index:
            return f"output {position}"
    kind = "an input" if index in memory.inputs else "a buffer"
    return f"{kind} of {memory.buffers[index].nbytes:,} bytes"


def read(view: View, buffer: Array) -> Array:
    """A contiguous copy of a tensor, given the bytes of its buffer."""
    kind = storage(view.element)
    strides = [stride * kind.itemsize for stride in view.strides]
    if math.prod(view.shape) == 0:
        return np.empty(view.shape, kind)
    found: Array = np.ndarray(view.shape, kind, buffer.data, view.offset, strides)
    return np.array(found, order="C")
