"""What people edit, as frozen objects. The JSON Schemas for editors come from these models.

Loading (`config.load`) gives every problem its file and line. Nothing here touches the disk.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from orchestrator.job import Driver

Tier = Literal["core", "peripheral"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
"""Names become parts of cell ids, which need no shell quoting."""
WorkloadName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]

_DURATION = r"^(\d+(?:\.\d+)?) *(s|m|min|h)$"
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZE = r"^(\d+(?:\.\d+)?) *(KiB|MiB|GiB)$"
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _seconds(value: object) -> object:
    match = re.fullmatch(_DURATION, value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError("expected a duration such as `90s`, `5min` or `1h`")
    return float(match[1]) * _UNITS[match[2]]


def _bytes(value: object) -> object:
    match = re.fullmatch(_SIZE, value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError("expected a size such as `512MiB` or `4GiB`")
    return int(float(match[1]) * _SIZES[match[2]])


Seconds = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=Annotated[str, Field(pattern=_DURATION)]),
]
Bytes = Annotated[
    int,
    BeforeValidator(_bytes, json_schema_input_type=Annotated[str, Field(pattern=_SIZE)]),
]


class Model(BaseModel):
    """Base of all: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        defer_build=True,  # most commands need few of them
    )
    wrong_keys: ClassVar[Mapping[str, str]] = {}
    """Keys that one might expect here, to what is said about them."""


# --- matrix.yaml ------------------------------------------------------------------------------


EgressName = Literal[Driver, "xevm"]
"""An egress for each driver; `xevm`: another one for `opencl`, by LLVM's SPIR-V backend."""


class GpuPool(Model):
    """What a pool of GPUs is driven by, and whether there is a device at all."""

    driver: Driver
    egress: EgressName | None = None
    """Which egress of a recipe makes its code; none: the one named as the driver."""
    device: Literal["nvidia", "amd", "intel", "software", "none"]
    """Whose devices; `software`: one that the stack brings, for any CPU; `none`: code is made and
    checked for `chips`, on any machine, and not executed."""
    chips: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Such as `sm_90`; none: the chip of the device that is there."""

    @property
    def code(self) -> EgressName:
        """The egress that makes its code."""
        return self.egress or self.driver


class Pool(Model):
    """A class of interchangeable hardware."""

    tier: Tier
    about: str
    arch: Literal["x86_64", "aarch64"] | None = None
    """None: any."""
    cpu_vendor: str | None = None
    """As `/proc/cpuinfo` names it; none: any vendor of that architecture."""
    gpu: GpuPool | None = None
    """None: cells execute on the CPU."""


class Stack(Model):
    """One container image: one pinned LLVM plus one frontend."""

    tier: Tier
    about: str


class Selection(Model):
    """Which workloads a pipeline runs, in which variants."""

    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names or globs over `recipes/workloads/`."""
    without: tuple[str, ...] = ()
    variants: Annotated[tuple[Name, ...], Field(min_length=1)] = ("f32",)
    pools: tuple[Name, ...] = ()
    """Of the pipeline's pools; none: all."""


class Pipeline(Model):
    """An end-to-end path in the matrix: which recipe runs what, where."""

    tier: Tier
    about: str
    stack: Name
    recipe: Name
    """A file in `recipes/pipelines/`."""
    pools: Annotated[tuple[Name, ...], Field(min_length=1)]
    timeout: Seconds | None = None
    """For one cell; none: the matrix's default."""
    memory: Bytes | None = None
    """For one cell; none: the matrix's default."""
    runs: Annotated[tuple[Selection, ...], Field(min_length=1)]


class WorkloadOptions(Model):
    """What the matrix says of one workload, apart from who runs it."""

    inputs: Literal["signed", "module"] = "signed"
    timeout: Seconds | None = None
    memory: Bytes | None = None


class Expectation(Model):
    """A strict expected failure: the cell must fail just so, else the run is red."""

    cells: Text
    """Glob over cell ids."""
    status: Literal["fail", "error"] = "fail"
    phase: Text
    match: Text
    """Regular expression searched in the failure's message."""
    reason: Text
    issue: Text
    """Where it is tracked."""
    owner: Text
    """Who is asked about it."""
    since: dt.date
    """The day on which it was declared."""
    expires: dt.date


class Defaults(Model):
    """For every cell that says nothing else."""

    timeout: Seconds
    memory: Bytes


class Matrix(Model):
    """`matrix.yaml`: pipelines mapped to pools."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    defaults: Defaults
    pools: dict[Name, Pool]
    stacks: dict[Name, Stack]
    pipelines: dict[Name, Pipeline]
    workloads: dict[WorkloadName, WorkloadOptions] = {}
    expectations: tuple[Expectation, ...] = ()


# --- images/pins.yaml -------------------------------------------------------------------------


class LlvmPin(Model):
    """The LLVM release that every image bakes."""

    version: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
    packages: Annotated[dict[str, str], Field(min_length=1)]
    """Distribution package to its exact version."""


class StackPins(Model):
    """The frontend of one stack, at known-good versions."""

    proven: dt.date
    """The last date on which these versions passed together."""
    python: Annotated[tuple[str, ...], Field(min_length=1)]
    """Python versions (`3.11`) that all the pinned wheels exist for."""
    packages: Annotated[dict[str, str], Field(min_length=1)]
    """Distribution name to exact version: the whole closure, nothing is resolved."""
    indexes: dict[str, str] = {}
    """For a package that is not on the default index: the index that has it."""
    system: dict[str, str] = {}
    """Distribution package, besides LLVM's, to its exact version."""
    system_of: dict[Literal["x86_64", "aarch64"], dict[str, str]] = {}
    """More of them, that the distribution has for one architecture alone."""

    def system_for(self, arch: str) -> dict[str, str]:
        """All of the distribution's packages on an architecture, as `uname -m` names it."""
        return {**self.system, **next((p for a, p in self.system_of.items() if a == arch), {})}


class Pins(Model):
    """`images/pins.yaml`: the exact versions that each stack bakes."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    base: str
    """Reference of the base image that `LH_BASE_IMAGE` overrides, e.g. `debian:bookworm-slim`."""
    base_suite: str
    """The distribution's release, for making that base without a registry."""
    base_python: Annotated[str, Field(pattern=r"^3\.\d+$")] = "3.11"
    """The Python that comes with that release, and so what the images run."""
    llvm: LlvmPin
    stacks: dict[Name, StackPins]


# --- recipes/ ---------------------------------------------------------------------------------

ParamValue = bool | int | float | str


class Param(Model):
    """A typed parameter of a recipe; `${name}` in its steps."""

    type: Literal["int", "float", "bool", "str"]
    default: ParamValue | None = None
    """None: whoever uses the recipe must set it."""
    about: str = ""


class PassStep(Model):
    """One pass, or several, in `mlir-opt`'s textual syntax."""

    pass_: Annotated[str, Field(alias="pass")]
    tool: Literal["mlir-opt", "frontend-opt"] = "mlir-opt"


class ScheduleStep(Model):
    """A transform-dialect schedule: an `.mlir` file beside the recipe."""

    schedule: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]+\.mlir$")]


class RecipeStep(Model):
    """Another recipe, by name."""

    wrong_keys = {
        "pass": "a pipeline is composed of recipes: put the pass into one",
        "schedule": "a pipeline is composed of recipes: put the schedule into one",
    }

    recipe: Name
    params: dict[str, ParamValue] = {}


def _kind_of_step(step: object) -> str | None:
    """Tag of the step that a mapping is meant to be: by its keys."""
    if isinstance(step, Model):
        return type(step).__name__
    if isinstance(step, Mapping):
        for kind in ("pass", "schedule", "recipe"):
            if kind in step:
                return f"{kind.capitalize()}Step"
    return None


AnyStep = Annotated[
    Annotated[PassStep, Tag("PassStep")]
    | Annotated[ScheduleStep, Tag("ScheduleStep")]
    | Annotated[RecipeStep, Tag("RecipeStep")],
    Discriminator(
        _kind_of_step,
        custom_error_type="step",
        custom_error_message="a step has one of the keys `pass`, `schedule`, `recipe`",
    ),
]


class ContractModel(Model):
    """What must hold before and after; see `orchestrator.job.Contract`."""

    requires: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    must_change: bool = False


class Recipe(Model):
    """`recipes/schedules/<name>.yaml`: a focused schedule."""

    about: Annotated[str, Field(min_length=10)]
    """Two lines: what it is for."""
    tier: Tier
    params: dict[Name, Param] = {}
    contract: ContractModel = ContractModel()
    check: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]+\.check$")] | None = None
    """FileCheck directives beside the recipe, for the IR that it leaves in generic form."""
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1)]


class Ingress(Model):
    """How the program gets into MLIR."""

    frontend: Name
    """A module of `orchestrator.harness.ingress`."""
    options: dict[str, str] = {}


class Egress(Model):
    """From outlined kernels to code for one kind of GPU driver; `${chip}` is the chip at hand."""

    kernels: Annotated[tuple[RecipeStep, ...], Field(min_length=1)]
    """What `gpu.module` goes through, up to what `gpu-module-to-binary` takes."""
    host: Annotated[tuple[RecipeStep, ...], Field(min_length=1)]
    """What launches the kernels, to the LLVM dialect."""


class PipelineRecipe(Model):
    """`recipes/pipelines/<name>.yaml`: end to end, composed of focused recipes."""

    about: Annotated[str, Field(min_length=10)]
    tier: Tier
    ingress: Ingress
    params: dict[Name, Param] = {}
    steps: tuple[RecipeStep, ...]
    """Empty where the frontend is a compiler of its own."""
    egress: dict[EgressName, Egress] = {}
    """By driver, or by another name that pools ask for; none: code for the CPU."""


# --- golden/tolerances.yaml -------------------------------------------------------------------


class ToleranceEntry(Model):
    """|got - golden| <= atol + rtol * |golden|."""

    rtol: Annotated[float, Field(ge=0)]
    atol: Annotated[float, Field(ge=0)]
    reason: Text


class ToleranceOverride(ToleranceEntry):
    """For the cells that match; the last match wins."""

    cells: Text
    """Glob over cell ids: it can name workload, variant, pipeline and pool."""
    dtype: Literal["f16", "bf16", "f32", "f64"]


class Tolerances(Model):
    """`golden/tolerances.yaml`."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    dtypes: dict[Literal["f16", "bf16", "f32", "f64"], ToleranceEntry]
    overrides: tuple[ToleranceOverride, ...] = ()


# --- golden/<workload>/<variant>.json ---------------------------------------------------------


class GoldenRecord(Model):
    """Where a golden comes from; beside the `.npz` of the same name."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    workload: WorkloadName
    variant: Name
    source: str
    """`eager@f64`, or the type that the framework could do."""
    sha256: str
    size: int
    inputs_sha256: str
    workload_sha256: str
    versions: dict[str, str]
    command: str
    recorded: dt.date
