"""Steps in performance: planted ones are found, and what is said of them is right."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from benchmarks.noise import Floats, normal
from benchmarks.statistics import alarms
from dashboards.stats import Judged, Steps, Verdict, judge

NIGHTS = 160


def _quiet(series: int = 40, nights: int = NIGHTS, sigma: float = 0.02, seed: int = 7) -> Floats:
    return 12.5 * normal(sigma)(np.random.default_rng(seed), (series, nights))


def _share(found: Judged, which: Any) -> float:
    """Share of the series with exactly one such step."""
    steps = found.steps.take(which)
    return float(np.mean(np.bincount(steps.series, minlength=len(found.verdict)) == 1))


@pytest.mark.parametrize("ratio", [1.2, 1 / 1.2, 1.5, 0.5, 100.0, 0.01])
def test_a_step_is_dated_sized_and_said_once(ratio: float) -> None:
    values = _quiet()
    values[:, 90:] *= ratio
    found = judge(values)
    steps = found.steps
    assert sorted(steps.series.tolist()) == list(range(40))
    assert np.all(np.abs(steps.night - 90) <= 1)
    assert np.mean(steps.night == 90) > 0.9
    assert np.all(steps.previous == steps.night - 1)
    assert np.all(steps.called <= 90 + 6)
    np.testing.assert_allclose(steps.before, 12.5, rtol=0.03)
    np.testing.assert_allclose(steps.ratio, ratio, rtol=0.05)
    said = Verdict.SLOWER if ratio > 1 else Verdict.FASTER
    assert np.all(found.verdict[steps.series, steps.called] == said)
    np.testing.assert_array_equal(found.ratio[steps.series, steps.called], steps.ratio)
    news = np.isin(found.verdict, (Verdict.SLOWER, Verdict.FASTER, Verdict.DRIFT))
    assert np.count_nonzero(news) == 40


def test_after_a_step_the_band_is_around_the_new_level_and_no_wider() -> None:
    values = _quiet()
    values[:, 90:] *= 1.5
    found = judge(values)
    width = found.high / found.low
    np.testing.assert_allclose(found.baseline[:, 100:], 12.5 * 1.5, rtol=0.06)
    assert np.median(width[:, 100:120]) < 1.1 * np.median(width[:, 60:90])
    assert np.mean(found.verdict[:, 105:] == Verdict.STEADY) == 1


def test_up_and_down_again() -> None:
    values = _quiet(100)
    values[:, 60:110] *= 1.15
    found = judge(values)
    assert _share(found, np.abs(found.steps.night - 60) <= 1) > 0.95
    assert _share(found, np.abs(found.steps.night - 110) <= 1) > 0.95
    assert len(found.steps.night) <= 202


@pytest.mark.parametrize("apart", [4, 5, 6, 9])
def test_a_revert_soon_after(apart: int) -> None:
    values = _quiet(100)
    values[:, 60 : 60 + apart] *= 1.25
    found = judge(values)
    steps = found.steps
    assert _share(found, steps.ratio > 1) > 0.97
    assert _share(found, steps.ratio < 1) > 0.97
    back = steps.take(steps.ratio < 1)
    assert np.mean(back.night == 60 + apart) > 0.9
    assert np.mean(back.called <= 60 + apart + 7) > 0.9


def test_two_steps_in_one_direction() -> None:
    values = _quiet(100)
    values[:, 60:] *= 1.15
    values[:, 72:] *= 1.15
    steps = judge(values).steps
    assert len(steps.night) == 200
    np.testing.assert_allclose(steps.ratio, 1.15, rtol=0.08)


def test_at_the_very_start_there_is_nothing_to_compare_with() -> None:
    values = _quiet(200)
    values[:, :3] *= 1.3
    found = judge(values)
    assert len(found.steps.night) <= 1
    assert np.all(found.verdict[:, :17] == Verdict.INSUFFICIENT)


def test_early_it_takes_longer_but_is_called() -> None:
    values = _quiet(200)
    values[:, 12:] *= 1.3
    found = judge(values)
    near = np.abs(found.steps.night - 12) <= 1
    assert _share(found, near) > 0.95
    assert np.median(found.steps.called[near]) <= 12 + 8


def test_at_the_very_end_it_is_called_on_its_fourth_night() -> None:
    values = _quiet(100)
    values[:, -4:] *= 1.3
    assert len(judge(values[:, :-2]).steps.night) == 0
    called = judge(values).steps
    assert len(called.night) >= 95
    assert np.all(called.night == NIGHTS - 4)


def test_too_few_samples_say_so() -> None:
    """The first step can be called on the 18th sample: 10 on the old level, 8 on the new one."""
    values = _quiet(50, nights=30)
    values[:, 10:] *= 2
    found = judge(values)
    assert np.all(found.verdict[:, :17] == Verdict.INSUFFICIENT)
    assert np.all(found.verdict[:, 17] != Verdict.INSUFFICIENT)
    assert np.all(found.steps.called >= 17)
    assert np.mean(found.steps.called == 17) > 0.9
    assert np.all(np.isnan(found.baseline[:, :13]))
    assert np.all(np.isfinite(found.baseline[:, 13:17]))


def test_after_a_step_its_level_is_learned_first() -> None:
    values = _quiet(1)
    values[:, 90:] *= 1.5
    found = judge(values)
    assert found.steps.called.tolist() == [93]
    assert found.verdict[0, 94:97].tolist() == [Verdict.INSUFFICIENT] * 3
    assert np.all(found.verdict[0, 97:] == Verdict.STEADY)


@pytest.mark.parametrize("height", [1.5, 10.0, 1000.0, 0.1])
def test_single_spikes_are_no_news(height: float) -> None:
    values = _quiet(200)
    values[:, 11::13] *= height
    found = judge(values)
    assert len(found.steps.night) == 0
    assert np.all(found.verdict[:, 30:] == Verdict.STEADY)
    assert np.all(np.abs(np.log(found.high[:, 60:] / found.baseline[:, 60:])) < 0.15)


def test_a_spike_beside_a_step_moves_its_date_by_little() -> None:
    values = _quiet(100)
    values[:, 90:] *= 1.3
    values[:, 88] *= 5
    values[:, 92] *= 0.2
    steps = judge(values).steps
    assert len(steps.night) == 100
    assert np.all((steps.night >= 88) & (steps.night <= 91))
    np.testing.assert_allclose(steps.ratio, 1.3, rtol=0.06)


@pytest.mark.parametrize("slope", [0.1, 0.3, 1.0, -0.3])
def test_a_drift_is_no_step(slope: float) -> None:
    """`slope` in deviations of the noise a night: 0.1 is 6 % in a month at 2 % noise."""
    values = _quiet(200, nights=250) * np.exp(0.02 * slope * np.arange(250))
    found = judge(values)
    assert alarms(found)[0] <= 1
    late = found.verdict[:, 150:] == Verdict.DRIFT
    assert np.mean(late) > 0.8
    moved = found.ratio[:, 150:][late]
    np.testing.assert_allclose(np.median(np.log(moved)), 0.02 * slope * 32, rtol=0.1)


def test_a_step_in_a_drift_is_a_step() -> None:
    values = _quiet(200, nights=250) * np.exp(0.002 * np.arange(250))
    values[:, 150:] *= 1.3
    steps = judge(values).steps
    assert np.mean(np.isin(np.arange(200), steps.series[np.abs(steps.night - 150) <= 1])) > 0.95


def test_a_drift_ends_where_the_level_stays() -> None:
    values = _quiet(50, nights=400) * np.exp(0.006 * np.clip(np.arange(400) - 100, 0, 100))
    found = judge(values)
    assert np.mean(found.verdict[:, 160:200] == Verdict.DRIFT) > 0.9
    assert not np.any(found.verdict[:, 310:] == Verdict.DRIFT)


def test_gaps_count_for_nothing() -> None:
    values = _quiet(100, nights=260)
    values[:, 150:] *= 1.3
    holes = np.random.default_rng(1).random(values.shape) < 0.4
    values[holes] = np.nan
    values[:, 140:160] = np.nan
    found = judge(values)
    np.testing.assert_array_equal(found.verdict == Verdict.MISSING, np.isnan(values))
    assert np.all(np.isnan(found.baseline[np.isnan(values)]))
    assert len(found.steps.night) == 100
    assert np.mean(found.steps.previous < 140) > 0.9
    assert np.mean(found.steps.night >= 160) > 0.9


def test_a_constant_series_has_no_noise_but_a_least_band() -> None:
    values = np.full((1, 80), 3.0)
    found = judge(values)
    assert np.all(found.verdict[:, 22:] == Verdict.STEADY)
    np.testing.assert_allclose(found.low[0, 40:], 3 / 1.02)
    np.testing.assert_allclose(found.high[0, 40:], 3 * 1.02)


@pytest.mark.parametrize(("ratio", "called"), [(1.019, []), (1.021, [63]), (0.97, [63])])
def test_a_step_of_a_constant_series(ratio: float, called: list[int]) -> None:
    values = np.full((1, 80), 3.0)
    values[:, 60:] *= ratio
    assert judge(values).steps.called.tolist() == called


def test_a_spike_on_a_constant_series() -> None:
    values = np.full((1, 80), 3.0)
    values[:, 40] = 90
    values[:, 60:] *= 1.05
    found = judge(values)
    assert found.steps.night.tolist() == [60]
    assert np.all(found.high[:, 45:60] < 3.1)


def test_the_unit_may_be_tiny() -> None:
    values = _quiet(5)
    values[:, 90:] *= 1.3
    far = judge(values * 1e-300)
    assert len(far.steps.night) == 5
    np.testing.assert_allclose(far.steps.before, judge(values).steps.before * 1e-300)


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0, np.inf, -np.inf])
def test_what_is_no_time_is_no_sample(bad: float) -> None:
    values = _quiet(3)
    values[:, 90:] *= 1.3
    values[1] = bad
    values[2, 5] = bad
    found = judge(values)
    assert np.all(found.verdict[1] == Verdict.MISSING)
    assert found.verdict[2, 5] == Verdict.MISSING
    assert sorted(found.steps.series.tolist()) == [0, 2]


@pytest.mark.parametrize("shape", [(0, 0), (0, 9), (3, 0)])
def test_nothing_at_all(shape: tuple[int, int]) -> None:
    found = judge(np.empty(shape))
    assert found.verdict.shape == shape
    assert found.steps.ratio.size == 0


def test_one_sample() -> None:
    found = judge([[np.nan, 4.0, np.nan]])
    assert found.verdict.tolist() == [[Verdict.MISSING, Verdict.INSUFFICIENT, Verdict.MISSING]]


@pytest.mark.parametrize(
    ("values", "judged", "match"),
    [(np.ones(3), 0, "n_series"), (np.ones((1, 3)), 4, "3"), (np.ones((1, 3)), -1, "judged")],
)
def test_what_cannot_be_judged(values: Floats, judged: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        judge(values, judged=judged)


def test_steps_are_joined_in_the_order_of_calls() -> None:
    values = _quiet(3)
    values[0, 100:] *= 2
    values[2, 40:] *= 2
    steps = judge(values).steps
    assert steps.series.tolist() == [2, 0]
    apart = [steps.take(steps.series == series) for series in range(3)]
    joined = Steps.joined(apart)
    for each in fields(Steps):
        np.testing.assert_array_equal(getattr(joined, each.name), getattr(steps, each.name))
