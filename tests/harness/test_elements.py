"""Element types: what their bits mean, and memory that compiled code may be handed."""

from __future__ import annotations

import math
import struct
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.harness.elements import (
    FLOATS,
    ElementType,
    aligned,
    parse,
    poison,
    storage,
    to_float64,
)
from tests.property import examples

ALL: tuple[ElementType, ...] = get_args(ElementType)
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (3, 5), (2, 0, 3), (7, 1, 2)]
EVERY_16_BITS = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
each_type = pytest.mark.parametrize("element", ALL)
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def bf16_value(bits: int) -> float:
    """A bfloat16 from its definition: 1 bit of sign, 8 of exponent, 7 of fraction."""
    sign = -1.0 if bits >> 15 else 1.0
    exponent, fraction = bits >> 7 & 0xFF, bits & 0x7F
    if exponent == 0xFF:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(fraction, -126 - 7)
    return sign * math.ldexp(128 + fraction, exponent - 127 - 7)


def f16_value(bits: int) -> float:
    """A half as `struct` reads it."""
    value: float = struct.unpack("<e", struct.pack("<H", bits))[0]
    return value


def same(found: list[float], wanted: list[float]) -> bool:
    """Equal, NaN to NaN, and zeros of one sign."""
    return [repr(f) for f in found] == [repr(w) for w in wanted]


def test_every_bf16_has_its_value() -> None:
    wanted = [bf16_value(bits) for bits in range(1 << 16)]
    assert same(to_float64(EVERY_16_BITS, "bf16").tolist(), wanted)


def test_every_f16_has_its_value() -> None:
    wanted = [f16_value(bits) for bits in range(1 << 16)]
    assert same(to_float64(EVERY_16_BITS.view(np.float16), "f16").tolist(), wanted)


@examples(50)
@given(hnp.arrays(np.uint32, 16))
def test_f32_is_widened_exactly_signalling_nan_too(bits: npt.NDArray[np.uint32]) -> None:
    wanted = [struct.unpack("<f", struct.pack("<I", b))[0] for b in bits.tolist()]
    assert same(to_float64(bits.view(np.float32), "f32").tolist(), wanted)


def test_a_signalling_nan_is_just_a_nan() -> None:
    bits = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(to_float64(bits, "f32")).all()


@each_type
def test_storage_has_the_size_that_the_type_says(element: ElementType) -> None:
    bits = int("".join(c for c in element if c.isdecimal()))
    assert storage(element).itemsize * 8 == max(bits, 8)


@each_type
def test_a_type_is_parsed_as_printed(element: ElementType) -> None:
    assert parse("ui8" if element == "u8" else element) == element
    if element in ("i8", "i16", "i32", "i64"):
        assert parse(f"s{element}") == element


@pytest.mark.parametrize("text", ["index", "complex<f32>", "f8E4M3FN", "i4", "ui16", "", "F32"])
def test_other_types_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"element type {text} cannot be passed in or out"):
        parse(text)


@each_shape
@each_type
def test_poison_sets_every_bit(element: ElementType, shape: tuple[int, ...]) -> None:
    array = poison(shape, element)
    assert (array.shape, array.dtype) == (shape, storage(element))
    byte = b"\x01" if element == "i1" else b"\xff"
    assert array.tobytes() == byte * array.nbytes
    assert array.size == 0 or array.ctypes.data % 64 == 0


@each_type
def test_poison_is_nan_or_minus_one(element: ElementType) -> None:
    values = to_float64(poison((4,), element), element)
    if element in FLOATS:
        assert np.isnan(values).all()
    else:
        assert values.tolist() == [{"i1": 1.0, "u8": 255.0}.get(element, -1.0)] * 4


@examples(50)
@given(
    hnp.arrays(
        st.sampled_from([np.int8, np.float16, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    ),
    st.sampled_from([16, 64, 4096]),
)
def test_an_aligned_copy_is_the_same_array_elsewhere(
    array: npt.NDArray[np.generic], boundary: int
) -> None:
    for source in (array, array.T, array[::-1] if array.ndim else array):
        copy = aligned(source, boundary)
        assert (copy.dtype, copy.shape) == (source.dtype, source.shape)
        assert copy.tobytes() == source.tobytes()
        assert copy.size == 0 or copy.ctypes.data % boundary == 0  # an empty one has no address
        assert copy.flags.c_contiguous
        assert copy.flags.writeable
        assert not np.shares_memory(copy, source)
