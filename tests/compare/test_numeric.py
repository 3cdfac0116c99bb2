"""The comparison, against one that goes element by element and is obviously right."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.compare.numeric import compare, explain
from orchestrator.harness.elements import FLOATS, ElementType, storage, to_float64
from orchestrator.job import OutputError, Tolerance
from tests.property import examples

INF, NAN = math.inf, math.nan
TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5, reason="a test")
TOLERANCES = dict.fromkeys(FLOATS, TOLERANCE)
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1.0, 1.0005, 1.002, -1.0, 5e-324, 1e-6, 1.7e308, -1.7e308]
FLOAT_ELEMENTS: tuple[ElementType, ...] = ("f64", "f32", "f16", "bf16")
INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR_2_53 = st.integers(2**53 - 3, 2**53 + 3)


@dataclass
class Expected:
    """What the slow comparison finds out."""

    mismatches: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: int = 0
    worst_excess: float = -INF

    def add(self, position: int, error: float, allowed: float, golden: float) -> None:
        """Takes one more element."""
        self.mismatches += error > allowed
        if error < INF:
            self.max_abs = max(self.max_abs, error)
            if golden != 0 and math.isfinite(golden):
                self.max_rel = max(self.max_rel, error / abs(golden))
        if error - allowed > self.worst_excess:
            self.worst, self.worst_excess = position, error - allowed


def slow_floats(got: list[float], want: list[float]) -> Expected:
    """|got - want| <= atol + rtol * |want|, one element at a time, in Python."""
    expected = Expected()
    for position, (g, w) in enumerate(zip(got, want, strict=True)):
        both_nan = math.isnan(g) and math.isnan(w)
        if both_nan or g == w:
            error = 0.0
        elif math.isfinite(g) and math.isfinite(w):
            error = abs(g - w)
        else:
            error = INF
        allowed = TOLERANCE.atol
        if math.isfinite(w):
            allowed += TOLERANCE.rtol * abs(w)
        expected.add(position, error, allowed, w)
    return expected


def slow_integers(got: list[int], want: list[int]) -> Expected:
    """Equal or not, in integers of any size."""
    expected = Expected()
    for position, (g, w) in enumerate(zip(got, want, strict=True)):
        error = 0.0 if g == w else max(1.0, abs(float(g) - float(w)))
        expected.add(position, error, 0.0, float(w))
    return expected


def agrees(found: OutputError, expected: Expected, elements: int) -> None:
    assert found.elements == elements
    assert found.mismatches == expected.mismatches
    assert found.max_abs == expected.max_abs
    assert found.max_rel == expected.max_rel
    assert found.worst == (expected.worst,)
    assert bool(found.pattern) == bool(found.mismatches) == bool(explain(found))


@examples(200)
@given(st.lists(st.tuples(*[st.floats() | st.sampled_from(SPECIAL)] * 2), min_size=1, max_size=12))
@example(list(itertools.product(SPECIAL, SPECIAL)))
def test_floats_like_the_slow_comparison(pairs: list[tuple[float, float]]) -> None:
    got, want = [g for g, _ in pairs], [w for _, w in pairs]
    found = compare(0, np.array(got), "f64", np.array(want), TOLERANCES)
    agrees(found, slow_floats(got, want), len(pairs))
    assert repr(found.worst_got) == repr(got[found.worst[0]])
    assert repr(found.worst_golden) == repr(want[found.worst[0]])


@examples(100)
@given(st.sampled_from(["f32", "f16", "bf16"]), st.data())
def test_every_float_type_is_compared_as_float64(element: ElementType, data: st.DataObject) -> None:
    kind = storage(element)
    size = data.draw(st.integers(1, 8))
    raw = data.draw(st.binary(min_size=size * kind.itemsize, max_size=size * kind.itemsize))
    bits = np.frombuffer(raw, kind)
    got = to_float64(bits, element)
    nudge = data.draw(st.sampled_from([0.0, 1e-4, 1e-2]))
    want = [g + nudge * abs(g) if math.isfinite(g) else g for g in got.tolist()]
    found = compare(3, bits, element, np.array(want), TOLERANCES)
    agrees(found, slow_floats(got.tolist(), want), size)
    assert (found.index, found.dtype, found.shape) == (3, element, (size,))
    assert (found.rtol, found.atol, found.reason) == (1e-3, 1e-5, "a test")


@examples(200)
@given(st.lists(st.tuples(*[INT64 | NEAR_2_53] * 2), min_size=1, max_size=8))
@example([(2**53, 2**53 + 1)])
@example([(-(2**63), 2**63 - 1), (0, 0)])
def test_integers_like_the_slow_comparison(pairs: list[tuple[int, int]]) -> None:
    got, want = [g for g, _ in pairs], [w for _, w in pairs]
    found = compare(0, np.array(got, np.int64), "i64", np.array(want, np.int64), {})
    agrees(found, slow_integers(got, want), len(pairs))
    assert (found.rtol, found.atol) == (0.0, 0.0)


def test_integers_that_float64_merges_are_told_apart() -> None:
    found = compare(0, np.array([2**53 + 1]), "i64", np.array([2**53]), {})
    assert found.mismatches == 1
    assert "worst 1 at [0] (got 9007199254740992" in explain(found)


@pytest.mark.parametrize(
    ("element", "got", "want"),
    [
        ("i1", np.array([True, False]), np.array([True, True])),
        ("u8", np.array([7, 255], np.uint8), np.array([7, -1], np.int64)),
        ("i8", np.array([7, -1], np.int8), np.array([7, 255], np.int64)),
        ("i32", np.array([1, -(2**31)], np.int32), np.array([1, 2**31], np.int64)),
    ],
)
def test_integers_are_compared_by_value(element: ElementType, got: Any, want: Any) -> None:
    found = compare(0, got, element, want, {})
    assert (found.mismatches, found.worst) == (1, (1,))


def test_the_golden_may_be_narrower_than_float64() -> None:
    golden: npt.NDArray[np.generic] = np.array([0.1], np.float32)
    assert compare(0, golden, "f32", golden, TOLERANCES).mismatches == 0


@pytest.mark.parametrize(("shape", "worst"), [((), ()), ((2, 3), (1, 0)), ((2, 1, 3), (1, 0, 0))])
def test_the_worst_index_has_the_outputs_rank(
    shape: tuple[int, ...], worst: tuple[int, ...]
) -> None:
    golden = np.zeros(shape)
    got = golden.copy()
    got[worst] = -2.0
    found = compare(0, got, "f64", golden, TOLERANCES)
    assert (found.worst, found.worst_got, found.max_abs) == (worst, -2.0, 2.0)
    assert found.shape == shape


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
@pytest.mark.parametrize("element", ["f64", "i64"])
def test_an_empty_output_is_right(shape: tuple[int, ...], element: ElementType) -> None:
    empty = np.zeros(shape, storage(element))
    found = compare(0, empty, element, empty, TOLERANCES)
    assert (found.elements, found.mismatches, found.worst) == (0, 0, ())
    assert explain(found) == ""


def test_shapes_that_differ_are_refused_and_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"output 1 has shape \(2,\), its golden \(1, 2\)"):
        compare(1, np.zeros(2), "f64", np.zeros((1, 2)), TOLERANCES)


def test_a_float_type_without_a_tolerance_is_refused() -> None:
    with pytest.raises(KeyError, match="f32"):
        compare(0, np.zeros(1, np.float32), "f32", np.zeros(1), {})


def test_explanation_reads_like_a_note() -> None:
    got, want = np.zeros((2, 32)), np.zeros((2, 32))
    got[:, 15::16] = 0.25
    got[1, 31] = 0.41
    found = compare(2, got, "f64", want, TOLERANCES)
    assert explain(found) == (
        "output 2: 4 of 64 elements off, worst 0.41 at [1,31] (got 0.41, golden 0; "
        "allowed 0.001 rel + 1e-05 abs)\n"
        "pattern: axis 1: index 15 of every 16: a tile's tail"
    )


def test_explanation_of_integers_says_that_they_must_be_equal() -> None:
    found = compare(0, np.array([1234567, 1]), "i64", np.array([1234568, 1]), {})
    assert explain(found) == (
        "output 0: 1 of 2 elements off, worst 1 at [0] (got 1234567, golden 1234568; "
        "must be equal)\npattern: a single element"
    )
