"""Attempts by machine and night, and which machines are sick."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboards.nights import Nights
from dashboards.stats import wilson_lower
from dashboards.texts import one_line
from orchestrator.results.alike import normalised
from orchestrator.results.history.table import Ints

SICK_RATE = 0.1
"""A machine is sick on a night when it certainly missed more than this part of its attempts: by
the lower bound of Wilson's interval, so that one miss of two does not make it sick."""
_CAUSES = 5


class Machines:
    """Attempts by agent and night."""

    def __init__(self, nights: Nights) -> None:
        """Counts; matrices have shape (agents, nights)."""
        table = nights.table
        self.nights = nights
        self.names = table.texts["agent"].values
        shape = (len(self.names), len(nights.nights))
        tried = (table.numbers["attempt"] > 0) & (nights.row_night >= 0) & (nights.row_cell >= 0)
        rows = np.flatnonzero(tried)
        miss = table.texts["status"].code("miss")
        # of numbers of 16 bits NumPy makes an order in linear time
        small = np.int16 if len(self.names) < 1 << 15 else np.int32
        agent = table.texts["agent"].codes[rows].astype(small)
        # together by agent, so that one machine costs what it ran
        order = np.argsort(agent, kind="stable")
        self._rows = rows[order].astype(np.int32)
        self._starts = np.searchsorted(agent[order], np.arange(len(self.names) + 1))
        night = nights.row_night[rows]
        self.attempts = _counted(agent, night, shape)
        missed = table.texts["status"].codes[rows] == miss
        self.misses = _counted(agent[missed], night[missed], shape)
        self.sick = wilson_lower(self.misses, self.attempts) > SICK_RATE
        self._miss = miss

    def sick_since(self, agent: int) -> int:
        """The first night of the sickness that an agent has tonight; -1: it is well."""
        if not self.sick[agent, -1]:
            return -1
        first = self.sick.shape[1] - 1
        for night in range(first, -1, -1):
            if self.attempts[agent, night] and not self.sick[agent, night]:
                break
            if self.sick[agent, night]:
                first = night
        return int(first)

    def causes(self, agent: int, first: int = 0) -> list[tuple[str, int]]:
        """What misses said, the most frequent first; one text stands for those that are alike."""
        table = self.nights.table
        mine = self.of(agent)
        missed = table.texts["status"].codes[mine] == self._miss
        mine = mine[missed & (self.nights.row_night[mine] >= first)]
        codes, numbers = np.unique(table.texts["message"].codes[mine], return_counts=True)
        groups: dict[str, tuple[str, int]] = {}
        for code, number in zip(codes, numbers, strict=True):
            text = table.texts["message"].values[int(code)]
            shown, before = groups.get(normalised(text), (one_line(text), 0))
            groups[normalised(text)] = shown, before + int(number)
        return sorted(groups.values(), key=lambda each: (-each[1], each[0]))[:_CAUSES]

    def of(self, agent: int) -> Ints:
        """The rows of its attempts."""
        return self._rows[self._starts[agent] : self._starts[agent + 1]]

    def pools(self, agent: int) -> tuple[str, ...]:
        """Those in which it ran something."""
        cells = self.nights.cells
        mine = np.zeros(len(cells), dtype=np.bool_)
        mine[self.nights.row_cell[self.of(agent)]] = True
        return tuple(sorted({cells[cell].pool for cell in np.flatnonzero(mine).tolist()}))


def _counted(agent: NDArray[Any], night: Ints, shape: tuple[int, int]) -> NDArray[np.int64]:
    """How often each pair is there; shape (agents, nights)."""
    place = agent.astype(np.int64) * shape[1] + night
    return np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
