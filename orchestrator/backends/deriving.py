"""Jobs made from jobs: some of their cells again, or other cells in their place."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.backends import executing, jobdir
from orchestrator.backends.executing import Ordered
from orchestrator.job import Cell
from orchestrator.order import JOB_FILE, CellTerms, write_order
from orchestrator.results.store import Run

_ASIDE = "aside"
"""Folder of a run for the results of jobs that are none of its plan's, each in one of its own."""


def derive(
    like: Ordered,
    folder: Path,
    cells: Sequence[Cell],
    *,
    files: Mapping[str, str] | None = None,
    terms: Mapping[str, CellTerms] | None = None,
    image: str = "",
    stack_sha256: str = "",
) -> Ordered:
    """Fills a folder with a job of the same stack, pool and harness as another's.

    Args:
        like: that other one.
        folder: its name becomes the job's id; what is in it is removed.
        cells: what the job is of.
        files: the cells' files, as `jobdir.write` takes them; None: those of the other job.
        terms: of cells that are not in the other job.
        image: see `JobOrder.image`.
        stack_sha256: the definition that this image was made by; empty: the other job's.

    Raises:
        DefinitionError: a file is not what the cells were planned with.
        InfrastructureError: the folder cannot be written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = dataclasses.replace(
        like.job,
        id=folder.name,
        cells=tuple(cells),
        workers=max(1, min(like.job.workers, len(cells))),
    )
    found = files if files is not None else jobdir.files_of(like.folder, cells)
    jobdir.write(folder, job, found, like.folder / jobdir.HARNESS)
    known = {**(terms or {}), **like.order.cells}
    order = dataclasses.replace(
        like.order,
        job=job.id,
        job_sha256=hashlib.sha256((folder / JOB_FILE).read_bytes()).hexdigest(),
        cells={cell.id: known[cell.id] for cell in cells},
        image=image,
        stack_sha256=stack_sha256 or like.order.stack_sha256,
    )
    write_order(folder, order)
    return executing.read(folder)


def aside(run: Run, job: str) -> Run:
    """Where the results of a job go that is none of the plan's: no page and no archive reads it."""
    folder = run.folder / _ASIDE / job
    found = Run(folder, run.name)
    if not (folder / "run.json").exists():
        found.write_info(run.info())
    return found
