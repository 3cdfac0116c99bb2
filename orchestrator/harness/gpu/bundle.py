"""A program lowered and assembled, with all that it takes to execute and judge it elsewhere.

A bundle is a folder, or a zip archive of it; `docs/bundles.md` tells what is in it. It brings the
part of this package that executes it: Python, NumPy and a driver are enough.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orchestrator
from orchestrator import records
from orchestrator.harness import formula
from orchestrator.harness.arrays import archive, npz
from orchestrator.harness.elements import FLOATS, Array, ElementType, rounded
from orchestrator.harness.formula import FormulaSpec
from orchestrator.harness.gpu.launches import BundledProgram, bundled
from orchestrator.harness.judge import Result, check_goldens
from orchestrator.job import Cell, Constant, Driver, KernelFacts, Tolerance

if TYPE_CHECKING:
    from orchestrator.harness.gpu.targets import Built
    from orchestrator.harness.ingress.base import Loaded
    from orchestrator.harness.triton.plan import Plan

SCHEMA = 1
DOCUMENT = "bundle.json"
ARGUMENTS = "arguments.npz"
BUFFERS = "buffers.npz"
GOLDEN = "golden.npz"
SUFFIX = ".bundle.zip"
"""How the archive of a bundle is named."""

_PACKAGE = Path(orchestrator.__file__).parent
_RUNNER_PARTS = (
    "__init__.py",
    "compare",
    "errors.py",
    "harness/__init__.py",
    "harness/arrays.py",
    "harness/blame.py",
    "harness/elements.py",
    "harness/formula.py",
    "harness/gpu/__init__.py",
    "harness/gpu/bundle.py",
    "harness/gpu/execute.py",
    "harness/gpu/fitting.py",
    "harness/gpu/launches.py",
    "harness/gpu/opened.py",
    "harness/gpu/runner.py",
    "harness/gpu/runtime.py",
    "harness/gpu/sources.py",
    "harness/gpu/summary.py",
    "harness/gpu/validity.py",
    "harness/judge.py",
    "harness/streams.py",
    "harness/toolchains/__init__.py",
    "harness/toolchains/base.py",
    "harness/triton/__init__.py",
    "harness/triton/device.py",
    "harness/triton/plan.py",
    "job.py",
    "records.py",
    "text.py",
)
"""What the runner imports, relative to this package."""
_MAIN = Path(__file__).parent / "bundle_main.py"


@dataclass(frozen=True, kw_only=True)
class BundledFile:
    """A file of a bundle."""

    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class BundledArgument:
    """What the program is called with: by formula, or `argument_<position>` of `arguments.npz`."""

    element: ElementType
    shape: tuple[int, ...]
    formula: FormulaSpec | None = None
    through: tuple[ElementType, ...] = ()
    """The types that the formula's numbers are rounded to, one after the other."""


@dataclass(frozen=True, kw_only=True)
class BundledResult:
    """What the program computes: `output_<position>` of `golden.npz`."""

    element: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BundledCode:
    """The program for one chip."""

    library: str
    """Host code with its kernels and the runtime that finds the driver: a shared object."""
    kernels: tuple[str, ...]
    """The same kernels as files, for people."""
    facts: tuple[KernelFacts, ...]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """`bundle.json`."""

    cell: str
    workload: str
    workload_sha256: str
    constants: Mapping[str, Constant]
    variant: str
    entry: str
    """Symbol of the function to call, without its `_mlir_ciface_`."""
    driver: Driver
    machine: str
    """What the host code is for: `x86_64`, `aarch64`."""
    chips: Mapping[str, BundledCode]
    arguments: tuple[BundledArgument, ...]
    inputs_sha256: str
    """Digest over all arguments: `harness.formula.digest`."""
    results: tuple[BundledResult, ...]
    golden: str
    """Where it comes from: `recorded`, or `computed` in the run that made the bundle."""
    tolerance: Mapping[str, Tolerance]
    """By element type of a result; types that are no floats must be equal."""
    versions: Mapping[str, str]
    """Of all that made it."""
    files: Mapping[str, BundledFile]
    """Every file but this one."""
    program: BundledProgram | None = None
    """What the runner launches itself; None: the host code has a function to call."""
    schema: int = SCHEMA


def make(
    cell: Cell,
    *,
    entry: str,
    loaded: Loaded,
    results: Sequence[Result],
    golden: Sequence[Array],
    built: Sequence[Built],
    versions: Mapping[str, str],
    plans: Mapping[str, Plan] | None = None,
) -> dict[str, bytes]:
    """A cell's program for all of its chips as a bundle: name to content of each file.

    Arguments whose formula gives them to the bit are not stored.

    Args:
        cell: what was lowered.
        entry: the function to call.
        loaded: the program's arguments, and the formulas of some.
        results: element type and shape of each output.
        golden: what the outputs should be.
        built: the program for each chip, all of one driver.
        versions: of all that made it; this program's own is added.
        plans: for each chip what is launched, where host code does not do that; its kernels are
            among the files that were built.

    Raises:
        CompilerFault: an output is not of its golden's kind or shape.
        DefinitionFault: there is no tolerance for an output's type.
        ValueError: no code, or code for several drivers.
    """
    check_goldens(results, golden, cell.tolerance)
    (driver,) = {each.target.driver for each in built}
    arguments = _arguments(loaded)
    files = {
        **_code_files(built),
        **_data_files(loaded, arguments, golden),
        **dict(_runner_files()),
    }
    program = None
    if plans:
        code = {each.target.chip: dict(_kernel_files(each)) for each in built}
        program, buffers = bundled(plans, code, [array for _, array in loaded.arguments])
        files |= {BUFFERS: npz(buffers)} if buffers else {}
    bundle = Bundle(
        cell=cell.id,
        workload=cell.workload.name,
        workload_sha256=cell.workload.sha256,
        constants=cell.workload.constants,
        variant=cell.variant,
        entry=entry,
        driver=driver,
        machine=platform.machine(),
        chips={each.target.chip: _code(each) for each in built},
        arguments=arguments,
        inputs_sha256=formula.digest(array for _, array in loaded.arguments),
        results=tuple(BundledResult(element=e, shape=shape) for e, shape in results),
        golden="recorded" if cell.golden else "computed",
        tolerance={e: cell.tolerance[e] for e in sorted({e for e, _ in results} & FLOATS)},
        versions={**versions, "lighthouse-ci": orchestrator.__version__},
        files={
            name: BundledFile(size=len(data), sha256=hashlib.sha256(data).hexdigest())
            for name, data in files.items()
        },
        program=program,
    )
    return {**files, DOCUMENT: records.dumps(bundle, indent=1).encode() + b"\n"}


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes a bundle to a folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A bundle as an archive, which Python executes as well as its folder."""
    return archive(dict(sorted(files.items())))


def archive_name(cell: Cell) -> str:
    """How a cell's archive is named: `matmul.f32.bundle.zip`."""
    return f"{cell.workload.name}.{cell.variant}{SUFFIX}"


def _arguments(loaded: Loaded) -> tuple[BundledArgument, ...]:
    formulas = loaded.formulas or (None,) * len(loaded.arguments)
    return tuple(
        _argument(element, array, spec)
        for (element, array), spec in zip(loaded.arguments, formulas, strict=True)
    )


def _argument(element: ElementType, array: Array, spec: FormulaSpec | None) -> BundledArgument:
    """By formula when that gives the very bits: frontends may round in steps, or otherwise."""
    if spec is not None and element in FLOATS:
        steps: tuple[tuple[ElementType, ...], ...] = ((element,), ("f32", element))
        for through in steps:
            made = rounded(spec.numbers(array.shape), through)
            if made.tobytes() == array.tobytes():
                return BundledArgument(
                    element=element, shape=array.shape, formula=spec, through=through
                )
    return BundledArgument(element=element, shape=array.shape)


def _data_files(
    loaded: Loaded, arguments: Sequence[BundledArgument], golden: Sequence[Array]
) -> dict[str, bytes]:
    stored = {
        f"argument_{i}": array
        for i, ((_, array), about) in enumerate(zip(loaded.arguments, arguments, strict=True))
        if about.formula is None
    }
    files = {GOLDEN: npz({f"output_{i}": array for i, array in enumerate(golden)})}
    return {**files, ARGUMENTS: npz(stored)} if stored else files


def _code(built: Built) -> BundledCode:
    chip = built.target.chip
    return BundledCode(
        library=f"chips/{chip}/host.so",
        kernels=tuple(f"chips/{chip}/{name}" for name in sorted(built.files)),
        facts=built.facts,
    )


def _code_files(built: Sequence[Built]) -> dict[str, bytes]:
    files = {}
    for each in built:
        files[_code(each).library] = each.library.read_bytes()
        files |= dict(_kernel_files(each))
    return files


def _kernel_files(built: Built) -> Iterator[tuple[str, bytes]]:
    return ((f"chips/{built.target.chip}/{name}", data) for name, data in built.files.items())


def _runner_files() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _MAIN.read_bytes()
    for part in _RUNNER_PARTS:
        path = _PACKAGE / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            yield f"orchestrator/{file.relative_to(_PACKAGE).as_posix()}", file.read_bytes()
