"""One cell in this very process, with a frontend and a toolchain that need nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orchestrator.harness import cell as cells
from orchestrator.harness.context import Context
from orchestrator.harness.ingress.base import Exported, Port, Reference
from orchestrator.job import Cell, Outcome
from tests.harness import fakes

Array = npt.NDArray[np.generic]
INPUT = np.linspace(-1, 1, 4, dtype=np.float32)
"""What the fakes' workload has as its input."""


class Frontend(fakes.NumpyIngress):
    """The fake frontend, of which parts can be replaced."""

    def __init__(
        self,
        text: str,
        ports: Sequence[Port] | None,
        outputs: Callable[[], Sequence[Array]] | None,
    ) -> None:
        """Takes the IR, the types of outputs and the framework's outputs."""
        self.text, self.ports, self.outputs = text, ports, outputs

    def export(self, cell: Cell, loaded: Any) -> Exported:
        """Any module."""
        port = Port(element="f32", shape=(4,))
        return Exported(ir=self.text, entry="main", results=tuple(self.ports or [port]))

    def reference(self, loaded: Any) -> Reference:
        """Any outputs."""
        if self.outputs is None:
            return super().reference(loaded)
        return Reference(outputs=tuple(self.outputs()), source="numpy@f64")


class Surroundings:
    """A cell's surroundings."""

    def __init__(self, folder: Path, scratch: Path, marks: Path) -> None:
        """Takes folders of its own."""
        self.folder, self.scratch, self.path = folder, scratch, marks
        self.marks = os.open(marks, os.O_WRONLY | os.O_CREAT)

    def stages(self) -> list[tuple[str, str]]:
        """The marks that were written: stage and blame."""
        lines = map(json.loads, self.path.read_text().splitlines())
        return [(line["stage"], line["blame"]) for line in lines]

    def run(
        self,
        cell: Cell,
        *,
        passes: Any = None,
        ir: str = '"fake.double"() : () -> ()',
        kernel: Callable[[Sequence[int]], None] = fakes.double,
        ports: Sequence[Port] | None = None,
        outputs: Callable[[], Sequence[Array]] | None = None,
        record: bool = False,
    ) -> Outcome:
        """All stages of a cell."""
        context = Context(
            folder=self.folder,
            scratch=self.scratch,
            marks=self.marks,
            ingress=Frontend(ir, ports, outputs),
            toolchain=fakes.FakeToolchain(passes=passes or {}, kernel=kernel),
        )
        return (cells.record if record else cells.run)(cell, context)


def ir(*operations: str) -> str:
    """A module of these operations."""
    return "".join(f'"{operation}"() : () -> ()\n' for operation in operations)
