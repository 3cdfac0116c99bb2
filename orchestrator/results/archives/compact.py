"""Merging closed months: many archives of runs become one, and what it has goes.

At any moment every run is in a file that can be read. A month's archive is created under a name
that says what is in it, read back and compared; only then are archives removed, each because all
its runs, as they are, are in the month's. So a crash leaves files too many, never one too few,
readers take each run once, and the next compaction goes on. Two at once that merge the same write
the same name; two that saw different files leave two months, of which one is merged into the
other the next time. An archive is only ever removed for one that has strictly more, so that no two
can go for each other's sake.

A run that is there in two versions is merged by neither: both stay until somebody decides.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.errors import InfrastructureError
from orchestrator.results.archives.content import DIGITS, Contents, runs_in
from orchestrator.results.archives.objects import Gone
from orchestrator.results.archives.store import Entry, Store
from orchestrator.results.history.archive import SUFFIX, Archive, arrow_schema, encode
from orchestrator.text import plural

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 5
"""Others may merge the same at the same time."""


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What a compaction came to."""

    months: tuple[str, ...]
    """Merged now."""
    removed: int
    """Archives that went."""
    problems: tuple[str, ...]
    """Archives that were left as they are, and why."""


@dataclass(frozen=True)
class _Month:
    """What is there of a month."""

    month: str
    inside: dict[str, tuple[Entry, Contents]] = field(default_factory=dict)
    """By name."""

    def wanted(self) -> dict[str, str]:
        """Digests of the runs to merge: all of which there is one version."""
        versions: dict[str, set[str]] = {}
        for _, contents in self.inside.values():
            for run, digest in contents.digests.items():
                versions.setdefault(run, set()).add(digest)
        return {run: found.pop() for run, found in sorted(versions.items()) if len(found) == 1}

    def name(self, wanted: Mapping[str, str]) -> str:
        """Of the object with these runs."""
        text = "".join(f"{run} {digest}\n" for run, digest in wanted.items())
        return f"{self.month}.{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}{SUFFIX}"

    def spare(self, name: str, wanted: Mapping[str, str]) -> list[str]:
        """Archives all of whose runs the one of that name has."""
        return [
            other
            for other, (_, contents) in self.inside.items()
            if other != name and contents.digests.items() <= wanted.items()
        ]


def compact(store: Store, today: str, progress: Callable[[str], None]) -> Compacted:
    """Merges every month that is over.

    Args:
        store: the archives.
        today: ISO 8601 date in UTC; its month is not over.
        progress: told what is going on.

    Raises:
        InfrastructureError: the store cannot be read or written, or what was written is read back
            as something else; nothing is lost.
    """
    problems: list[str] = []
    entries, _ = store.entries()
    over = [entry for entry in entries if entry.month < today[:7]]
    alone = {month for month, count in Counter(e.month for e in over).items() if count == 1}
    # a month that is one file is not read again
    months = sorted({e.month for e in over if not (e.merged and e.month in alone)})
    merged, removed = [], 0
    for month in months:
        done = _merge(store, month, problems, progress)
        if done is not None:
            merged.append(month)
            removed += done
    return Compacted(months=tuple(merged), removed=removed, problems=tuple(problems))


def _merge(
    store: Store, month: str, problems: list[str], progress: Callable[[str], None]
) -> int | None:
    """Number of archives that went; None when there was nothing to do."""
    for _ in range(_TRIES):
        told: list[str] = []
        found = _Month(month)
        for entry, contents in store.readable(lambda e: e.month == month, told):
            found.inside[entry.stored.name] = (entry, contents)
        wanted = found.wanted()
        name = found.name(wanted)
        spare = found.spare(name, wanted)
        if not wanted or not spare:
            problems += told
            return None
        progress(f"{month}: merging {plural(len(found.inside), 'archive')}")
        try:
            if name not in found.inside:
                _create(store, found, name, wanted)
            _check(store, name, wanted)
        except Gone:
            continue  # somebody else merged it: look again
        for each in spare:
            store.objects.remove(each)
        problems += told
        return len(spare)
    raise InfrastructureError(f"{store.objects.address}: others merge {month} all the time")


def _create(store: Store, found: _Month, name: str, wanted: Mapping[str, str]) -> None:
    """Raises Gone when an archive was removed before it could be read."""
    holders = {run: n for n, (_, inside) in found.inside.items() for run in inside.digests}
    records = {r.run: r for _, inside in found.inside.values() for r in inside.archive.runs}
    kept = tuple(records[run] for run in wanted)
    declared = {
        digest: inside.archive.declared[digest]
        for _, inside in found.inside.values()
        for digest in sorted({record.declared for record in kept})
        if digest in inside.archive.declared
    }
    readers: dict[str, _Reader] = {}
    for run in wanted:
        entry, _ = found.inside[holders[run]]
        if entry.stored.name not in readers:
            mine = frozenset(r for r, name in holders.items() if name == entry.stored.name)
            readers[entry.stored.name] = _Reader(_rows(store, entry), mine & wanted.keys())
    tables = (readers[holders[run]].take(run) for run in wanted)
    store.objects.create(name, encode(tables, Archive(runs=kept, declared=declared)))


class _Reader:
    """An archive that is read once, as far as it must be."""

    def __init__(self, rows: Iterator[tuple[str, pa.Table]], wanted: Collection[str]) -> None:
        self._rows = rows
        self._wanted = wanted
        self._early: dict[str, pa.Table] = {}

    def take(self, run: str) -> pa.Table:
        """The rows of a run; none when it has none. Our archives have runs in order."""
        while run not in self._early:
            name, table = next(self._rows, (run, arrow_schema().empty_table()))
            if name in self._wanted:
                self._early[name] = table
        return self._early.pop(run)


def _rows(store: Store, entry: Entry) -> Iterator[tuple[str, pa.Table]]:
    path = store.path(entry)
    try:
        yield from runs_in(path)
    except InfrastructureError:
        if not path.exists():
            raise Gone(entry.stored.name) from None
        raise


def _check(store: Store, name: str, wanted: Mapping[str, str]) -> None:
    """Reads back what was written, by whomever. Raises Gone when it was merged on."""
    entries, _ = store.entries()
    entry = next((entry for entry in entries if entry.stored.name == name), None)
    if entry is None:
        raise Gone(name)
    if store.contents(entry).digests != wanted:
        raise InfrastructureError(
            f"{store.objects.address}/{name} is not what was written: nothing was removed"
        )
