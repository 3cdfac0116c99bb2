"""What pages are made from: nights, and what statistics say of them, computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dashboards import documents as doc
from dashboards.kinds import kinds
from dashboards.machines import Machines
from dashboards.memory import Memory, Speeds
from dashboards.nights import (
    ERROR,
    FAIL,
    NONE,
    PASS,
    STATUSES,
    XFAIL,
    XPASS,
    Nights,
    is_red,
)
from dashboards.stats import Flaky, Outcome, flaky
from dashboards.texts import one_line
from orchestrator.results.declared import Declared
from orchestrator.results.history.table import Ints, Table

FEW = 8
"""Cells that a list shows of many."""


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What is known of an agent apart from its results."""

    level: str
    """`probation`, `trusted`."""
    contact: str
    blocks: tuple[str, ...] = ()
    """What stands between it and promotion."""
    quarantine: str = ""
    """Since when it is given health jobs alone, and why; empty: it is not."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a site is told besides results."""

    title: str = "Lighthouse CI"
    expected_hours: float = 26.0
    """Between two nights; a site whose newest run is older says that it is late."""
    agents: Callable[[Table], Mapping[str, Registered]] = lambda _: {}
    """What is known of the registered agents, given all results."""


class Facts:
    """All that is known; `night` is the newest one, whose index is `last`."""

    def __init__(
        self,
        nights: Nights,
        options: Options,
        problems: tuple[str, ...],
        memory: Memory,
        registered: Mapping[str, Registered] | None = None,
    ) -> None:
        """`problems`: what of the results could not be read; `registered`: what `options.agents`
        says.
        """
        self.nights = nights
        self._memory = memory
        self.options = options
        self.problems = problems
        self.registered = {} if registered is None else registered
        self.last = len(nights.nights) - 1
        self.night = nights.nights[-1] if nights.nights else ""
        self.previous = nights.nights[-2] if len(nights.nights) > 1 else ""
        self.declared: Declared | None = nights.declared(self.last) if nights.nights else None

    @cached_property
    def started(self) -> str:
        """Of the newest run; empty without one."""
        return self.nights.runs[-1][-1].started if self.nights.nights else ""

    @cached_property
    def machines(self) -> Machines:
        """What machines did."""
        return Machines(self.nights)

    @cached_property
    def since(self) -> Ints:
        """Shape (cells,): the first night of the present state of each cell."""
        return self.nights.since(self.last)

    @cached_property
    def verdict_before(self) -> Ints:
        """Shape (cells,): the newest night before the last one with a verdict; -1: none."""
        if self.last < 1:
            return np.full(len(self.nights.cells), -1, dtype=np.int32)
        return self.nights.verdict_night[:, self.last - 1]

    @cached_property
    def kinds(self) -> list[doc.Kind | None]:
        """For each cell: tonight against its last verdict before, or, where it has none or
        there is none tonight, against the night before.
        """
        nights, last = self.nights, self.last
        known = nights.known_night[:, last - 1] if last else self.verdict_before
        judged = self.verdict_before >= 0
        return kinds(nights, np.where(judged, self.verdict_before, known), last)

    def of_tonight(self, cells: list[int]) -> list[int]:
        """Those of some cells that are expected tonight; all of them where none is."""
        return [cell for cell in cells if self.expected[cell]] or cells

    @cached_property
    def expected(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Shape (cells,): tonight has a row of it, or what is declared still has its place."""
        if self.last < 0:
            return np.zeros(len(self.nights.cells), dtype=np.bool_)
        here = self.nights.row[:, self.last] >= 0
        return np.asarray(
            [
                bool(is_here) or self._is_declared(index)
                for index, is_here in enumerate(here.tolist())
            ],
            dtype=np.bool_,
        )

    def _is_declared(self, index: int) -> bool:
        cell, declared = self.nights.cells[index], self.declared
        if declared is None or cell.workload not in declared.workloads:
            return False
        pipeline = declared.pipelines.get(cell.pipeline)
        return pipeline is not None and cell.pool in pipeline.pools

    @cached_property
    def vanished(self) -> Ints:
        """Cells that had something on the night before and have nothing tonight."""
        if self.last < 1:
            return np.zeros(0, dtype=np.int32)
        status = self.nights.status
        gone = (status[:, self.last - 1] != NONE) & (status[:, self.last] == NONE)
        return np.flatnonzero(gone).astype(np.int32)

    def judge(self) -> None:
        """Has everything judged that is kept for the next time."""
        _ = self.execute, self.lowering

    @cached_property
    def execute(self) -> Speeds:
        """Noise and steps in the seconds of execution."""
        return self._memory.judged("execute", self.nights.execute)

    @cached_property
    def lowering(self) -> Speeds:
        """Noise and steps in the seconds to code."""
        return self._memory.judged("lowering", self.nights.lowering)

    @cached_property
    def flaky(self) -> Flaky:
        """By cell; `last` has rows of the table."""
        nights, table = self.nights, self.nights.table
        prints, status = table.texts["fingerprint"], table.texts["status"]
        codes = [_OUTCOMES.get(value, Outcome.NO_EVIDENCE) for value in status.values]
        said = np.asarray(codes or [Outcome.NO_EVIDENCE], dtype=np.int8)[status.codes]
        said[prints.codes == prints.code("")] = Outcome.NO_EVIDENCE
        said[(nights.row_cell < 0) | (nights.row_night < 0)] = Outcome.NO_EVIDENCE
        cells = np.maximum(nights.row_cell, 0)
        when = (table.numbers["attempt"], table.run)
        return flaky(cells, prints.codes, said, n_cells=len(nights.cells), when=when)

    def flaky_night(self, cell: int) -> int:
        """The night of a cell's last flake; -1: none."""
        last = int(self.flaky.last[cell])
        return int(self.nights.row_night[last]) if last >= 0 else -1

    def ref(self, cell: int) -> doc.CellRef:
        """A cell of tonight as lists show it."""
        nights, last = self.nights, self.last
        where = nights.cells[cell]
        code = int(nights.status[cell, last])
        return doc.CellRef(
            cell=where.id,
            href=where.href,
            status=STATUSES[code],
            phase=nights.text("phase", cell, last),
            pool=where.pool,
            message=one_line(nights.text("message", cell, last)) if code != PASS else "",
            since=nights.nights[self.since[cell]],
            tier=nights.text("tier", cell, last) or "core",
        )

    def refs(self, cells: Iterable[int]) -> tuple[doc.CellRef, ...]:
        """The first few of them."""
        return tuple(self.ref(int(cell)) for cell, _ in zip(cells, range(FEW), strict=False))

    def worst(self, counts: Mapping[str, int]) -> str:
        """The status that stands for many cells: red before doubt before green."""
        return next((status for status in WORST_FIRST if counts.get(status)), "none")

    def first_bad(self, cells: Ints) -> str:
        """The phase in which most of the red ones among cells failed, the first of equals."""
        red = [int(c) for c in cells if is_red(self.nights.status[c : c + 1, self.last])[0]]
        found: dict[str, int] = {}
        for cell in red:
            phase = self.nights.text("phase", cell, self.last)
            found[phase] = found.get(phase, 0) + 1
        return max(found, key=lambda phase: found[phase]) if found else ""


WORST_FIRST = ("fail", "error", "xpass", "miss", "none", "pass", "xfail", "skip")
_OUTCOMES = {
    STATUSES[PASS]: Outcome.PASSED,
    STATUSES[XPASS]: Outcome.PASSED,
    STATUSES[FAIL]: Outcome.FAILED,
    STATUSES[ERROR]: Outcome.FAILED,
    STATUSES[XFAIL]: Outcome.FAILED,
}
