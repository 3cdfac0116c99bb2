"""Nights: which there are, when, and what is already settled about them."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import dataclass
from typing import Literal

from benchmarks.history import draws

Sort = Literal["full", "none", "stopped", "small"]
"""`none`: it did not happen. `stopped`: it was, early on. `small`: few cells were asked for."""

_NO_NIGHT = 15
_THIN = 28
QUIET = 20
"""Until then nothing but the first of each kind happens."""
_NO_NIGHT_RATE = 1 / 60
_THIN_RATE = 1 / 80


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Nights by number, from 0."""

    seed: int
    start: dt.date
    density: float = 1.0

    def date(self, night: int) -> str:
        """ISO 8601."""
        return (self.start + dt.timedelta(days=night)).isoformat()

    def day(self, night: int) -> dt.date:
        """The day on which it starts, UTC."""
        return self.start + dt.timedelta(days=night)

    def moment(self, night: int) -> dt.datetime:
        """When its run starts: at two in the morning, and some seconds."""
        seconds = int(draws.unit(self.seed, "moment", night) * 20) + 3
        return dt.datetime.combine(self.day(night), dt.time(2, 0, seconds), dt.UTC)

    def run(self, night: int) -> str:
        """Its run's name, as `orchestrator.results.store` makes it."""
        return self.moment(night).strftime("%Y-%m-%dT%H-%M-%S")

    def sort(self, night: int) -> Sort:
        """What kind of night it is."""
        if self._none(night):
            return "none"
        if night == _THIN:
            return "stopped"
        drawn = draws.unit(self.seed, "thin", night) / _THIN_RATE
        if night <= _THIN or drawn >= self.density or self._none(night - 1):
            return "full"
        return "stopped" if drawn < self.density / 2 else "small"

    def _none(self, night: int) -> bool:
        if night <= QUIET:
            return night == _NO_NIGHT
        if night in (_THIN - 1, _THIN):
            return False
        drawn = draws.unit(self.seed, "none", night) / _NO_NIGHT_RATE
        return drawn < self.density and not self._none(night - 1)

    def full(self, night: int) -> int:
        """The first night from `night` on that is like most."""
        return next(n for n in itertools.count(night) if self.sort(n) == "full")
