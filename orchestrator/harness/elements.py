"""MLIR element types and the NumPy arrays that hold their bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

ElementType = Literal["f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "u8"]

_STORAGE: dict[str, type[np.generic]] = {
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
}

FLOATS: frozenset[str] = frozenset({"f16", "bf16", "f32", "f64"})


def storage(element: ElementType) -> np.dtype[np.generic]:
    """The NumPy type with the same bits; bf16, which NumPy lacks, is held as uint16."""
    return np.dtype(_STORAGE[element])


def parse(text: str) -> ElementType:
    """An MLIR element type as printed (`f32`, `bf16`, `i64`, `si32`, `ui8`).

    Raises:
        ValueError: a type that no cell can pass in or out.
    """
    aliases = {"ui8": "u8", "si8": "i8", "si16": "i16", "si32": "i32", "si64": "i64"}
    name = aliases.get(text, text)
    for known in get_args(ElementType):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"element type {text} cannot be passed in or out")


def to_float64(bits: npt.NDArray[np.generic], element: ElementType) -> npt.NDArray[np.float64]:
    """The numbers in an array of storage type, as float64 (exact for every float type)."""
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        if element == "bf16":
            widened = bits.astype(np.uint32) << np.uint32(16)
            return widened.view(np.float32).astype(np.float64)
        return bits.astype(np.float64)


def rounded(
    numbers: npt.NDArray[np.float64], through: Sequence[ElementType]
) -> npt.NDArray[np.generic]:
    """Numbers rounded to one float type after the other, to nearest even; bits of the last one.

    A bfloat16 is the upper half of a float32, so numbers go to it through float32.
    """
    bits: npt.NDArray[np.generic] = np.asarray(numbers, np.float64)
    for element in through:
        with np.errstate(over="ignore", invalid="ignore"):  # to infinity, to a quiet NaN
            bits = _bfloat16(numbers) if element == "bf16" else numbers.astype(storage(element))
        numbers = to_float64(bits, element)
    return bits


def _bfloat16(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    single = np.asarray(numbers, np.float32)
    bits = single.view(np.uint32)
    even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)  # rounding a NaN could carry it to infinity
    return np.where(np.isnan(single), quiet, even >> np.uint32(16)).astype(np.uint16)


def poison(shape: tuple[int, ...], element: ElementType) -> npt.NDArray[np.generic]:
    """A 64-byte aligned array whose bits are all set: NaN in floats, -1 in integers.

    Outputs start like this, so that an element that nobody wrote cannot look right.
    """
    array = aligned(np.zeros(shape, storage(element)))
    array.reshape(-1).view(np.uint8)[...] = 1 if element == "i1" else 0xFF
    return array


def aligned(array: npt.NDArray[np.generic], boundary: int = 64) -> npt.NDArray[np.generic]:
    """A contiguous copy of an array at an address that vector code may assume."""
    size = array.nbytes
    buffer = np.empty(size + boundary, np.uint8)
    start = -buffer.ctypes.data % boundary
    copy = buffer[start : start + size].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
