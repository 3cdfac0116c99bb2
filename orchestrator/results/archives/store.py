"""A store: which archives there are, and which of them has which run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from orchestrator.errors import InfrastructureError
from orchestrator.results.archives.content import DIGITS, Contents, check_names, contents
from orchestrator.results.archives.objects import Gone, Objects, Stored
from orchestrator.results.history.archive import SUFFIX, Archive, read_archive
from orchestrator.results.store import RUN_NAME

T = TypeVar("T")

_NAME = re.compile(
    rf"(?P<of>{RUN_NAME.pattern}|\d{{4}}-\d{{2}})(?:\.[0-9a-f]{{{DIGITS}}})?{re.escape(SUFFIX)}"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An archive of the store."""

    stored: Stored
    of: str
    """A run's name, or a month `YYYY-MM`."""

    @property
    def month(self) -> str:
        """`YYYY-MM`."""
        return self.of[:7]

    @property
    def merged(self) -> bool:
        """Whether it is of a month."""
        return self.of == self.month


class Store:
    """Archives at an address."""

    def __init__(self, objects: Objects, cache: Path) -> None:
        """`cache`: a folder of this machine for what is fetched."""
        self.objects = objects
        self.cache = cache
        self._contents: dict[str, Contents] = {}

    def entries(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        """All archives, months first, and what is wrong with other names."""
        found, problems = [], []
        for stored in self.objects.listed():
            match = _NAME.fullmatch(stored.name)
            if match:
                found.append(Entry(stored=stored, of=match["of"]))
            elif stored.name.endswith(SUFFIX):
                problems.append(
                    f"{self.objects.address}/{stored.name} is named after no run or month: left out"
                )
        return tuple(sorted(found, key=lambda e: (not e.merged, e.stored.name))), tuple(problems)

    def path(self, entry: Entry) -> Path:
        """A local file of an archive. Raises Gone."""
        return self.objects.fetched(entry.stored, self.cache)

    def contents(self, entry: Entry, *, thorough: bool = False) -> Contents:
        """What is in an archive; what was read before is not read again.

        Raises:
            Gone: it was merged, and removed.
            InfrastructureError: it is damaged, or has runs that its name does not say.
        """
        key = f"{entry.stored.name} {entry.stored.version}"
        if key not in self._contents or thorough:
            found = self._read(entry, lambda path: contents(path, thorough=thorough))
            check_names(self.path(entry), found.archive, entry.of)
            self._contents[key] = found
        return self._contents[key]

    def archive(self, entry: Entry) -> Archive:
        """What an archive says of itself. Raises as `contents`."""
        found = self._read(entry, read_archive)
        check_names(self.path(entry), found, entry.of)
        return found

    def _read(self, entry: Entry, read: Callable[[Path], T]) -> T:
        path = self.path(entry)
        try:
            return read(path)
        except InfrastructureError:
            if not path.exists():
                raise Gone(entry.stored.name) from None
            raise

    def each(
        self,
        read: Callable[[Entry], T],
        problems: list[str],
        wanted: Callable[[Entry], bool] = lambda _: True,
    ) -> Iterator[tuple[Entry, T]]:
        """Archives, read. What is wrong with others is told, what is gone passed over."""
        found, named = self.entries()
        problems += named
        for entry in filter(wanted, found):
            try:
                inside = read(entry)
            except Gone:
                continue
            except InfrastructureError as error:
                problems.append(str(error))
            else:
                yield entry, inside

    def readable(
        self, wanted: Callable[[Entry], bool], problems: list[str], *, thorough: bool = False
    ) -> Iterator[tuple[Entry, Contents]]:
        """Archives with their contents, as `each`; also told is that several have a run and
        differ: the first one counts.
        """
        first: dict[str, tuple[str, str]] = {}
        read = partial(self.contents, thorough=thorough)
        for entry, inside in self.each(read, problems, wanted):
            for run, digest in inside.digests.items():
                name, before = first.setdefault(run, (entry.stored.name, digest))
                if before != digest:
                    problems.append(
                        f"run {run} is in {name} and in {entry.stored.name}, and they differ: "
                        "the first one counts. Look which is right, and remove the other"
                    )
            yield entry, inside

    def of_run(self, run: str, problems: list[str]) -> dict[str, str]:
        """Names of the archives that have a run, with its digest in each."""
        wanted = self.readable(
            lambda entry: entry.of == run or (entry.merged and run.startswith(entry.of)), problems
        )
        return {
            entry.stored.name: inside.digests[run]
            for entry, inside in wanted
            if run in inside.digests
        }
