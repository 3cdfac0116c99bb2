"""Steps in performance: planted ones are found, and what is said of them is right."""

from __future__ import annotations

import numpy as np

from dashboards.stats import judge


def test_a_step_up_and_a_step_down() -> None:
    values = np.exp(np.random.default_rng(7).normal(0, 0.02, (2, 120)))
    values[0, 60:] *= 1.2
    values[1, 60:] /= 1.2
    found = judge(values)
    assert found.steps.series.tolist() == [0, 1]
    assert found.steps.night.tolist() == [60, 60]
