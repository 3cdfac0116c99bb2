"""Jobs made ready to travel: the one place where a job's folder gets its order."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from orchestrator import __version__
from orchestrator.backends import jobdir
from orchestrator.config.models import Expectation, Pool
from orchestrator.config.objects import Config
from orchestrator.engines.images import stack_definition
from orchestrator.job import Job
from orchestrator.order import JOB_FILE, CellTerms, JobOrder, PoolTerms, write_order


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the orders of one run have in common."""

    run: str
    config: Config
    cells: Mapping[str, CellTerms]
    files: Mapping[str, str]
    """File in a job's folder to the absolute path it is copied from."""
    engine: str
    retries: int
    workers: int | None
    today: dt.date


def write(folder: Path, job: Job, terms: Terms) -> Job:
    """Fills an empty folder with a job and its order; returns the job as written.

    Raises:
        DefinitionError: a file changed since the run was planned, or is gone.
        InfrastructureError: the folder cannot be written.
    """
    config = terms.config
    written = jobdir.write(folder, job, terms.files)
    order = JobOrder(
        run=terms.run,
        job=written.id,
        job_sha256=hashlib.sha256((folder / JOB_FILE).read_bytes()).hexdigest(),
        harness_sha256=jobdir.harness_sha256(),
        stack=job.stack,
        stack_sha256=stack_definition(config.root, config.pins, job.stack),
        pool=_pool(job, config.matrix.pools[job.pool]),
        cells={cell.id: terms.cells[cell.id] for cell in job.cells},
        engine=terms.engine,
        retries=terms.retries,
        workers=terms.workers,
        today=terms.today.isoformat(),
        expectations=tuple(_of_cells(config.matrix.expectations, [c.id for c in job.cells])),
        version=__version__,
    )
    write_order(folder, order)
    return written


def _pool(job: Job, pool: Pool) -> PoolTerms:
    return PoolTerms(
        name=job.pool, arch=pool.arch or "", cpu_vendor=pool.cpu_vendor or "", device=job.device
    )


def _of_cells(
    expectations: Sequence[Expectation], cells: Sequence[str]
) -> Iterable[Mapping[str, str]]:
    for expectation in expectations:
        if any(fnmatchcase(cell, expectation.cells) for cell in cells):
            document = expectation.model_dump(mode="json")
            yield {name: str(value) for name, value in document.items()}
