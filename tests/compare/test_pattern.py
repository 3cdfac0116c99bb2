"""Planted patterns are named, and what is said of any pattern is true."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.compare.pattern import describe
from tests.property import examples

Mask = npt.NDArray[np.bool_]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=9)


def nothing(*shape: int) -> Mask:
    return np.zeros(shape, np.bool_)


def test_nothing_wrong_is_nothing_to_say() -> None:
    assert describe(nothing(4, 4)) == ""
    assert describe(nothing(0)) == ""


@examples(50)
@given(SHAPES)
def test_everything_wrong(shape: tuple[int, ...]) -> None:
    assert describe(~nothing(*shape)).startswith("every element")


def test_a_wrong_scalar() -> None:
    assert describe(np.ones((), np.bool_)).startswith("every element")


@examples(50)
@given(SHAPES.filter(lambda shape: np.prod(shape) > 1), st.data())
def test_a_single_element(shape: tuple[int, ...], data: st.DataObject) -> None:
    wrong = nothing(*shape)
    wrong.flat[data.draw(st.integers(0, wrong.size - 1))] = True
    assert describe(wrong) == "a single element"


@examples(50)
@given(
    st.sampled_from([2, 4, 8, 16, 32, 64]),
    st.integers(2, 4),
    st.integers(1, 4),
    st.integers(0, 63),
    st.integers(0, 63),
)
def test_one_column_of_every_tile(
    width: int, tiles: int, rows: int, phase: int, remainder: int
) -> None:
    wrong = nothing(rows, tiles * width + remainder % width)
    wrong[:, phase % width :: width] = True
    tail = ": a tile's tail" if phase % width == width - 1 else ""
    assert describe(wrong) == f"axis 1: index {phase % width} of every {width}{tail}"


def test_the_last_column_of_every_16_of_all_channels() -> None:
    wrong = nothing(2, 3, 64)
    wrong[..., 15::16] = True
    assert describe(wrong) == "axis 2: index 15 of every 16: a tile's tail"


def test_of_one_channel_alone_both_axes_are_told() -> None:
    wrong = nothing(2, 3, 64)
    wrong[:, 1, 15::16] = True
    assert describe(wrong) == "axis 1: only index 1; axis 2: index 15 of every 16: a tile's tail"


@examples(50)
@given(st.integers(3, 20), st.integers(2, 6), st.data())
def test_one_row(rows: int, columns: int, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, rows - 1))
    wrong = nothing(rows, columns)
    wrong[row] = True
    last = ", the last" if row == rows - 1 else ""
    assert describe(wrong) == f"axis 0: only index {row}{last}"


@examples(50)
@given(st.integers(1, 6), st.integers(4, 70), st.data())
def test_a_remainder(rows: int, columns: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(1, columns - 2))
    wrong = nothing(rows, columns)
    wrong[:, start:] = True
    assert describe(wrong) == (
        f"axis 1: indices {start} to {columns - 1} of {columns}, to the end: "
        "a remainder that a tile does not cover"
    )


@examples(50)
@given(st.integers(1, 6), st.integers(5, 70), st.data())
def test_a_block_inside(rows: int, columns: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, columns - 3))
    end = data.draw(st.integers(start + 1, columns - 2))
    wrong = nothing(rows, columns)
    wrong[:, start : end + 1] = True
    assert describe(wrong) == f"axis 1: indices {start} to {end} of {columns}"


def test_no_regularity_is_called_scattered() -> None:
    wrong = nothing(5, 5)
    wrong[[0, 1, 4], [4, 1, 0]] = True
    assert describe(wrong) == "scattered over 12.00% of the elements"


def claimed(phrase: str, size: int) -> set[int]:
    """The indices along one axis that a phrase says are hit."""
    if match := re.match(r"index (\d+) of every (\d+)", phrase):
        return set(range(int(match[1]), size, int(match[2])))
    if match := re.match(r"only index (\d+)", phrase):
        return {int(match[1])}
    match = re.match(r"indices (\d+) to (\d+) of (\d+)", phrase)
    assert match, phrase
    assert int(match[3]) == size
    return set(range(int(match[1]), int(match[2]) + 1))


@examples(300)
@given(hnp.arrays(np.bool_, SHAPES))
def test_what_is_said_is_true(wrong: Mask) -> None:
    text = describe(wrong)
    assert bool(text) == bool(wrong.any())
    if not text.startswith("axis"):
        return
    for claim in text.split("; "):
        match = re.match(r"axis (\d+): (.*)", claim)
        assert match, claim
        axis, size = int(match[1]), wrong.shape[int(match[1])]
        hit = {int(i) for i in np.nonzero(wrong)[axis]}
        assert claimed(match[2], size) == hit
        assert ("the last" in claim or "to the end" in claim) <= (size - 1 in hit)


@pytest.mark.parametrize("size", [2, 3])
def test_a_period_needs_two_tiles(size: int) -> None:
    wrong = nothing(4, size)
    wrong[:, 1] = True
    assert "every" not in describe(wrong)
