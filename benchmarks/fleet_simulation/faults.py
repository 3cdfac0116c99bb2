"""What goes wrong in a night: seeded, and as often as it does elsewhere.

Of 240 jobs that failed and then passed in 200 builds of vLLM, about 78 % were infrastructure's:
timeouts 31 % of all, GPU faults 24 %, lost agents 22 %, the container engine 8 %
(https://github.com/vllm-project/vllm/issues/57372). The mix below is of that kind, at rates that
are ours; and there is what a fleet's bad days have: a registry that is down, machines that are sick
for hours, and some that are sick only when they do real work.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.fleet.misses import Kind
from orchestrator.job import Device

_LOST_PER_HOUR = 0.005
"""Of an agent that works: it goes away, for some minutes or for hours."""
_AWAY_S = (120.0, 5400.0)
_PER_JOB: Mapping[Kind, float] = {
    Kind.DISK: 0.0015,
    Kind.MEMORY: 0.001,
    Kind.DAEMON: 0.0015,
    Kind.CLOCK: 0.0002,
    Kind.RESULT: 0.0005,
}
_GPU_PER_JOB = {Kind.DEVICE: 0.004, Kind.HANG: 0.003}
_SICK, _SICK_MISSES, _SICK_PASSES = 0.02, 0.6, 0.1
"""Of the agents; jobs that such a one misses; health jobs that it passes all the same."""
_LIMPING, _LIMPING_MISSES = 0.005, 0.8
"""Agents that pass all health jobs, and the normal ones that they miss."""
_REPAIRED_S = (1800.0, 20_000.0)
_OUTAGE_S = (1500.0, 2100.0)
"""From when to when the registry answers every third time."""
_OUTAGE_MISSES = 0.33


@dataclass(frozen=True, kw_only=True)
class Fate:
    """How a job ends on an agent."""

    seconds: float
    kind: Kind | None = None
    """None: it comes to its verdicts."""
    away_s: float = 0.0
    """The agent is gone for so long afterwards."""


class Faults:
    """What happens to jobs; the same questions in the same order have the same answers."""

    def __init__(self, agents: Iterable[str], seed: int) -> None:
        """Draws who is sick, and until when."""
        self._draw = random.Random(f"faults {seed}")  # noqa: S311  nothing secret
        names = sorted(agents)
        self._sick: dict[str, float] = {}
        self._limping: dict[str, float] = {}
        for name in names:
            lot = self._draw.random()
            until = self._draw.uniform(*_REPAIRED_S)
            if lot < _SICK:
                self._sick[name] = until
            elif lot < _SICK + _LIMPING:
                self._limping[name] = until

    @property
    def sick(self) -> int:
        """Agents that are sick when the night begins."""
        return len(self._sick) + len(self._limping)

    def health(self, agent: str, now: float, seconds: float) -> Fate:
        """Of a health job."""
        if self._is(self._sick, agent, now) and self._draw.random() >= _SICK_PASSES:
            return Fate(seconds=seconds, kind=Kind.DEVICE)
        return self._chance(now, seconds, "")

    def normal(self, agent: str, now: float, seconds: float, device: Device) -> Fate:
        """Of any other."""
        for who, misses in ((self._sick, _SICK_MISSES), (self._limping, _LIMPING_MISSES)):
            if self._is(who, agent, now) and self._draw.random() < misses:
                return Fate(seconds=seconds * self._draw.random(), kind=Kind.DEVICE)
        return self._chance(now, seconds, device)

    def _chance(self, now: float, seconds: float, device: Device) -> Fate:
        """What can happen to anybody."""
        begin, end = _OUTAGE_S
        if begin <= now < end and self._draw.random() < _OUTAGE_MISSES:
            return Fate(seconds=20.0, kind=Kind.PULL)
        lasts = self._draw.expovariate(_LOST_PER_HOUR / 3600)
        if lasts < seconds:
            return Fate(seconds=lasts, kind=Kind.LOST, away_s=self._draw.uniform(*_AWAY_S))
        lot = self._draw.random()
        for kind, rate in {**_PER_JOB, **(_GPU_PER_JOB if device else {})}.items():
            lot -= rate
            if lot < 0:
                return Fate(seconds=seconds * self._draw.random(), kind=kind)
        return Fate(seconds=seconds)

    @staticmethod
    def _is(who: Mapping[str, float], agent: str, now: float) -> bool:
        return now < who.get(agent, 0.0)
