"""Errors at a glance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from orchestrator.compare.picture import BINS, histogram, picture


def test_each_bin_counts_its_elements() -> None:
    error = np.array([0, 0.005, 0.01, 0.05, 0.5, 1.0, 5.0, 50.0, 500.0, np.inf])
    counted = histogram(error, np.ones_like(error))
    assert dict(zip(BINS, counted, strict=True)) == {
        "equal": 1,
        "to 1 % of the tolerance": 2,
        "to 10 %": 1,
        "within it": 2,
        "to 10 times": 1,
        "to 100 times": 1,
        "beyond": 2,
    }


def test_where_nothing_is_allowed_every_error_is_beyond() -> None:
    assert histogram(np.array([0.0, 1.0]), np.zeros(2)) == (1, 0, 0, 0, 0, 0, 1)


def test_a_tail_of_a_tile_is_seen() -> None:
    wrong = np.zeros((8, 64), dtype=bool)
    wrong[:, 15::16] = True
    shown = np.array(picture(wrong))
    assert shown.shape == (8, 32)
    assert (shown[:, 7::8] == 50).all()
    assert np.count_nonzero(shown) == 8 * 4


@pytest.mark.parametrize("shape", [(), (1,), (4, 4)])
def test_nothing_off_is_no_picture(shape: tuple[int, ...]) -> None:
    assert picture(np.zeros(shape, dtype=bool)) == ()


def test_one_element_is_no_picture() -> None:
    assert picture(np.ones((), dtype=bool)) == ()


@given(arrays.arrays(bool, arrays.array_shapes(min_dims=1, max_dims=4, max_side=40)))
def test_whatever_is_off_is_somewhere_in_the_picture(
    wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
) -> None:
    shown = np.array(picture(wrong))
    if wrong.size > 1 and wrong.any():
        assert shown.shape[0] <= 16
        assert shown.shape[1] <= 32
        assert shown.max() >= 1
        assert shown.max() <= 100
        assert (shown == 100).all() == wrong.all()
    else:
        assert shown.size == 0
