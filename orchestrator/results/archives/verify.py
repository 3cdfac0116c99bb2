"""Looking at everything in a store: each archive to its end, each run once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.results.archives.store import Store


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was found."""

    archives: int
    """Whole."""
    runs: int
    """Different ones."""
    twice: int
    """Runs that several archives have, as after a compaction that was cut short: they count once,
    and the next one puts it right."""
    problems: tuple[str, ...]


def verify(store: Store, progress: Callable[[str], None]) -> Verified:
    """Reads every row of every archive.

    Raises:
        InfrastructureError: the store cannot be listed.
    """
    problems: list[str] = []
    seen: dict[str, int] = {}
    archives = 0
    for entry, contents in store.readable(lambda _: True, problems, thorough=True):
        progress(f"read {entry.stored.name}")
        archives += 1
        for run in contents.digests:
            seen[run] = seen.get(run, 0) + 1
    return Verified(
        archives=archives,
        runs=len(seen),
        twice=sum(count > 1 for count in seen.values()),
        problems=tuple(problems),
    )
