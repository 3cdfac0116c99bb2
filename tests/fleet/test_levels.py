"""Levels by evidence."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.fleet import levels
from orchestrator.fleet.levels import Advice, Reliability, advise

GOOD = Reliability(health_jobs=20, health_failures=1, jobs=100, misses=5, days=14)


def seen(**changed: Any) -> Reliability:
    return dataclasses.replace(GOOD, **changed)


def test_what_is_enough() -> None:
    assert advise("probation", GOOD) == Advice(level="trusted", reasons=())
    assert advise("trusted", GOOD) == Advice(level="trusted", reasons=())


def test_a_new_agent_is_told_all_that_is_missing() -> None:
    assert advise("probation", Reliability(days=1, jobs=1)).reasons == (
        "1 day of 14 in 30 days",
        "1 job of 50 in 30 days",
        "0 health jobs of 10 in 30 days",
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"days": 13}, "13 days of 14 in 30 days"),
        ({"jobs": 49, "misses": 0}, "49 jobs of 50 in 30 days"),
        ({"health_jobs": 9, "health_failures": 0}, "9 health jobs of 10 in 30 days"),
        ({"misses": 6}, "6 of 100 jobs without a verdict (at most 5%)"),
        ({"health_failures": 3}, "3 of 20 health jobs failed (at most 10%)"),
        ({"refusals": 1}, "1 bundle refused in 30 days"),
        ({"health_failures_in_a_row": 3}, "the last 3 health jobs failed"),
        ({"silent_days": 14}, "not seen for 14 days"),
    ],
)
def test_each_rule_blocks_promotion(changed: dict[str, int], reason: str) -> None:
    assert advise("probation", seen(**changed)) == Advice(level="probation", reasons=(reason,))


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({"misses": 15}, ()),
        ({"misses": 16}, ("16 of 100 jobs without a verdict (at most 15%)",)),
        ({"jobs": 19, "misses": 19}, ()),
        ({"jobs": 20, "misses": 4}, ("4 of 20 jobs without a verdict (at most 15%)",)),
        ({"health_failures_in_a_row": 2}, ()),
        ({"health_failures_in_a_row": 3}, ("the last 3 health jobs failed",)),
        ({"silent_days": 13}, ()),
        ({"silent_days": 14}, ("not seen for 14 days",)),
        ({"refusals": 1}, ("1 bundle refused in 30 days",)),
        ({"days": 1}, ()),
    ],
)
def test_what_costs_a_level(changed: dict[str, int], reasons: tuple[str, ...]) -> None:
    advice = advise("trusted", seen(**changed))
    assert advice.reasons == reasons
    assert advice.level == ("probation" if reasons else "trusted")


counts = st.integers(0, 200)


@given(st.builds(Reliability, **{f.name: counts for f in dataclasses.fields(Reliability)}))
def test_a_level_never_flaps(seen: Reliability) -> None:
    """Who is promoted by some evidence does not lose the level by the same."""
    if advise("probation", seen).level == "trusted":
        assert advise("trusted", seen).level == "trusted"


def test_the_bounds_leave_room_between_gaining_and_losing() -> None:
    assert levels.LOSE_MISSES >= 2 * levels.MAX_MISSES
    assert levels.LOSE_MIN_JOBS <= levels.MIN_JOBS
