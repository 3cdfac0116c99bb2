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
    rounded,
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


@examples(200)
@given(st.floats(width=32, allow_nan=False))
def test_bf16_is_the_nearest_and_the_even_one_of_two(number: float) -> None:
    (found,) = rounded(np.array([number]), ("bf16",)).tolist()
    value = bf16_value(found)
    neighbours = [bits for bits in (found - 1, found + 1) if 0 <= bits < 1 << 16]
    if math.isinf(value):
        # one more step of the exponent would be the next number
        limit = math.ldexp(2 - 2.0**-8, 127)
        assert abs(number) >= limit
        return
    for other in neighbours:
        distance = abs(bf16_value(other) - number)
        if math.isnan(distance):
            continue
        assert abs(value - number) <= distance
        if abs(value - number) == distance and bf16_value(other) != value:
            assert found % 2 == 0


@pytest.mark.parametrize(
    ("number", "bits"), [(math.inf, 0x7F80), (-math.inf, 0xFF80), (-0.0, 0x8000), (3e38, 0x7F62)]
)
def test_bf16_of_the_odd_ones(number: float, bits: int) -> None:
    assert rounded(np.array([number]), ("bf16",)).tolist() == [bits]


@pytest.mark.parametrize("payload", [0x7FF8 << 48, (1 << 63) - 1, (0x7FF << 52) + 1, (1 << 64) - 1])
def test_bf16_of_nan_is_nan(payload: int) -> None:
    number = np.array([payload], np.uint64).view(np.float64)
    assert np.isnan(to_float64(rounded(number, ("bf16",)), "bf16")).all()


@pytest.mark.parametrize("element", sorted(FLOATS))
@each_shape
def test_what_is_exact_stays_as_it_is(element: ElementType, shape: tuple[int, ...]) -> None:
    numbers = np.arange(math.prod(shape), dtype=np.float64).reshape(shape) - 3
    bits = rounded(numbers, ("f64", element))
    assert (bits.dtype, bits.shape) == (storage(element), shape)
    assert np.array_equal(to_float64(bits, element), numbers)


def test_every_step_rounds() -> None:
    # just above the middle of two f16; in f32 it is the middle
    number = np.array([1 + 2.0**-11 + 2.0**-40])
    assert rounded(number, ("f16",)).tolist() == [1 + 2.0**-10]
    assert rounded(number, ("f32", "f16")).tolist() == [1.0]
    assert rounded(np.array([1e300]), ("f32", "f64")).tolist() == [math.inf]
