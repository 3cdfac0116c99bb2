"""Critical values of the Mann-Whitney test."""

from __future__ import annotations

from itertools import combinations

import pytest

from dashboards.stats.ranks import critical


def _slowly(recent: int, reference: int, alpha: float) -> int:
    """The least U of which, or of more, no more than a share `alpha` of all arrangements has."""
    us = [
        sum(rank - at for at, rank in enumerate(ranks))
        for ranks in combinations(range(recent + reference), recent)
    ]
    return min(
        u for u in range(recent * reference + 2) if sum(each >= u for each in us) <= alpha * len(us)
    )


@pytest.mark.parametrize("recent", [3, 4, 5])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_by_counting_all_arrangements(recent: int, alpha: float) -> None:
    values = critical(recent, 8, alpha)
    assert values[1:].tolist() == [_slowly(recent, n, alpha) for n in range(1, 9)]


def test_where_nothing_is_rare_enough() -> None:
    assert critical(4, 18, 1 / 6000)[17:].tolist() == [4 * 17 + 1, 4 * 18]
