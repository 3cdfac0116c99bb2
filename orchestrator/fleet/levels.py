"""Promotion by evidence: when an agent's word can turn a run red, and when it no longer does. Pure.

`probation`: results are shown and notify nobody. `trusted`: they count. A level is in the agent's
file and changes by a reviewed change of that file; here is what a reviewer goes by.

The numbers are ours. For comparison: PyTorch asks of repositories that report into its CI for two
weeks of recent data before they count for more (https://github.com/pytorch/rfcs/pull/102), and
LLVM's build bots are silent at first, until they have kept up
(https://llvm.org/docs/HowToAddABuilder.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.fleet.models import Level
from orchestrator.text import plural

WINDOW_DAYS = 30
"""What is counted: the last days, today included."""

MIN_DAYS = 14
"""On so many days of the window it did work: it outlasts a reboot and a weekend."""
MIN_JOBS = 50
"""With fewer, one bad night is a fifth of all that is known."""
MIN_HEALTH_JOBS = 10
MAX_MISSES = 0.05
"""Of jobs, to be promoted: one in twenty."""
MAX_HEALTH_FAILURES = 0.10
"""Of health jobs, to be promoted."""

LOSE_MISSES = 0.15
"""Of jobs: three times what is promoted, so that a level does not flap."""
LOSE_MIN_JOBS = 20
"""Fewer jobs say nothing against it."""
LOSE_HEALTH_IN_A_ROW = 3
"""Health jobs that failed one after the other, up to now."""
LOSE_SILENT_DAYS = 14
"""Since it was last seen: nobody knows what it is like by now."""


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What was counted of one agent in the last `WINDOW_DAYS` days."""

    health_jobs: int = 0
    health_failures: int = 0
    health_failures_in_a_row: int = 0
    """The most recent ones."""
    jobs: int = 0
    """Normal ones, all attempts."""
    misses: int = 0
    """Jobs without a verdict for which the agent is to blame: lost, out of disk, device gone."""
    refusals: int = 0
    """Bundles with its signature that were refused, for whatever reason but a damaged file."""
    days: int = 0
    """Days on which it did anything."""
    silent_days: int = 0
    """Since it was last seen."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What the evidence says of a level."""

    level: Level
    """That it should have."""
    reasons: tuple[str, ...]
    """On probation: what still blocks promotion. Trusted before, and no more: why. Else empty."""


def advise(level: Level, seen: Reliability) -> Advice:
    """The level that an agent should have, by what was seen of it."""
    if level == "trusted":
        lost = tuple(_against(seen))
        return Advice(level="probation" if lost else "trusted", reasons=lost)
    # what would cost it the level at once blocks it too
    blocking = tuple(dict.fromkeys([*_blocking(seen), *_against(seen)]))
    return Advice(level="probation" if blocking else "trusted", reasons=blocking)


def _blocking(seen: Reliability) -> Iterator[str]:
    """What is missing before promotion."""
    for count, least, noun in (
        (seen.days, MIN_DAYS, "day"),
        (seen.jobs, MIN_JOBS, "job"),
        (seen.health_jobs, MIN_HEALTH_JOBS, "health job"),
    ):
        if count < least:
            yield f"{plural(count, noun)} of {least} in {WINDOW_DAYS} days"
    if seen.misses > MAX_MISSES * seen.jobs:
        yield _share(seen.misses, seen.jobs, "job", "without a verdict", MAX_MISSES)
    if seen.health_failures > MAX_HEALTH_FAILURES * seen.health_jobs:
        most = MAX_HEALTH_FAILURES
        yield _share(seen.health_failures, seen.health_jobs, "health job", "failed", most)


def _against(seen: Reliability) -> Iterator[str]:
    """What costs a level."""
    if seen.refusals:
        yield f"{plural(seen.refusals, 'bundle')} refused in {WINDOW_DAYS} days"
    if seen.jobs >= LOSE_MIN_JOBS and seen.misses > LOSE_MISSES * seen.jobs:
        yield _share(seen.misses, seen.jobs, "job", "without a verdict", LOSE_MISSES)
    if seen.health_failures_in_a_row >= LOSE_HEALTH_IN_A_ROW:
        yield f"the last {plural(seen.health_failures_in_a_row, 'health job')} failed"
    if seen.silent_days >= LOSE_SILENT_DAYS:
        yield f"not seen for {plural(seen.silent_days, 'day')}"


def _share(count: int, of: int, noun: str, what: str, most: float) -> str:
    return f"{count:,} of {plural(of, noun)} {what} (at most {most:.0%})"
