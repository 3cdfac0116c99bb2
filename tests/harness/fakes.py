"""A frontend and a toolchain that need nothing: workloads are NumPy, code is Python."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness.ingress.base import (
    Exported,
    Loaded,
    Port,
    Reference,
    import_workload,
)
from orchestrator.harness.toolchains.base import Kernel
from orchestrator.job import (
    Artifact,
    Cell,
    Contract,
    Done,
    Event,
    Job,
    Outcome,
    RecipeRun,
    Step,
    Tolerance,
    Workload,
)

DOUBLING = """
import numpy as np
SIZE = 4
def get_inputs():
    return [np.linspace(-1, 1, SIZE, dtype=np.float32)]
def model(x):
    return 2 * x
"""


class NumpyIngress:
    """Takes `model(x)` over one float32 vector; the exported program doubles."""

    def warm_up(self) -> None:
        """Has nothing to import."""

    def versions(self) -> Mapping[str, str]:
        """Of NumPy."""
        return {"numpy": np.__version__}

    def frontend_opt(self) -> Path | None:
        """Has none."""
        return None

    def load(self, cell: Cell, folder: Path) -> Loaded:
        """Imports the workload in this very process."""
        module = import_workload(cell.workload, folder, ("model", "get_inputs"))
        (value,) = module.get_inputs()
        return Loaded(program=(module.model, value), arguments=(("f32", value),))

    def reference(self, loaded: Loaded) -> Reference:
        """The model itself, in float64."""
        model, value = loaded.program
        return Reference(outputs=(model(value.astype(np.float64)),), source="numpy@f64")

    def export(self, cell: Cell, loaded: Loaded) -> Exported:
        """One operation in generic form."""
        del cell
        (_, value) = loaded.program
        port = Port(element="f32", shape=value.shape)
        return Exported(ir='"fake.double"() : () -> ()', entry="main", results=(port,))


@dataclass
class PythonKernel:
    """Calls a function on the addresses of memref descriptors."""

    function: Callable[[Sequence[int]], None]

    def invoke(self, descriptors: Sequence[int]) -> None:
        """As compiled code would be called."""
        self.function(descriptors)


def vector(descriptor: int, size: int) -> Any:
    """The float32 vector behind a rank-1 memref descriptor."""
    address = ctypes.c_void_p.from_address(descriptor + 8).value
    return np.ctypeslib.as_array((ctypes.c_float * size).from_address(address or 0))


def double(descriptors: Sequence[int]) -> None:
    """Out = 2 * in, over four elements."""
    source, target = descriptors
    vector(target, 4)[:] = 2 * vector(source, 4)


@dataclass(frozen=True)
class FakeToolchain:
    """Passes are Python functions from text to text, by name."""

    passes: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    kernel: Callable[[Sequence[int]], None] = double
    name: str = "fake"

    def versions(self) -> Mapping[str, str]:
        """Of nothing."""
        return {}

    def apply(self, step: Step, ir: str) -> str:
        """One named pass, or none."""
        return self.passes[step.passes](ir) if step.passes else ir

    def compile(self, ir: str, entry: str, scratch: Path) -> Kernel:
        """No code at all."""
        del ir, entry, scratch
        return PythonKernel(self.kernel)


def recipe(name: str, *passes: str, contract: Contract | None = None) -> RecipeRun:
    """A recipe of named fake passes."""
    return RecipeRun(
        name=name,
        steps=tuple(Step(tool="mlir-opt", passes=p) for p in passes),
        contract=contract or Contract(),
    )


def cell(folder: Path, source: str = DOUBLING, name: str = "doubling", **fields: Any) -> Cell:
    """A cell whose workload is `source`, written below `folder`."""
    file = f"workloads/{name}.py"
    (folder / "workloads").mkdir(exist_ok=True)
    (folder / file).write_text(source)
    constants = fields.pop("constants", {})
    defaults: dict[str, Any] = {
        "id": f"fake.{name}.f32@here",
        "pipeline": "fake",
        "workload": Workload(
            name=name,
            file=file,
            sha256=hashlib.sha256(source.encode()).hexdigest(),
            constants=constants,
        ),
        "variant": "f32",
        "pool": "here",
        "ingress": "numpy",
        "tolerance": {"f32": Tolerance(rtol=1e-6, atol=1e-6, reason="a test")},
        "timeout_s": 30.0,
        "keep": "never",
    }
    return Cell(**{**defaults, **fields})


def run(
    folder: Path,
    *cells: Cell,
    toolchain: FakeToolchain | None = None,
    workers: int = 1,
    mode: Any = "run",
) -> list[Event]:
    """All events of a job over these cells."""
    from orchestrator.harness import supervisor

    events: list[Event] = []
    job = Job(id="job", stack="fake", pool="here", cells=cells, workers=workers, mode=mode)
    frontends = {"numpy": NumpyIngress()}
    supervisor.run(job, folder, frontends, toolchain or FakeToolchain(), events.append)
    return events


def outcomes(events: Sequence[Event]) -> dict[str, Outcome]:
    """Outcome by workload."""
    return {e.cell.split(".")[1]: e.outcome for e in events if isinstance(e, Done)}


def artifacts(events: Sequence[Event]) -> dict[str, Artifact]:
    """Artifact by name."""
    return {e.name: e for e in events if isinstance(e, Artifact)}
