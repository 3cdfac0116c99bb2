"""How goldens are compared with what was recorded before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.goldens import diff, read_npz
from orchestrator.harness.arrays import npz

ONES = np.ones((2, 3))


def moved(old: Any, new: Any) -> str:
    (one,) = diff([np.asarray(old)], [np.asarray(new)])
    return one.text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (ONES, ONES.copy(), "unchanged"),
        (ONES, ONES.T, "shape 2x3 -> 3x2"),
        (ONES, np.float64(1.0), "shape 2x3 -> scalar"),
        (ONES, ONES.astype(np.float32), "type float64 -> float32"),
        ([2.0, 4.0], [2.0, 4.5], "1 of 2 elements, max abs 0.5, max rel 0.125"),
        ([0.0, 1.0], [0.25, 1.0], "1 of 2 elements, max abs 0.25, max rel none"),
        (2.0, 3.0, "1 of 1 elements, max abs 1, max rel 0.5"),
        ([np.nan, 1.0], [np.nan, 1.0], "unchanged"),
        (
            [1.0, 1.0],
            [np.nan, 2.0],
            "2 of 2 elements, max abs 1 (and some not finite), max rel 1 (and some not finite)",
        ),
        ([0.0], [-0.0], "unchanged but for the bits of NaN or the sign of zero"),
        ([1, 5], [1, 2], "1 of 2 elements, max abs 3, max rel 0.6"),
        ([True, False], [True, True], "1 of 2 elements, max abs 1, max rel none"),
        ([1 + 1j], [1 + 2j], "1 of 1 elements, max abs 1, max rel 0.707"),
        (
            np.array([0, 255], np.uint8),
            np.array([255, 255], np.uint8),
            "1 of 2 elements, max abs 255, max rel none",
        ),
    ],
)
def test_one_output(old: Any, new: Any, text: str) -> None:
    assert moved(old, new) == text


def test_outputs_that_come_and_go() -> None:
    assert [m.text for m in diff([ONES], [ONES, ONES])] == ["unchanged", "came"]
    assert [m.text for m in diff([ONES, ONES], [ONES])] == ["unchanged", "went"]


def test_outputs_are_read_in_their_order() -> None:
    arrays = {f"output_{i}": np.full(2, i) for i in range(12)}
    shuffled = dict(sorted(arrays.items()))
    assert [int(a[0]) for a in read_npz(npz(shuffled))] == list(range(12))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", npz({"x": ONES}), npz({"output_1": ONES})])
def test_what_is_no_golden_is_refused(data: bytes) -> None:
    with pytest.raises(InfrastructureError, match="not a golden"):
        read_npz(data)
