"""Flaky cells: pass and fail with the same fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dashboards.stats.wilson import Z, wilson_lower


class Outcome(IntEnum):
    """What an attempt says about the thing under test."""

    NO_EVIDENCE = -1
    """No verdict was reached, or none was tried: `miss`, `skip`."""
    FAILED = 0
    """`fail`, `error`, and `xfail`: that a failure was expected does not make it a pass."""
    PASSED = 1
    """`pass` and `xpass`."""


@dataclass(frozen=True, kw_only=True)
class Flaky:
    """One entry per cell, in the order of cell indices, except `ranking`."""

    flakes: NDArray[np.int64]
    """(n_cells,): how many times the verdict changed with nothing to account for it."""
    trials: NDArray[np.int64]
    """(n_cells,): attempts whose fingerprint had a verdict before."""
    rate: NDArray[np.float64]
    """(n_cells,): flakes / trials, 0 without trials."""
    lower: NDArray[np.float64]
    """(n_cells,): the lower end of Wilson's interval for the rate."""
    last: NDArray[np.int64]
    """(n_cells,): row of the last attempt whose verdict differs from the one before; -1 if none."""
    ranking: NDArray[np.int64]
    """Cells with a flake, the worst first: by `lower`, then by `flakes`, then by index."""


def flaky(
    cell: ArrayLike,
    fingerprint: ArrayLike,
    outcome: ArrayLike,
    *,
    n_cells: int,
    when: Sequence[NDArray[Any]] = (),
    z: float = Z,
) -> Flaky:
    """Finds the cells that passed and failed though nothing that could matter differed.

    The three columns (n_attempts,) hold an attempt a row: the cell's index, the fingerprint's
    index (from 0; compared within a cell only), and an `Outcome`. `NO_EVIDENCE` rows count for
    nothing. Rows are in the order of time, or in that of the columns `when`, the weightiest last.
    Of the verdicts of one cell with one fingerprint, in the order of time,

    - the first says what to expect, each further one is a trial of it: trials = verdicts - 1;
    - verdicts that follow each other and agree are one run: flakes = the lesser of the number of
      passing runs and of failing runs. So one failure among passes is one flake, and so is a
      failure that stays for five nights: it is one thing that happened, not five.

    Verdicts of one kind only make no flake.

    Raises:
        ValueError: columns of different lengths, a cell outside 0..n_cells-1, no `Outcome`.
    """
    cells, prints, outcomes = (
        each if isinstance(each, np.ndarray) else np.asarray(each, np.int64)
        for each in (cell, fingerprint, outcome)
    )
    _check(cells, prints, outcomes, n_cells)
    rows = np.flatnonzero(outcomes != Outcome.NO_EVIDENCE)
    cells, outcomes = cells[rows], outcomes[rows]
    groups, cell_of = _groups(cells, prints[rows])
    verdicts = np.bincount(groups, minlength=len(cell_of))
    passes = np.bincount(groups[outcomes == Outcome.PASSED], minlength=len(cell_of))
    trials = np.bincount(cells, minlength=n_cells)
    trials -= np.bincount(cell_of[verdicts > 0], minlength=n_cells)
    # few have verdicts of both kinds: only these are put in order
    mixed = ((passes > 0) & (passes < verdicts))[groups]
    rows, cells, groups, outcomes = (each[mixed] for each in (rows, cells, groups, outcomes))
    order = np.lexsort((rows, *(column[rows] for column in when), groups))
    rows, cells, groups, outcomes = (each[order] for each in (rows, cells, groups, outcomes))
    first = np.ones(rows.size, np.bool_)
    first[1:] = groups[1:] != groups[:-1]
    flips = ~first
    flips[1:] &= outcomes[1:] != outcomes[:-1]
    # n flips part n + 1 runs of alternating kind: half of them, rounded down, are the lesser kind
    of_group = np.bincount(np.cumsum(first) - 1, weights=flips).astype(np.int64)
    flakes = np.zeros(n_cells, np.int64)
    np.add.at(flakes, cells[first], (of_group + 1) // 2)
    last = _latest(rows[flips], cells[flips], when, n_cells)
    lower = wilson_lower(flakes, trials, z)
    found = np.flatnonzero(flakes)
    ranking = found[np.lexsort((found, -flakes[found], -lower[found]))]
    return Flaky(
        flakes=flakes,
        trials=trials,
        rate=flakes / np.maximum(trials, 1),
        lower=lower,
        last=last,
        ranking=ranking,
    )


def _groups(cells: NDArray[Any], prints: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """An index for each pair of cell and fingerprint, and each index's cell."""
    cell_of = np.zeros(int(prints.max(initial=-1)) + 1, np.int64)
    cell_of[prints] = cells
    if bool(np.all(cell_of[prints] == cells)):
        return prints, cell_of
    size = len(cell_of)
    pairs, groups = np.unique(cells.astype(np.int64) * size + prints, return_inverse=True)
    return groups, pairs // size


def _latest(
    rows: NDArray[np.int64], cells: NDArray[Any], when: Sequence[NDArray[Any]], n_cells: int
) -> NDArray[np.int64]:
    """Of each cell the row that is the last in time; -1: it has none."""
    order = np.lexsort((rows, *(column[rows] for column in when)))
    last = np.full(n_cells, -1, np.int64)
    # of several assignments to one place NumPy keeps the last
    last[cells[order]] = rows[order]
    return last


def _check(cells: NDArray[Any], prints: NDArray[Any], outcomes: NDArray[Any], n_cells: int) -> None:
    if not cells.shape == prints.shape == outcomes.shape or cells.ndim != 1:
        raise ValueError("cell, fingerprint and outcome must be columns of one length")
    if cells.size and not (cells.min() >= 0 and cells.max() < n_cells):
        raise ValueError(f"cell indices must lie between 0 and {n_cells - 1}")
    if outcomes.size and not (min(Outcome) <= outcomes.min() and outcomes.max() <= max(Outcome)):
        raise ValueError("an outcome is none of Outcome")
