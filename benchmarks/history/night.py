"""The rows of one night, and what its run says of itself."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import pyarrow as pa

from benchmarks.history import attempts, hostile, odd, passing, state, times
from benchmarks.history.passing import Tonight
from benchmarks.history.planner import Planner
from benchmarks.history.shared import ENGINE, Contents, Declarations, Numbers, Surroundings
from benchmarks.history.state import State
from benchmarks.history.world import Ints, World
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import RunRecord, table_of
from orchestrator.results.history.rows import Row
from orchestrator.results.store import utc

_MOST_ATTEMPTS = 8
"""More than there ever are of one cell: rows are sorted by cell, then attempt."""


@dataclass(frozen=True, kw_only=True)
class NightRows:
    """One run."""

    record: RunRecord
    declared: Declared
    table: pa.Table
    """By cell and attempt; then what has none."""


class Nights:
    """Makes nights; several in a row share what they have in common."""

    def __init__(self, world: World) -> None:
        """Plans nothing yet."""
        self.world = world
        self.planner = Planner(world)
        self._contents = Contents(world)
        self._numbers = Numbers(world)
        self._surroundings = Surroundings(world)
        self._declarations = Declarations(world)

    def night(self, number: int) -> NightRows | None:
        """A night; None when it did not happen."""
        if self.world.calendar.sort(number) == "none":
            return None
        now = state.at(self.world, number, self.planner.upto(number))
        tonight = self._tonight(now)
        digest, declared = self._declarations.at(now)
        made = NightRows(
            record=self._record(tonight, digest), declared=declared, table=self._table(tonight)
        )
        return self._poisoned(made) if self.world.parameters.hostile else made

    def _poisoned(self, made: NightRows) -> NightRows:
        seed = self.world.parameters.seed
        declared = hostile.declared(made.declared, seed)
        record = hostile.record(made.record, seed)
        return NightRows(
            record=dataclasses.replace(record, declared=declared.digest()),
            declared=declared,
            table=hostile.table(made.table, seed),
        )

    def _tonight(self, now: State) -> Tonight:
        world, shared = self.world, self._surroundings
        self._contents.update(now)
        self._numbers.update(now)
        timing = times.of(world, now)
        tries = attempts.of(world, now, shared, timing)
        everything = np.arange(len(world.ids))
        codes = shared.code(everything, tries.machine)
        missed = [
            int(shared.code(np.array([m.cell]), np.array([m.machine]))[0]) for m in tries.misses
        ]
        used: Ints = np.unique(np.concatenate([codes, np.array(missed, dtype=np.int64)]))
        texts, words = shared.texts(now, used)
        prints = passing.fingerprints(
            world, self._contents, words[np.searchsorted(used, codes)], everything
        )
        return Tonight(
            world=world,
            state=now,
            run=world.calendar.run(now.night),
            times=timing,
            attempts=tries,
            contents=self._contents,
            numbers=self._numbers,
            surroundings=shared,
            texts=dict(zip(used.tolist(), texts, strict=True)),
            words=dict(zip(used.tolist(), words, strict=True)),
            codes=codes,
            fingerprints=np.array(prints, dtype=object),
        )

    def _table(self, tonight: Tonight) -> pa.Table:
        now, settled = tonight.state, tonight.attempts.settled
        named = odd.expected(self.world, now.expectations)
        special = np.zeros(len(self.world.ids), dtype=bool)
        special[[*now.faults, *named]] = True
        plain = passing.tables(tonight, settled & ~special)
        others = list(odd.rows(tonight, np.flatnonzero(settled & special).tolist(), named))
        order = np.concatenate(
            [
                *(c * _MOST_ATTEMPTS + tonight.attempts.number[c] for c, _ in plain),
                np.array([c * _MOST_ATTEMPTS + row.attempt for c, row in others], dtype=np.int64),
            ]
        )
        table = pa.concat_tables([*(each for _, each in plain), table_of(r for _, r in others)])
        table = table.take(pa.array(np.argsort(order, kind="stable")))
        return pa.concat_tables([table, table_of(self._blank(tonight))]).combine_chunks()

    def _blank(self, tonight: Tonight) -> list[Row]:
        world, state_ = self.world, tonight.state
        return [
            Row(
                run=tonight.run,
                cell=world.ids[cell],
                attempt=0,
                status=blank.status,
                message=blank.message,
                tier=world.tier(cell),
                stack=world.stack(cell),
            )
            for cell, blank in sorted(state_.blank.items(), key=itemgetter(0))
            if state_.present[cell]
        ]

    def _record(self, tonight: Tonight, digest: str) -> RunRecord:
        now, tries = tonight.state, tonight.attempts
        moment = self.world.calendar.moment(now.night)
        ran = tries.settled
        last = int((tries.started[ran] + np.ceil(tonight.times.seconds[ran])).max(initial=0))
        seconds = max(0, last - int(moment.timestamp()))
        return RunRecord(
            run=tonight.run,
            started=utc(moment),
            ended=utc(moment + dt.timedelta(seconds=seconds)) if now.complete else None,
            seconds=float(seconds),
            engine=ENGINE,
            version="0.1.0",
            cells=int(now.declared.sum()),
            declared=digest,
        )
