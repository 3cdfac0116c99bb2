"""How a program gets into MLIR: what every frontend's module provides."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from orchestrator.harness import elements
from orchestrator.harness.blame import DefinitionFault
from orchestrator.harness.elements import ElementType
from orchestrator.harness.formula import FormulaSpec
from orchestrator.job import Cell, Constant, Driver, KernelFacts, Target, Workload

if TYPE_CHECKING:
    from orchestrator.harness.triton.plan import Plan

Array = elements.Array


@dataclass(frozen=True, kw_only=True)
class Port:
    """Type of one input or output; -1 is a size known only when it runs."""

    element: ElementType
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A program in MLIR."""

    ir: str
    """Generic form, text."""
    entry: str
    """Symbol of the function to call: parameters first, then inputs."""
    results: tuple[Port, ...]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A workload in its variant's type, ready to export or to run in the framework."""

    program: Any
    """Belongs to the frontend."""
    arguments: tuple[tuple[ElementType, Array], ...]
    """Parameters, then inputs, as the compiled code takes them (storage types)."""
    formulas: tuple[FormulaSpec | None, ...] = ()
    """Where each argument's numbers come from before they are rounded to its type; None: the
    workload made them. Empty: nothing is known of any."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the framework itself computes."""

    outputs: tuple[Array, ...]
    """float64 where the output is a float, else the framework's own integers."""
    source: str
    """`eager@f64`, or the type in which the framework could do it."""


class Frontend(Protocol):
    """What every module of this package has, named by the pipeline."""

    def warm_up(self) -> None:
        """Imports the frontend and does once what every cell would pay for."""

    def versions(self) -> Mapping[str, str]:
        """Distribution to version."""

    def frontend_opt(self) -> Path | None:
        """The frontend's own optimizer, if it has one."""

    def load(self, cell: Cell, folder: Path) -> Loaded:
        """Imports the workload and makes its arguments; anything it raises is its own fault."""

    def reference(self, loaded: Loaded) -> Reference:
        """Runs the program in the framework, in float64 where it can."""


class Ingress(Frontend, Protocol):
    """A frontend whose programs are lowered by recipes."""

    def export(self, cell: Cell, loaded: Loaded) -> Exported:
        """The program in MLIR; what this raises is the frontend's fault."""


@dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    """What a frontend that is a compiler of its own made of a workload for one kind of GPU."""

    target: Target
    texts: Mapping[str, bytes]
    """Artifact to content, of each stage: relative POSIX paths such as `00-add.ttgir.mlir`."""
    facts: tuple[KernelFacts, ...]
    """Of each kernel."""
    program: Any
    """What it takes to launch it; belongs to the frontend."""


class OwnCompiler(Frontend, Protocol):
    """A frontend that lowers and assembles by itself: there is nothing for recipes to do."""

    DRIVERS: tuple[Driver, ...]
    """What it makes code for; programs for any other driver are interpreted."""

    def results(self, loaded: Loaded) -> tuple[Port, ...]:
        """Types of the outputs, in the golden's order."""

    def compile_for(
        self,
        cell: Cell,
        loaded: Loaded,
        target: Target,
        stage: Callable[[str], None],
        keep: Callable[[str, bytes], None],
    ) -> CompiledProgram:
        """Code for one kind of GPU, without one.

        Args:
            cell: what is compiled, as it was planned.
            loaded: the same, loaded.
            target: the GPU.
            stage: called with the name of each stage that begins.
            keep: called with each artifact (of `CompiledProgram.texts`) as soon as it is there, so
                that a failure leaves what came before it.

        Raises:
            CompilerFault: a stage refused the program; in the compiler's own words.
            DefinitionFault: the workload does not say what to launch, or the chip is unknown.
        """

    def interpret(self, cell: Cell, loaded: Loaded) -> list[Array]:
        """The outputs as the frontend's interpreter computes them on the CPU (storage types).

        Raises:
            CompilerFault: it refused the program.
            DefinitionFault: the program wrote to its inputs, or beyond its memory.
        """

    def plan(self, program: CompiledProgram) -> Plan:
        """What is to be launched on a device, as plain data."""


def own_compiler(frontend: Frontend) -> OwnCompiler | None:
    """The frontend as a compiler of its own; None: its programs are lowered by recipes."""
    return cast("OwnCompiler", frontend) if hasattr(frontend, "compile_for") else None


def find(name: str) -> Ingress:
    """The frontend module of that name.

    Raises:
        ModuleNotFoundError: there is none, or what it imports is not installed.
    """
    return importlib.import_module(f"orchestrator.harness.ingress.{name}")


def import_workload(workload: Workload, folder: Path, needs: Sequence[str]) -> ModuleType:
    """The workload's module, its constants overridden.

    Raises:
        DefinitionFault: it lacks a name that the convention needs, or has no such constant.
    """
    path = folder / workload.file
    spec = importlib.util.spec_from_file_location(f"workload_{workload.name}", path)
    if spec is None or spec.loader is None:
        raise DefinitionFault(f"{workload.file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    missing = [name for name in needs if not hasattr(module, name)]
    if missing:
        raise DefinitionFault(f"{workload.file} does not define {', '.join(missing)}")
    for name, value in workload.constants.items():
        _override(module, name, value, workload.file)
    return module


def _override(module: ModuleType, name: str, value: Constant, file: str) -> None:
    known = constants(module)
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean `{near[0]}`? It has: " if near else "It has: "
        raise DefinitionFault(f"{file} has no constant `{name}` to set. {hint}{names}")
    old = known[name]
    if isinstance(old, bool) != isinstance(value, bool) or isinstance(old, str) != isinstance(
        value, str
    ):
        raise DefinitionFault(
            f"{file}: {name} is {old!r} ({type(old).__name__}); cannot set it to {value!r}"
        )
    setattr(module, name, type(old)(value) if isinstance(old, float) else value)


def constants(module: ModuleType) -> Mapping[str, Constant]:
    """The module's own names bound to a plain number, truth value or string."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, (bool, int, float, str))
    }


def parameters_and_inputs(loaded: Loaded) -> list[Array]:
    """Fresh aligned copies of the arguments."""
    return [elements.aligned(array) for _, array in loaded.arguments]
