"""The result document: one per attempt of a cell, never edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.engines.base import Environment, Isolation
from orchestrator.health.evidence import Evidence
from orchestrator.job import Constant, Keep, KernelFacts, OutputError, StageTime, Status
from orchestrator.plan import PlannedCell

RESULT_SCHEMA = 1
RUN_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one attempt of a cell came to, and everything it depended on."""

    run: str
    cell: str
    attempt: int
    """From 1."""
    status: Status
    """After expectations: `xfail`, `xpass` are possible."""
    phase: str
    message: str
    expectation: str = ""
    """Reason and issue of the expectation that applied."""
    notes: tuple[str, ...] = ()
    """Why an expectation that names this cell did not apply."""
    stages: tuple[StageTime, ...]
    errors: tuple[OutputError, ...]
    kernels: tuple[KernelFacts, ...] = ()
    """Of GPU code: what each kernel takes of a chip."""
    kernel_ns: tuple[int, ...] = ()
    """Nanoseconds that the kernels took on a GPU, for each time the program was called."""
    device: Mapping[str, str | int] = field(default_factory=dict)
    """The GPU that executed it; empty for CPUs and for code that was only assembled."""
    evidence: tuple[Evidence, ...] = ()
    """What was seen of the GPU from outside, of an attempt that did not pass."""
    golden: str
    last_words: str
    dropped_bytes: int
    peak_memory_bytes: int
    started: str
    """UTC, ISO 8601."""
    seconds: float
    agent: str = ""
    """The registered machine that ran it; empty: the one that the orchestrator itself ran on."""
    queued_seconds: float | None = None
    """From when it could have run to when a machine took it; None: it did not wait for any."""
    engine: str
    environment: str
    """Digest of image or environment."""
    toolchain: str
    versions: Mapping[str, str]
    hardware: Mapping[str, str | int]
    """`cpu_model`, `cpus`, `kernel`, …; `gpu_name gpu_chip gpu_driver gpu_firmware` of the GPUs
    that the job was given, as the machine tells them from outside."""
    isolation: Isolation | None
    """None: nothing was started."""
    argv: tuple[str, ...]
    workload_sha256: str
    constants: Mapping[str, str | int | float | bool]
    tier: str
    fingerprint: str
    """Equal for two attempts when nothing that could matter differed; see `results.fingerprint`."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Of the fingerprint, what no other field tells, each by itself; see `results.fingerprint`."""
    reproduce: str
    """The one command that reruns exactly this cell."""
    schema: int = RESULT_SCHEMA


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was asked of a run, apart from its cells; a resumed run keeps them."""

    engine: str = "auto"
    """As asked for, before `auto` is resolved."""
    toolchain: str = "auto"
    workers: int = 1
    """Cells at the same time; 0: as the machine that runs them allows."""
    keep: Keep = "failed"
    retries: int = 2
    timeout_s: float | None = None
    """For every cell; None: as the matrix says."""
    backend: str = "local"
    """`local`: this machine. Else what hands jobs to others."""
    master: str = ""
    """The address of what does."""
    unsigned: bool = False
    """Results of machines that are not registered are taken, too."""


@dataclass(frozen=True, kw_only=True)
class AdhocSource:
    """The program behind cells that no line of the matrix names."""

    workload: str
    argument: str
    """As given to `--workload`: a path, or a registered name whose constants are overridden."""
    constants: Mapping[str, Constant]


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """`plan.json`: what a run set out to do, frozen."""

    selection: tuple[str, ...]
    """Patterns and filters, as words of a command line."""
    cells: tuple[PlannedCell, ...]
    files: Mapping[str, str]
    """File in a job's folder (`workloads/mlp.py`) to the absolute path it is copied from."""
    options: RunOptions
    adhoc: tuple[AdhocSource, ...] = ()
    schema: int = RUN_SCHEMA


@dataclass(frozen=True, kw_only=True)
class Span:
    """Wall time of a run that belongs to no cell."""

    kind: str
    """`prepare` (an environment made ready), `start` (a container), `harness` (its imports)."""
    name: str
    """Stack, or job."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """`run.json`: when and where a run ran."""

    run: str
    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """None: it is running, or it was stopped."""
    seconds: float = 0.0
    """Wall time, summed over resumptions."""
    engine: str
    engine_note: str
    environments: tuple[Environment, ...] = ()
    spans: tuple[Span, ...] = ()
    version: str
    """Of this program."""
    schema: int = RUN_SCHEMA
