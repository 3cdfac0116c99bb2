"""How a program gets into MLIR: what every frontend's module provides."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from orchestrator.harness.blame import DefinitionFault
from orchestrator.harness.elements import ElementType
from orchestrator.job import Cell, Constant, Workload

Array = npt.NDArray[np.generic]


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


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the framework itself computes."""

    outputs: tuple[Array, ...]
    """float64 where the output is a float, else the framework's own integers."""
    source: str
    """`eager@f64`, or the type in which the framework could do it."""


class Ingress(Protocol):
    """A module of this package, named by the pipeline."""

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

    def export(self, cell: Cell, loaded: Loaded) -> Exported:
        """The program in MLIR; what this raises is the frontend's fault."""


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
    from orchestrator.harness.elements import aligned

    return [aligned(array) for _, array in loaded.arguments]
