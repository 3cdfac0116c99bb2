"""Failures that are not news: known at head, come back, or the same elsewhere. Pure.

Two failures are one when cell and pool, status, phase and message agree, the message without paths,
addresses and numbers (`results.alike`). LLVM's premerge advisor goes by test, platform and message
in the same way: https://github.com/llvm/llvm-zorg/tree/main/premerge. A failure that is not news
needs no control runs, and nobody is told of it twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from orchestrator.results.alike import normalised
from orchestrator.results.history.rows import epoch
from orchestrator.results.history.table import Table
from orchestrator.results.schema import Result
from orchestrator.results.store import Runs
from orchestrator.text import plural

VERDICTS = 200
"""The newest verdicts of a cell that are looked at."""
_NO_VERDICT = ("miss", "skip", "none")


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """The last attempt of a cell in a run."""

    run: str
    started: int
    """Seconds since 1970, UTC."""
    cell: str
    status: str
    phase: str = ""
    message: str = ""
    """In the form of `results.alike.normalised`."""

    @property
    def pool(self) -> str:
        """Where it ran."""
        return self.cell.rpartition("@")[2]

    def same(self, other: Sighting) -> bool:
        """Whether both are one failure, wherever they were seen."""
        mine = (_stem(self.cell), self.status, self.phase, self.message)
        return mine == (_stem(other.cell), other.status, other.phase, other.message)


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """What is known of a failure from before, and from elsewhere."""

    kind: Literal["new", "known", "recurring"]
    """`known`: the last verdict before was the same failure. `recurring`: it was not, but this
    failure was there before and went away."""
    since: str = ""
    """The run that showed it first: of a known one, without a break since; else the very first."""
    times: int = 0
    """Verdicts before it that were this failure."""
    spells: int = 0
    """How often it came, and stayed for one verdict or more, before."""
    elsewhere: tuple[str, ...] = ()
    """Other pools of which the last verdict is this failure."""

    def lines(self) -> tuple[str, ...]:
        """For people; none of a new one that is nowhere else."""
        found = []
        if self.kind == "known":
            found.append(
                f"known: it fails like this since {self.since} ({plural(self.times, 'verdict')})"
            )
        elif self.kind == "recurring":
            what = f"{plural(self.spells, 'time')}, first in {self.since}"
            found.append(f"recurring: it failed like this and went away before, {what}")
        if self.elsewhere:
            found.append(f"the same in {', '.join(self.elsewhere)}")
        return tuple(found)


def recognise(failure: Sighting, others: Iterable[Sighting]) -> Recognised:
    """Compares a failure with other sightings of the cell, and of the same cell in other pools.

    What came to no verdict says nothing. Sightings of its own pool count if they are older; those
    of others whenever they are.
    """
    verdicts = [each for each in others if each.status not in _NO_VERDICT]
    verdicts.sort(key=lambda each: (each.started, each.run))
    mine = [
        each
        for each in verdicts
        if each.cell == failure.cell and (each.started, each.run) < (failure.started, failure.run)
    ][-VERDICTS:]
    spells = [list(group) for is_it, group in itertools.groupby(mine, key=failure.same) if is_it]
    elsewhere = tuple(_elsewhere(failure, verdicts))
    if not spells:
        return Recognised(kind="new", elsewhere=elsewhere)
    known = failure.same(mine[-1])
    return Recognised(
        kind="known" if known else "recurring",
        since=spells[-1 if known else 0][0].run,
        times=len(spells[-1]) if known else sum(map(len, spells)),
        spells=len(spells),
        elsewhere=elsewhere,
    )


def _elsewhere(failure: Sighting, verdicts: Sequence[Sighting]) -> Iterator[str]:
    last = {each.cell: each for each in verdicts if each.pool != failure.pool}
    for cell in sorted(last):
        if failure.same(last[cell]):
            yield last[cell].pool


# --- where sightings come from -----------------------------------------------------------------


def sighting(result: Result) -> Sighting:
    """Of an attempt."""
    return Sighting(
        run=result.run,
        started=epoch(result.started),
        cell=result.cell,
        status=_plain(result.status),
        phase=result.phase,
        message=normalised(result.message),
    )


def from_runs(runs: Runs, cell: str, most: int = VERDICTS) -> Iterator[Sighting]:
    """Of a cell and its likes in other pools, in the newest runs; what is damaged is left out."""
    for run in runs.all()[:most]:
        names = (run.folder / "results").glob(f"{_stem(cell)}@*.json")
        for name in sorted({path.name.rsplit(".", 2)[0] for path in names}):
            attempts = run.attempts_of(name)
            if attempts:
                yield sighting(attempts[-1])


def from_table(table: Table, cells: Iterable[str]) -> Iterator[Sighting]:
    """Of cells and their likes in other pools, in a whole history."""
    stems = {_stem(cell) for cell in cells}
    column = table.texts["cell"]
    wanted = [code for code, name in enumerate(column.values) if _stem(name) in stems]
    rows = np.flatnonzero(np.isin(column.codes, wanted) & (table.numbers["attempt"] > 0))
    # the last attempt of a cell in a run comes last
    rows = rows[np.lexsort((table.numbers["attempt"][rows], table.run[rows]))]
    last = {(int(table.run[row]), int(column.codes[row])): int(row) for row in rows}
    for (run, _), row in last.items():
        record = table.runs[run]
        yield Sighting(
            run=record.run,
            started=epoch(record.started),
            cell=column.at(row),
            status=_plain(table.texts["status"].at(row)),
            phase=table.texts["phase"].at(row),
            message=normalised(table.texts["message"].at(row)),
        )


def _plain(status: str) -> str:
    """Without expectations: a failure is the same whether somebody expects it or not."""
    return {"xfail": "fail", "xpass": "pass"}.get(status, status)


def _stem(cell: str) -> str:
    """A cell without its pool."""
    return cell.rpartition("@")[0]
