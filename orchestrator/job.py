"""The job document: what one container runs on one agent, and the events it answers with.

A job is frozen, self-contained JSON. It is written by the orchestrator and read by the harness,
inside a container that has neither pydantic nor the matrix: so this module needs only the
standard library. Files that a job names (workloads, goldens) are relative to the job's folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

JOB_SCHEMA = 1

Status = Literal["pass", "fail", "error", "miss", "skip", "xfail", "xpass"]
"""`pass fail error miss skip` come from runs; `xfail xpass` only from verdicts on them."""

Constant = str | int | float | bool
"""A value that `--set NAME=VALUE` gives to a module constant."""

Keep = Literal["never", "failed", "always"]
"""When the IR of each stage is sent back."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One invocation of an optimizer on the whole module."""

    tool: Literal["mlir-opt", "frontend-opt"]
    """`mlir-opt`: upstream passes. `frontend-opt`: the frontend's own (torch, StableHLO)."""
    passes: str
    """The comma-separated body of `builtin.module(…)`, parameters already put in."""
    library: str | None = None
    """Text of a transform-dialect library whose `@__transform_main` the step interprets
    (after `passes`, which may be empty)."""
    source: str = ""
    """`file:line` of the recipe step, for messages."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a recipe promises; checked on the operations counted before and after it ran."""

    requires: tuple[str, ...] = ()
    """Dialects or operations, at least one of which must be there before (`linalg`, `func.func`).
    Empty: anything goes."""
    forbids: tuple[str, ...] = ()
    """Dialects or operations that must not be there before: the recipe cannot take them."""
    absent: tuple[str, ...] = ()
    """Dialects or operations that must be gone after."""
    present: tuple[str, ...] = ()
    """Dialects or operations, each of which must be there after."""
    must_change: bool = False
    """An IR that comes out as it went in is a broken contract."""


@dataclass(frozen=True, kw_only=True)
class RecipeRun:
    """A focused recipe, expanded: the stage `lower:<name>`."""

    name: str
    steps: tuple[Step, ...]
    contract: Contract = Contract()
    check: str = ""
    """FileCheck directives for the IR that it leaves, in generic form; empty: none."""


Driver = Literal["cuda", "hip", "opencl", "vulkan"]
"""What binds kernels to a GPU at run time; the sources are in `harness/gpu/shim/`."""


Device = Literal["", "nvidia", "amd", "intel"]
"""Whose GPU a job executes on."""

SPIRV = "spirv"
"""The chip of drivers that compile for whatever device they find."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One kind of GPU that a cell's kernels are made for."""

    driver: Driver
    chip: str
    """`sm_90`, `gfx942`, `spirv`; `spir` is SPIR 1.2, for OpenCL drivers without SPIR-V."""
    kernels: tuple[RecipeRun, ...] = ()
    """From `gpu.module` to what `gpu-module-to-binary` takes."""
    host: tuple[RecipeRun, ...] = ()
    """What launches them, to the LLVM dialect."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A program under test: a Python file in the `Model`/`get_inputs` convention."""

    name: str
    file: str
    """Path relative to the job's folder."""
    sha256: str
    constants: Mapping[str, Constant] = field(default_factory=dict)
    """Module constants to override before inputs are made."""
    inputs: Literal["signed", "module"] = "signed"
    """`signed`: floating-point inputs and parameters come from the seeded formula of
    `harness.formula`. `module`: as the module makes them, under a fixed seed."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """An element passes when |got - golden| <= atol + rtol * |golden|."""

    rtol: float
    atol: float
    reason: str
    """Where the numbers come from: the framework's table, or why they were overridden."""


@dataclass(frozen=True, kw_only=True)
class Golden:
    """A recorded output: an `.npz` of `output_0 … output_n`, and its digest."""

    file: str
    """Path relative to the job's folder."""
    sha256: str
    size: int
    """Bytes."""
    inputs_sha256: str
    """Digest over all inputs and parameters that it was recorded from."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell, everything needed to lower, execute and judge it."""

    id: str
    pipeline: str
    workload: Workload
    variant: str
    """`f32 f64 f16 bf16`: floating-point parameters and inputs are cast to it. `native`, `i8`,
    anything else: the module's own types are left alone."""
    pool: str
    ingress: str
    """Name of a module in `orchestrator.harness.ingress`."""
    ingress_options: Mapping[str, str] = field(default_factory=dict)
    recipes: tuple[RecipeRun, ...] = ()
    targets: tuple[Target, ...] = ()
    """Empty: code for this machine's CPU. Else the recipes' result goes to each of these."""
    execute: bool = True
    """False: the code is assembled and checked as far as it goes without a device."""
    golden: Golden | None = None
    """None: computed from the framework in the same run (a workload given by its path)."""
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    """By output element type (`f32 f64 f16 bf16`); other types must be equal."""
    timeout_s: float = 60.0
    memory_bytes: int = 4 << 30
    keep: Keep = "failed"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one container runs."""

    id: str
    stack: str
    pool: str
    cells: tuple[Cell, ...]
    workers: int = 1
    """Cells that run at the same time."""
    toolchain: Literal["auto", "release", "bindings"] = "auto"
    device: Device = ""
    """Whose GPUs the container is given; empty: none."""
    mode: Literal["run", "record"] = "run"
    """`record`: no lowering; the framework's outputs come back as artifact `golden.npz`."""
    schema: int = JOB_SCHEMA


# --- Events: one JSON object a line on the harness's standard output -------------------------


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The harness is up: its frontend imports, its toolchain answers."""

    python: str
    versions: Mapping[str, str]
    """Name to version: torch, torch-mlir, jax, mlir-opt, clang, numpy, …"""
    toolchain: str
    """`release` or `bindings`."""
    hardware: Mapping[str, str | int]
    """What the harness sees: cpu_model, cpu_flags (space-separated), cpus, memory_bytes, kernel."""
    seconds: float
    """Start-up: imports and warm-up."""
    event: Literal["hello"] = "hello"


@dataclass(frozen=True, kw_only=True)
class Broken:
    """The container cannot run any cell: a missing frontend or tool."""

    message: str
    event: Literal["broken"] = "broken"


@dataclass(frozen=True, kw_only=True)
class Started:
    """A cell's process began."""

    cell: str
    event: Literal["started"] = "started"


@dataclass(frozen=True, kw_only=True)
class StageBegan:
    """A stage of a cell began: `ingress`, `lower:<recipe>`, `codegen`, `execute`, `compare`."""

    cell: str
    stage: str
    event: Literal["stage"] = "stage"


_PLAIN_PATH = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.@+-]*(/[A-Za-z0-9_+-][A-Za-z0-9_.@+-]*)*")
_MAX_PATH = 200


def is_plain_path(name: str) -> bool:
    """Whether it is a relative path that leads nowhere else; no part may begin with a dot."""
    return len(name) <= _MAX_PATH and _PLAIN_PATH.fullmatch(name) is not None


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that a cell leaves: IR, inputs, outputs."""

    cell: str
    name: str
    """Relative POSIX path without `..`, e.g. `ir/02-bufferize.mlir`."""
    data: str
    """base64 of the zlib-compressed bytes."""
    event: Literal["artifact"] = "artifact"


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """How long a stage took and how it ended."""

    stage: str
    seconds: float
    exit: str
    """`ok`, `exit 1`, `signal SIGSEGV`, `timeout`, `error`."""


@dataclass(frozen=True, kw_only=True)
class OutputError:
    """How far one output is from its golden."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    elements: int
    mismatches: int
    max_abs: float
    """Largest |got - golden| over finite pairs."""
    max_rel: float
    """Largest |got - golden| / |golden| over finite pairs with a golden that is not zero."""
    worst: tuple[int, ...]
    """Index of the worst element by its excess over the tolerance."""
    worst_got: float
    worst_golden: float
    rtol: float
    atol: float
    reason: str
    """Where the tolerance comes from."""
    pattern: str = ""
    """What the layout of the mismatches looks like, in words; empty when nothing is off."""
    histogram: tuple[int, ...] = ()
    """Elements by error in units of the tolerance, in the bins of `compare.picture.BINS`."""
    picture: tuple[tuple[int, ...], ...] = ()
    """Per cent of elements that are off, in a coarse grid; see `compare.picture`."""


@dataclass(frozen=True, kw_only=True)
class KernelFacts:
    """What an assembler says of one kernel; None where it says nothing."""

    chip: str
    kernel: str
    """`module::function`."""
    form: str
    """What was assembled or validated: `cubin`, `hsaco`, `zebin`, `spirv`."""
    code_bytes: int
    registers: int | None = None
    """For each thread; vector registers on AMD."""
    spilled_bytes: int | None = None
    """To memory, for each thread."""
    shared_bytes: int | None = None
    """For each block, dynamic memory that a launch asks for included."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the harness found out about one attempt of a cell."""

    status: Literal["pass", "fail", "error", "miss"]
    phase: str = ""
    """Empty for `pass`, else `build ingress lower:<recipe> codegen execute compare`."""
    message: str = ""
    stages: tuple[StageTime, ...] = ()
    errors: tuple[OutputError, ...] = ()
    kernels: tuple[KernelFacts, ...] = ()
    device: Mapping[str, str | int] = field(default_factory=dict)
    """The GPU that executed: driver, driver_version, device, chip, …; empty for CPUs."""
    golden: str = ""
    """`recorded`, or `computed` in this run from the framework."""
    kernel_ns: tuple[int, ...] = ()
    """Nanoseconds that the kernels took on the device, for each time the program was called."""
    inputs_sha256: str = ""
    peak_memory_bytes: int = 0
    last_words: str = ""
    """The end of what the cell printed, bounded."""
    dropped_bytes: int = 0
    """How much of what it printed was not kept."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A cell ended."""

    cell: str
    outcome: Outcome
    event: Literal["done"] = "done"


@dataclass(frozen=True, kw_only=True)
class Alive:
    """A heartbeat, every few seconds, so that silence means trouble."""

    running: tuple[str, ...]
    event: Literal["alive"] = "alive"


Event = Hello | Broken | Started | StageBegan | Artifact | Done | Alive
