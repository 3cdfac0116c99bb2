"""Adding to a store: a run once, as it is; what cells left that are red."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrator.engines.locks import if_free
from orchestrator.errors import InfrastructureError
from orchestrator.results.archives.content import DIGITS, contents, digest, runs_in
from orchestrator.results.archives.store import Store
from orchestrator.results.artifacts import check_name
from orchestrator.results.history.archive import (
    SUFFIX,
    Archive,
    RunRecord,
    arrow_schema,
    encode,
    read_archive,
)
from orchestrator.results.history.source import of_run
from orchestrator.results.store import Run

if TYPE_CHECKING:
    import pyarrow as pa

ARTIFACTS = "artifacts"
_RED = frozenset({"fail", "xpass", "error", "miss"})
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""ZIP knows no earlier time: equal files make equal archives."""


Outcome = Literal["added", "there", "left", "refused"]


@dataclass(frozen=True, kw_only=True)
class Added:
    """What became of a run."""

    run: str
    outcome: Outcome
    """`there`: it was in the store already, and is the same. `left`: it is not ready to be added.
    `refused`: another one of that name is there."""
    why: str = ""
    """Of what was not added."""
    artifacts: int = 0
    """Archives of what cells left, that were not there yet."""


def add_run(
    store: Store, run: Run, *, as_is: bool, artifacts: bool, progress: Callable[[str], None]
) -> Added:
    """Adds a run folder, and on request what its red cells left.

    Args:
        store: where to.
        run: the folder; nobody may be working on it.
        as_is: also if the run was stopped, or has documents that cannot be read.
        artifacts: whether to add those of red cells.
        progress: told what is going on.

    Raises:
        InfrastructureError: the store or the cache cannot be read or written.
    """
    with if_free(run.folder / "lock") as free:
        if not free:
            return _left(run.name, "it is being run")
        try:
            source = of_run(run, store.cache, progress)
        except InfrastructureError as error:
            return _left(run.name, str(error))
        (record,) = source.archive.runs
        why = "" if as_is else _unfinished(record)
        if why:
            return _left(run.name, f"{why}, or add it as it is: --as-is")
        table = dict(runs_in(source.path)).get(run.name, arrow_schema().empty_table())
        # before the run: a run that is there has all that was asked for with it
        count = sum(_artifacts(store, run, table)) if artifacts else 0
        outcome, why = _add(store, record, source.archive, table)
    return Added(run=run.name, outcome=outcome, why=why, artifacts=count)


def _left(run: str, why: str) -> Added:
    return Added(run=run, outcome="left", why=why)


def _unfinished(record: RunRecord) -> str:
    if record.ended is None:
        return f"it was stopped: finish it (lh-ci run --resume {record.run})"
    if record.unread:
        more = f" and {len(record.unread) - 1:,} more" if len(record.unread) > 1 else ""
        return f"{record.unread[0]}{more}: mend it"
    return ""


def add_archive(store: Store, path: Path) -> Iterator[Added]:
    """Adds every run of an archive that somebody else made.

    Raises:
        InfrastructureError: it is damaged or hostile, and nothing of it was added; or the store
            cannot be read or written.
    """
    contents(path, thorough=True)
    archive = read_archive(path)
    left = {record.run: record for record in archive.runs}
    for run, table in runs_in(path):
        outcome, why = _add(store, left.pop(run), archive, table)
        yield Added(run=run, outcome=outcome, why=why)
    for run, record in left.items():
        outcome, why = _add(store, record, archive, arrow_schema().empty_table())
        yield Added(run=run, outcome=outcome, why=why)


def _add(store: Store, record: RunRecord, archive: Archive, table: pa.Table) -> tuple[Outcome, str]:
    """Looks, creates, and looks again: what came in between is found, whoever was first."""
    wanted, problems = digest(record, table), list[str]()
    found = store.of_run(record.run, problems)
    if not found:
        declared = {d: archive.declared[d] for d in (record.declared,) if d in archive.declared}
        data = encode((table,), Archive(runs=(record,), declared=declared))
        exclusive = store.objects.exclusive
        name = f"{record.run}{'' if exclusive else f'.{wanted[:DIGITS]}'}{SUFFIX}"
        created = store.objects.create(name, data)
        problems = []
        found = store.of_run(record.run, problems)
        if created and found and set(found.values()) == {wanted}:
            return "added", ""
    others = [name for name, each in found.items() if each != wanted]
    if others:
        return "refused", (
            f"{store.objects.address} has another run of that name, in {', '.join(others)}. "
            "What is in a store is never replaced"
        )
    if not found:
        # what was created cannot be read, or was there and damaged
        raise InfrastructureError(
            "\n".join(problems) or f"{store.objects.address} lost {record.run}: add it again"
        )
    return "there", ""


def _artifacts(store: Store, run: Run, table: pa.Table) -> Iterator[bool]:
    """Of each red cell that left something: whether it was not there yet."""
    columns = ("cell", "attempt", "status")
    last: dict[str, str] = {}
    for row in sorted(table.select(columns).to_pylist(), key=lambda row: int(row["attempt"])):
        last[row["cell"]] = row["status"]
    for cell in sorted(cell for cell, status in last.items() if status in _RED):
        files = _files(run.artifacts(cell))
        if files:
            name = f"{ARTIFACTS}/{run.name}/{check_name(cell)}.{artifacts_digest(files)}.zip"
            yield store.objects.create(name, _zipped(files))


def _files(folder: Path) -> dict[str, bytes]:
    """Content of plain files by path; links are left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(
                zipfile.ZipInfo(name, _OLDEST), data, compress_type=zipfile.ZIP_DEFLATED
            )
    return buffer.getvalue()


def artifacts_digest(files: dict[str, bytes]) -> str:
    """Over names and contents: the part of the object's name that says what is in it."""
    found = hashlib.sha256()
    for name, data in sorted(files.items()):
        found.update(f"{name}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:DIGITS]
