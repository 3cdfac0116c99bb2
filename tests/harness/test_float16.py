"""The 16-bit conversions that are linked into compiled code, against NumPy and arithmetic."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from orchestrator.harness import toolchains
from tests.harness import llvm

pytestmark = pytest.mark.stack

SOURCE = Path(toolchains.__file__).parent.parent / "runtime" / "float16.c"
# `by_*` go through the functions of the file; `as_*` through what the compiler makes of a
# conversion for a CPU without such instructions: a call of a function by its name and ABI
WRAPPER = """
#include SOURCE
#define LOOP(name, from, to, expression) \
  void name(const from *in, to *out, long n) { \
    for (long i = 0; i < n; ++i) { from x = in[i]; out[i] = (expression); } \
  }
#define BITS(x) __builtin_bit_cast(u16, (x))
LOOP(by_f32_f16, float, u16, half_bits(x))
LOOP(by_f64_f16, double, u16, half_bits(narrow_to_odd(x)))
LOOP(by_f32_bf16, float, u16, bf16_bits(x))
LOOP(by_f64_bf16, double, u16, bf16_bits(narrow_to_odd(x)))
LOOP(by_f16_f32, u16, float, half_value(x))
LOOP(as_f32_f16, float, u16, BITS((_Float16)x))
LOOP(as_f64_f16, double, u16, BITS((_Float16)x))
LOOP(as_f32_bf16, float, u16, BITS((__bf16)x))
LOOP(as_f64_bf16, double, u16, BITS((__bf16)x))
LOOP(as_f16_f32, u16, float, (float)__builtin_bit_cast(_Float16, x))
"""

Array = npt.NDArray[Any]
Convert = Callable[[str, Array], Array]
ways = pytest.mark.parametrize("way", ["by", "as"])
HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
TYPES = {"f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Converts an array with a named function of the wrapper, compiled as for a cell."""
    clang, linker = llvm.tool("clang"), llvm.tool("ld.lld")
    folder = tmp_path_factory.mktemp("float16")
    source, target = folder / "wrapper.c", folder / "wrapper.so"
    source.write_text(WRAPPER.replace("SOURCE", f'"{SOURCE}"'))
    flags = ["-O3", "-fPIC", "-shared", "-nostdlib", "-Wall", "-Wextra", "-Werror"]
    argv = [str(clang), *flags, f"--ld-path={linker}", str(source), "-o", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))

    def call(name: str, values: Array) -> Array:
        _, start, end = name.split("_")
        values = np.ascontiguousarray(values, TYPES[start])
        result: Array = np.empty(values.shape, TYPES[end])
        function = getattr(library, name)
        function.restype = None
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (values, result)]
        function(*pointers, ctypes.c_long(values.size))
        return result

    return call


def rounded(values: Array, precision: int, least: int, largest: float) -> Array:
    """Values rounded by arithmetic to so many bits, ties to even, from 2**least units upwards."""
    values = values.astype(np.float64)
    _, exponent = np.frexp(values)
    unit = np.maximum(exponent - precision, least)
    near = np.ldexp(np.rint(np.ldexp(values, -unit)), unit)
    return np.where(np.abs(near) > largest, np.copysign(np.inf, values), near)


def as_bf16(values: Array) -> Array:
    """What bf16 holds of numbers that are not NaN: 8 bits, down to 2**-133."""
    with np.errstate(invalid="ignore"):
        near = rounded(values, 8, -133, 255 * 2.0**120)
    return np.where(np.isinf(values), values, near)


def bf16_values(bits: Array) -> Array:
    """The numbers that bits of bf16 mean."""
    wide: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):
        return wide.astype(np.float64)


def some_floats() -> Array:
    """Single-precision numbers of all magnitudes, NaN, infinities and subnormals among them."""
    bits = np.random.default_rng(1).integers(0, 1 << 32, 500_000, np.uint32)
    edges = np.arange(0, 1 << 32, 1 << 12, dtype=np.uint64).astype(
        np.uint32
    )  # ties, and next to them
    near = [edges, edges + np.uint32(1), edges - np.uint32(1)]
    return np.concatenate([bits, *near]).view(np.float32)


def ties(values: Array) -> Array:
    """Doubles halfway between finite neighbours, and the doubles next to those."""
    finite = np.unique(values[np.isfinite(values)])
    beyond = 2 * finite[-1] - finite[-2]
    steps = np.concatenate([[-beyond], finite, [beyond]])
    middle = (steps[1:] + steps[:-1]) / 2
    return np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])


def some_doubles(values: Array) -> Array:
    """Ties of a 16-bit type, and doubles of all magnitudes."""
    bits = np.random.default_rng(2).integers(0, 1 << 64, 500_000, np.uint64).view(np.float64)
    scales = np.random.default_rng(3).integers(-160, 140, 500_000)
    usual = np.ldexp(np.random.default_rng(4).uniform(-2, 2, 500_000), scales)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e300, -1e300])
    return np.concatenate([ties(values), bits, usual, special])


def agree(bits: Array, wanted: Array, values: Array) -> None:
    """The same bits, except that any quiet NaN will do for another of the same sign."""
    nan = np.isnan(values)
    np.testing.assert_array_equal(bits[~nan], wanted[~nan])
    assert nan.any()
    np.testing.assert_array_equal(bits[nan] >> 15, np.signbit(values[nan]))


@ways
def test_every_half_is_widened_exactly(convert: Convert, way: str) -> None:
    found, wanted = convert(f"{way}_f16_f32", HALVES), HALVES.view(np.float16).astype(np.float32)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(found.view(np.uint32)[number], wanted.view(np.uint32)[number])
    assert np.isnan(found[~number]).all()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@ways
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_halves_are_rounded_as_numpy_does(convert: Convert, way: str, wide: str) -> None:
    halves = HALVES.view(np.float16).astype(np.float64)
    values = some_floats() if wide == "f32" else some_doubles(halves)
    with np.errstate(all="ignore"):
        wanted = values.astype(np.float16)
    found = convert(f"{way}_{wide}_f16", values)
    agree(found, wanted.view(np.uint16), values)
    assert np.isnan(found[np.isnan(values)].view(np.float16)).all()


@ways
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_bf16_is_rounded_as_arithmetic_says(convert: Convert, way: str, wide: str) -> None:
    values = some_floats() if wide == "f32" else some_doubles(bf16_values(HALVES))
    with np.errstate(invalid="ignore"):
        values64 = values.astype(np.float64)
    wanted = as_bf16(np.where(np.isnan(values64), 0.0, values64))
    found = convert(f"{way}_{wide}_bf16", values)
    assert np.isnan(bf16_values(found[np.isnan(values)])).all()
    agree(found, (wanted.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), values)


@ways
def test_every_16_bit_number_survives_a_round_trip(convert: Convert, way: str) -> None:
    for narrow, wide in (
        ("f16", HALVES.view(np.float16).astype(np.float32)),
        ("bf16", (HALVES.astype(np.uint32) << 16).view(np.float32)),
    ):
        number = ~np.isnan(wide)
        found = convert(f"{way}_f32_{narrow}", wide)
        np.testing.assert_array_equal(found[number], HALVES[number])


def test_the_arithmetic_agrees_with_numpy_where_numpy_has_the_type() -> None:
    values = some_doubles(HALVES.view(np.float16).astype(np.float64))
    values = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        wanted = values.astype(np.float16).astype(np.float64)
    np.testing.assert_array_equal(rounded(values, 11, -24, 65504.0), wanted)
