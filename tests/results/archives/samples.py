"""Small runs, stores that fail or are interrupted at any step, and what readers see of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.memory import MemoryFileSystem

from orchestrator.results.archives.collect import Added, add_run
from orchestrator.results.archives.content import contents
from orchestrator.results.archives.objects import (
    Folder,
    Objects,
    Remote,
    Stored,
    every,
    open_objects,
)
from orchestrator.results.archives.store import Store
from orchestrator.results.history.source import find
from orchestrator.results.history.table import load
from orchestrator.results.schema import RunInfo
from orchestrator.results.store import Run
from tests.results.test_store import plan, planned, result

JANUARY = ("2026-01-03T02-00-00", "2026-01-04T02-00-00", "2026-01-31T02-00-00")
FEBRUARY = ("2026-02-01T02-00-00",)
TODAY = "2026-03-01"


def quiet(line: str) -> None:
    """Progress that nobody looks at."""


def make_run(folder: Path, name: str, *, ended: bool = True, **changed: Any) -> Run:
    """A run of two cells that have three attempts, and one that was not attempted.

    `changed`: of the attempt of cell `b`, which is red.
    """
    (folder / name).mkdir(parents=True)
    run = Run(folder / name)
    run.write_plan(plan(planned("a"), planned("b"), planned("c", runnable=False)))
    started = f"{name[:10]}T{name[11:].replace('-', ':')}Z"
    run.write_info(
        RunInfo(
            run=name,
            started=started,
            ended=started if ended else None,
            engine="docker",
            engine_note="",
            version="1",
        )
    )
    values = {"message": f"wrong in {name}", "last_words": "\x1b[31mdied\n", **changed}
    run.add(result("a", 1, run=name, status="miss", started=started))
    run.add(result("a", 2, run=name, started=started))
    run.add(result("b", 1, **{"run": name, "status": "fail", "started": started, **values}))
    return run


class Loose(MemoryFileSystem):  # type: ignore[misc]
    """A file system that does not create exclusively."""

    protocol = "loose"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Nobody must rely on what it cannot do."""
        assert mode == "overwrite"
        super().pipe_file(path, value, **kwargs)


KINDS = ("folder", "memory", "loose")
_COUNT = itertools.count()


def make_store(tmp_path: Path, kind: str = "folder", like: Store | None = None) -> Store:
    """A new store, empty or a copy."""
    name = f"store-{next(_COUNT)}"
    objects: Objects
    if kind == "folder":
        objects = Folder(tmp_path / name)
    elif kind == "memory":
        objects = open_objects(f"memory://{tmp_path}/{name}")
    else:
        objects = Remote(f"loose://{tmp_path}/{name}", Loose(), f"{tmp_path}/{name}")
    for stored in like.objects.listed() if like else ():
        assert like is not None
        assert objects.create(stored.name, like.objects.read(stored.name))
    return Store(objects, tmp_path / "cache")


def names(store: Store) -> list[str]:
    """Of the archives."""
    return [entry.stored.name for entry in store.entries()[0]]


def fill(store: Store, runs: Path, names: tuple[str, ...] = (*JANUARY, *FEBRUARY)) -> list[Added]:
    """Makes runs, and adds them."""
    return [add(store, make_run(runs, name)) for name in names]


def add(store: Store, run: Run, *, as_is: bool = False, artifacts: bool = False) -> Added:
    """Adds a run."""
    return add_run(store, run, as_is=as_is, artifacts=artifacts, progress=quiet)


def seen(store: Store) -> Mapping[str, str]:
    """What readers get: a digest of each run. Fails when a row is there twice, or belongs to no
    run.
    """
    folder = every(store.objects, store.cache)
    if not folder.exists():
        return {}
    found = find(folder, store.cache, quiet)
    assert found.problems == ()
    table = load(found.sources)
    rows = [
        (table.runs[table.run[row]].run, table.texts["cell"].at(row), table.numbers["attempt"][row])
        for row in range(len(table))
    ]
    assert len(set(rows)) == len(rows)
    digests: dict[str, str] = {}
    for source in found.sources:
        for run, digest in contents(source.path, thorough=True).digests.items():
            assert digests.setdefault(run, digest) == digest
    assert {run for run, _, _ in rows} == set(digests)
    return digests


class Died(BaseException):
    """A process came to its end; nothing catches it."""


class Watched:
    """A store that calls before each step, and after the last one of a kind is done."""

    def __init__(self, objects: Objects, before: Callable[[str], None]) -> None:
        self._objects = objects
        self._before = before
        self.exclusive = objects.exclusive
        self.address = objects.address

    def listed(self) -> tuple[Stored, ...]:
        self._before("list")
        return self._objects.listed()

    def read(self, name: str) -> bytes:
        self._before(f"read {name}")
        return self._objects.read(name)

    def create(self, name: str, data: bytes) -> bool:
        self._before(f"create {name}")
        return self._objects.create(name, data)

    def remove(self, name: str) -> None:
        self._before(f"remove {name}")
        self._objects.remove(name)

    def fetched(self, stored: Stored, cache: Path) -> Path:
        self._before(f"fetch {stored.name}")
        return self._objects.fetched(stored, cache)


@dataclasses.dataclass
class Steps:
    """Repeats an action, and does something else before its first, second, … step."""

    prepare: Callable[[], Store]
    act: Callable[[Store], object]

    def run(self, otherwise: Callable[[Store, str], None], after: Callable[[Store], None]) -> int:
        """Number of steps. `otherwise` gets the store as others see it, and may raise `Died`."""
        number = 0
        while True:
            store, count, reached = self.prepare(), 0, False

            def before(step: str, store: Store = store, number: int = number) -> None:
                nonlocal count, reached
                count += 1
                if count == number + 1:
                    reached = True
                    otherwise(Store(store.objects, store.cache), step)

            with contextlib.suppress(Died):
                self.act(Store(Watched(store.objects, before), store.cache))
            if not reached:
                return number
            after(store)
            number += 1
