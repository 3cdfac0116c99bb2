"""A job's folder: everything the harness needs, copied and frozen.

The folder outlives edits of the repository: what was judged can be looked up, and run again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import orchestrator
from orchestrator import records
from orchestrator.errors import DefinitionError
from orchestrator.job import Cell, Job
from orchestrator.results.files import unwritable

PACKAGE = Path(orchestrator.__file__).parent
HARNESS = "orchestrator"
"""The folder in a job's folder that the harness is in."""
HARNESS_PARTS = (
    "__init__.py",
    "errors.py",
    "records.py",
    "job.py",
    "host.py",
    "text.py",
    "harness",
    "compare",
)
"""The parts of the package that the harness imports."""


def write(folder: Path, job: Job, files: Mapping[str, str], package: Path = PACKAGE) -> Job:
    """Fills an empty `folder` with a job: `job.json`, workloads, goldens and the harness.

    Returns the job as written: its id is the folder's name.

    Everything is readable by everyone: a container's user is not us.

    Args:
        folder: exists, empty.
        job: what to run.
        files: the job's relative file names to the absolute paths they are copied from.
        package: where the harness is copied from.

    Raises:
        DefinitionError: a file changed since the run was planned, or is gone.
        InfrastructureError: the folder cannot be written.
    """
    try:
        _copy_harness(package, folder / HARNESS)
        for name, sha256 in sorted(_needed(job.cells)):
            _copy_checked(Path(files[name]), folder / name, sha256)
        document = dataclasses.replace(job, id=folder.name)
        (folder / "job.json").write_text(records.dumps(document, indent=1) + "\n", encoding="utf-8")
        _make_readable(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    return document


def files_of(folder: Path, cells: Iterable[Cell]) -> dict[str, str]:
    """The files that cells name, in a folder that has them: `write` takes them from there."""
    return {name: str(folder / name) for name, _ in _needed(cells)}


def changed(folder: Path, cells: Iterable[Cell]) -> tuple[str, ...]:
    """The files that cells name and that a folder has not, or has otherwise."""
    return tuple(
        name for name, sha256 in sorted(_needed(cells)) if _digest(folder / name) != sha256
    )


def _digest(path: Path) -> str:
    """Empty: it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


@cache
def harness_sha256(package: Path = PACKAGE) -> str:
    """Digest of the harness that jobs are run with."""
    digest = hashlib.sha256()
    for path in _harness_files(package):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _harness_files(package: Path) -> Iterator[Path]:
    for part in HARNESS_PARTS:
        path = package / part
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (f for f in found if f.is_file() and "__pycache__" not in f.parts)


def _copy_harness(package: Path, folder: Path) -> None:
    for path in _harness_files(package):
        target = folder / path.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _needed(jobs_cells: Iterable[Cell]) -> set[tuple[str, str]]:
    """File and digest of everything that cells name."""
    cells = tuple(jobs_cells)
    needed = {(cell.workload.file, cell.workload.sha256) for cell in cells}
    return needed | {(c.golden.file, c.golden.sha256) for c in cells if c.golden is not None}


def _copy_checked(source: Path, target: Path, sha256: str) -> None:
    try:
        data = source.read_bytes()
    except OSError as error:
        raise DefinitionError(
            f"{source}: {error.strerror}. The run was planned with it: plan a new run"
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DefinitionError(
            f"{source} changed since this run was planned. Start a new run to use it as it is now"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def _make_readable(folder: Path) -> None:
    folder.chmod(0o755)
    for parent, folders, names in os.walk(folder):
        for name in folders:
            (Path(parent) / name).chmod(0o755)
        for name in names:
            (Path(parent) / name).chmod(0o644)
