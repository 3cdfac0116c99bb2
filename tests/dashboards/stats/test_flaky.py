"""Flaky cells: what counts as a flake and what as a trial of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.stats import Flaky, Outcome, flaky, wilson_lower
from tests.property import examples

_OF = {"P": Outcome.PASSED, "F": Outcome.FAILED, ".": Outcome.NO_EVIDENCE}


def _of(*cells: str) -> Flaky:
    """A word a cell; a letter an attempt, a space goes on to the next fingerprint."""
    rows = [
        (cell, fingerprint, _OF[letter])
        for cell, word in enumerate(cells)
        for fingerprint, group in enumerate(word.split(" "))
        for letter in group
    ]
    columns: list[Any] = list(zip(*rows, strict=True)) or [(), (), ()]
    return flaky(*columns, n_cells=len(cells))


@pytest.mark.parametrize(
    ("attempts", "flakes", "trials"),
    [
        ("", 0, 0),
        ("P", 0, 0),
        ("F", 0, 0),
        ("PPPP", 0, 3),
        ("FFFF", 0, 3),
        ("FP", 1, 1),
        ("PF", 1, 1),
        ("P F P F", 0, 0),
        ("PP FF PP", 0, 3),
        ("PPFPP", 1, 4),
        ("PPFFFPP", 1, 6),
        ("PFPFPF", 3, 5),
        ("FPFPF", 2, 4),
        ("PF FP PP", 2, 3),
        ("P.....", 0, 0),
        ("P.F", 1, 1),
        (".P.P.", 0, 1),
    ],
)
def test_flakes_and_trials(attempts: str, flakes: int, trials: int) -> None:
    found = _of(attempts)
    assert (found.flakes[0], found.trials[0]) == (flakes, trials)
    assert found.rate[0] == (flakes / trials if trials else 0)
    assert found.lower[0] == wilson_lower(flakes, trials)


def test_the_surest_come_first() -> None:
    found = _of("PP", "PF", "PFPFPFPFPF", "PFPP", "FP", "FF")
    assert found.ranking.tolist() == [2, 1, 4, 3]


def test_the_last_change_is_told_by_its_row() -> None:
    found = flaky([0, 1, 0, 1, 0, 0], [7, 7, 7, 7, 8, 7], [1, 1, 0, 1, 1, 0], n_cells=3)
    assert found.last.tolist() == [2, -1, -1]


def test_a_fingerprint_is_one_of_its_cell() -> None:
    assert flaky([0, 1], [5, 5], [1, 0], n_cells=2).trials.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (([0], [0, 1], [1]), "one length"),
        (([2], [0], [1]), "between 0 and 1"),
        (([-1], [0], [1]), "between 0 and 1"),
        (([0], [0], [2]), "Outcome"),
    ],
)
def test_columns_that_cannot_be(columns: tuple[list[int], ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        flaky(*columns, n_cells=2)


_ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(Outcome)))


def _slowly(rows: list[tuple[int, int, Outcome]]) -> tuple[list[int], list[int]]:
    flakes, trials = [0] * 4, [0] * 4
    for cell in range(4):
        for fingerprint in range(3):
            runs: list[Outcome] = []
            seen = 0
            for c, f, outcome in rows:
                if (c, f) == (cell, fingerprint) and outcome != Outcome.NO_EVIDENCE:
                    seen += 1
                    if runs[-1:] != [outcome]:
                        runs.append(outcome)
            flakes[cell] += min(runs.count(Outcome.PASSED), runs.count(Outcome.FAILED))
            trials[cell] += max(seen - 1, 0)
    return flakes, trials


@examples(200)
@given(_ROWS)
def test_equals_the_definition(rows: list[tuple[int, int, Outcome]]) -> None:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    found = flaky(*columns, n_cells=4)
    assert (found.flakes.tolist(), found.trials.tolist()) == _slowly(rows)
