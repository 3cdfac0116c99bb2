"""How often noise is called a step, and how soon a step is: docs/statistics.md has the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.noise import KINDS
from benchmarks.statistics import alarms, delays
from dashboards.stats import judge


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_at_most_one_in_a_thousand(kind: str) -> None:
    """Steps and nights that are called a drift together, of 150,000 series-nights."""
    found = judge(KINDS[kind](np.random.default_rng(11), (500, 300)))
    assert sum(alarms(found)) <= 1


@pytest.mark.parametrize(
    ("kind", "ratio", "nights", "share"),
    [
        ("normal, 2 %", 1.1, 4, 0.8),
        ("normal, 2 %", 1.1, 12, 0.99),
        ("normal, 2 %", 1 / 1.1, 12, 0.99),
        ("normal, 2 %", 1.05, 16, 0.8),
        ("normal, 1 %", 1.05, 12, 0.99),
        ("normal, 2 %", 1.3, 4, 0.99),
        ("AR(1), φ = 0.5", 1.1, 16, 0.95),
        ("Student t, 3 degrees, 2 %", 1.1, 16, 0.95),
    ],
)
def test_a_step_is_called_soon(kind: str, ratio: float, nights: int, share: float) -> None:
    values = KINDS[kind](np.random.default_rng(12), (1000, 120))
    values[:, 100:] *= ratio
    assert np.mean(delays(judge(values), 100) <= nights) >= share
