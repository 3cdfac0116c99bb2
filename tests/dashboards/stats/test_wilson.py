"""The lower end of Wilson's interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.stats import wilson_lower
from tests.property import examples


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    [(0, 10, 0.0), (1, 1, 0.2065), (5, 5, 0.5655), (10, 100, 0.0552), (81, 263, 0.2553)],
)
def test_known_values(successes: int, trials: int, expected: float) -> None:
    """81 of 263 is the example of Newcombe, Stat. Med. 17 (1998) 857, method 3."""
    assert wilson_lower(successes, trials) == pytest.approx(expected, abs=5e-5)


def test_no_trials_say_nothing() -> None:
    assert wilson_lower([0, 0], [0, 3]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("successes", "trials"), [(2, 1), (-1, 1), (0, -1)])
def test_counts_that_cannot_be(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson_lower(successes, trials)


@examples(200)
@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_solves_its_equation(counts: tuple[int, int]) -> None:
    """The bound is the rate p at which s/n lies z standard errors of p above p."""
    successes, trials = counts
    bound = float(wilson_lower(successes, trials))
    assert 0 <= bound <= successes / trials
    above = successes / trials - bound
    assert above == pytest.approx(1.96 * np.sqrt(bound * (1 - bound) / trials), abs=1e-9)


def test_more_trials_are_surer() -> None:
    bounds = wilson_lower([1, 10, 100], [4, 40, 400])
    assert np.all(np.diff(bounds) > 0)
