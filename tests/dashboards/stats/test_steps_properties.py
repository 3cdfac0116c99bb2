"""What holds of verdicts whatever the history: no unit, no hindsight, no neighbours, no gaps."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.noise import KINDS, Floats
from dashboards.stats import Judged, Steps, judge
from tests.property import examples

ARRAYS = ("verdict", "ratio", "baseline", "low", "high")


@st.composite
def _histories(draw: st.DrawFn) -> Floats:
    """Some series with steps and gaps, each with noise of its own kind."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    nights = draw(st.integers(1, 150))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    values = np.concatenate([KINDS[kind](random, (3, nights)) for kind in kinds])
    for _ in range(draw(st.integers(0, 4))):
        values[:, draw(st.integers(0, nights - 1)) :] *= random.choice([0.8, 0.95, 1.1, 1.5])
    values[random.random(values.shape) < draw(st.sampled_from([0, 0.1, 0.6]))] = np.nan
    return values


def _same(one: Judged, other: Judged, rows: slice = slice(None)) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[rows], name)


def _same_steps(one: Steps, other: Steps) -> None:
    for each in fields(Steps):
        np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))


@examples(25)
@given(_histories(), st.data())
def test_later_nights_change_nothing(values: Floats, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, values.shape[1]))
    early, late = judge(values[:, :cut]), judge(values)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(early, name), getattr(late, name)[:, :cut], name)
    _same_steps(early.steps, late.steps.take(late.steps.called < cut))


@examples(25)
@given(_histories(), st.data())
def test_night_by_night_is_the_same_as_all_at_once(values: Floats, data: st.DataObject) -> None:
    nights = values.shape[1]
    cuts = sorted({0, nights, *data.draw(st.lists(st.integers(0, nights), max_size=5))})
    whole, steps, parts = judge(values), None, []
    for first, end in pairwise(cuts):
        part = judge(values[:, :end], judged=first, steps=steps)
        assert part.first == first
        steps = part.steps
        parts.append(part)
    for name in ARRAYS:
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name), name)
    assert steps is not None
    _same_steps(steps, whole.steps)


@examples(25)
@given(_histories(), st.integers(-40, 40))
def test_the_unit_does_not_matter(values: Floats, power: int) -> None:
    one, other = judge(values), judge(values * 10.0**power)
    np.testing.assert_array_equal(one.verdict, other.verdict)
    np.testing.assert_allclose(one.ratio, other.ratio, rtol=1e-9)
    for name in ("baseline", "low", "high"):
        scaled = getattr(other, name) / 10.0**power
        np.testing.assert_allclose(getattr(one, name), scaled, rtol=1e-9)
    np.testing.assert_array_equal(one.steps.night, other.steps.night)


@examples(25)
@given(_histories(), st.data())
def test_nights_without_samples_are_neutral(values: Floats, data: st.DataObject) -> None:
    nights = values.shape[1]
    places = data.draw(st.lists(st.integers(0, nights), max_size=20))
    spread = np.insert(values, places, np.nan, axis=1)
    kept = np.delete(np.arange(spread.shape[1]), _inserted(places))
    one, other = judge(values), judge(spread)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[:, kept], name)
    np.testing.assert_array_equal(kept[one.steps.night], other.steps.night)
    np.testing.assert_array_equal(kept[one.steps.called], other.steps.called)


def _inserted(places: list[int]) -> list[int]:
    """Where `np.insert` puts what it inserts before these places."""
    return [place + at for at, place in enumerate(sorted(places))]


@examples(12)
@given(_histories())
def test_series_know_nothing_of_each_other(values: Floats) -> None:
    whole = judge(values)
    for row in range(len(values)):
        one = slice(row, row + 1)
        alone = judge(values[one])
        _same(alone, whole, one)
        steps = whole.steps.take(whole.steps.series == row)
        np.testing.assert_array_equal(alone.steps.night, steps.night)


def test_more_series_than_are_judged_at_a_time() -> None:
    random = np.random.default_rng(3)
    values = KINDS["normal, 2 %"](random, (4500, 60))
    values[:, 40:] *= random.choice([1.0, 1.3], (4500, 1))
    values[random.random(values.shape) < 0.1] = np.nan
    whole = judge(values)
    for first in (0, 2040, 4400):
        rows = slice(first, first + 100)
        _same(judge(values[rows]), whole, rows)
