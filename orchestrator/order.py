"""The order: what travels beside a job, so that any machine can prepare, run and judge it.

A job document says what a container runs. Its order says everything else that the machine around
the container must know: which stack, as which definition; what is expected to fail; how often a
`miss` is tried again; how people rerun a cell. Both lie in the job's folder, so an agent needs a
checkout only for the images' definitions, and never reads the matrix.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.config.models import Expectation
from orchestrator.engines.base import Environment
from orchestrator.errors import InfrastructureError
from orchestrator.host import Host
from orchestrator.job import Device, Job
from orchestrator.results.files import write_atomically

ORDER_SCHEMA = 1
ORDER_FILE = "order.json"
JOB_FILE = "job.json"
EXEC_FILE = "exec.json"
"""In the folder of results: it is there when everything else is, and is written last."""
LOG_FILE = "log.txt"


@dataclass(frozen=True, kw_only=True)
class CellTerms:
    """What the record says of a cell that its job does not."""

    tier: str
    reproduce: str
    """The one command that reruns exactly this cell."""


@dataclass(frozen=True, kw_only=True)
class PoolTerms:
    """Which machines a job is for; empty: any."""

    name: str
    arch: str = ""
    cpu_vendor: str = ""
    device: Device = ""

    def refusal(self, host: Host) -> str:
        """Why `host` is no part of the pool; empty when it is."""
        wants = {"architecture": self.arch, "CPU vendor": self.cpu_vendor}
        has = {"architecture": host.arch, "CPU vendor": host.cpu_vendor}
        for what, wanted in wants.items():
            if wanted and wanted != has[what]:
                return f"pool {self.name} is for {what} {wanted}; this machine has {has[what]}"
        gpus = [gpu for gpu in host.gpus if gpu.vendor == self.device]
        if self.device and all(gpu.problem for gpu in gpus):
            why = gpus[0].problem if gpus else "none is here"
            return f"pool {self.name} is for GPUs by {self.device}: {why}"
        return ""


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """`order.json`."""

    run: str
    job: str
    """Id of the job document beside it."""
    job_sha256: str
    """Of that document's bytes; it carries the digests of workloads and goldens in turn."""
    harness_sha256: str
    """Of the harness in the job's folder."""
    stack: str
    stack_sha256: str
    """Of the stack's definition: an agent whose checkout defines it otherwise runs nothing."""
    image: str = ""
    """Digest of an environment that is to be run in, by whatever definition it was made: of a
    control run. Empty: the stack as it is defined."""
    pool: PoolTerms
    cells: Mapping[str, CellTerms]
    engine: str = "auto"
    retries: int = 2
    """How often a `miss` is tried again on the machine that took the job."""
    workers: int | None = None
    """Cells at the same time; None: as the machine's cores and memory allow."""
    today: str
    """ISO date by which expectations expire: the same on every machine."""
    expectations: tuple[Mapping[str, str], ...] = ()
    """As in the matrix, of the job's cells alone."""
    version: str
    """Of the program that gave the order."""
    schema: int = ORDER_SCHEMA

    def expected(self) -> tuple[Expectation, ...]:
        """The expectations, as the matrix declares them."""
        return tuple(Expectation.model_validate_json(json.dumps(e)) for e in self.expectations)

    def date(self) -> dt.date:
        """See `today`."""
        return dt.date.fromisoformat(self.today)


@dataclass(frozen=True, kw_only=True)
class ExecSummary:
    """`exec.json`: what came of an order, written when it is finished."""

    job: str
    order_sha256: str
    run: str
    started: str
    """UTC, ISO 8601."""
    ended: str
    seconds: float
    engine: str
    engine_note: str
    environments: tuple[Environment, ...]
    results: int
    """Documents in `results/`."""
    exit: int
    """The exit code; see `errors.ExitCode`."""
    host: str
    """The machine's name for itself."""
    version: str
    schema: int = ORDER_SCHEMA


def write_order(folder: Path, order: JobOrder) -> None:
    """Puts an order beside its job."""
    write_atomically(folder / ORDER_FILE, records.dumps(order, indent=1).encode() + b"\n")


def read_order(folder: Path) -> tuple[JobOrder, Job, str]:
    """The order and the job of a folder, and the SHA-256 of the order's bytes.

    Raises:
        InfrastructureError: one is missing or damaged, or they do not belong together.
    """
    order_bytes, job_bytes = _bytes(folder / ORDER_FILE), _bytes(folder / JOB_FILE)
    try:
        order = records.decode(JobOrder, json.loads(order_bytes))
        job = records.decode(Job, json.loads(job_bytes))
        order.date()
        order.expected()
    except (ValueError, RecursionError) as error:
        raise InfrastructureError(f"{folder}: the job's documents are damaged: {error}") from error
    if hashlib.sha256(job_bytes).hexdigest() != order.job_sha256:
        raise InfrastructureError(f"{folder}/{JOB_FILE} is not the document that was ordered")
    cells = {cell.id for cell in job.cells}
    if (order.job, order.stack, order.pool.name) != (job.id, job.stack, job.pool) or cells != set(
        order.cells
    ):
        raise InfrastructureError(f"{folder}: the order is of another job")
    return order, job, hashlib.sha256(order_bytes).hexdigest()


def read_summary(folder: Path) -> ExecSummary | None:
    """What came of an order; None: it is not finished.

    Raises:
        InfrastructureError: the document is damaged.
    """
    path = folder / EXEC_FILE
    try:
        return records.decode(ExecSummary, json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InfrastructureError(f"{path} is damaged: {error}") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InfrastructureError(
            f"{path}: {error.strerror or error}. A job folder has {JOB_FILE} and {ORDER_FILE}"
        ) from error
