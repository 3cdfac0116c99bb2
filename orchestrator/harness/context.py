"""What a cell's process works with, and how it tells where it is."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator import records
from orchestrator.harness.ingress.base import Ingress
from orchestrator.harness.toolchains.base import Toolchain
from orchestrator.job import Done, Outcome

Blame = Literal["fail", "error"]


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a cell's process works with."""

    folder: Path
    """The job's folder, only read."""
    scratch: Path
    """A folder of its own."""
    marks: int
    """File descriptor of the pipe to the supervisor."""
    ingress: Ingress
    toolchain: Toolchain

    @property
    def kept(self) -> Path:
        """Where files go that the supervisor may send on."""
        return self.scratch / "kept"

    def keep(self, name: str, data: bytes) -> None:
        """Leaves a file for the supervisor."""
        path = self.kept / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def mark(self, stage: str, blame: Blame) -> None:
        """Says that a stage begins, and who is at fault should it not come back."""
        self._send(json.dumps({"stage": stage, "blame": blame}))

    def done(self, cell: str, outcome: Outcome) -> None:
        """Says how the cell ended."""
        self._send(records.dumps(Done(cell=cell, outcome=outcome)))

    def _send(self, line: str) -> None:
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(self.marks, data) :]


@dataclass
class Stage:
    """Where a cell is, and who is at fault should it not come back."""

    context: Context
    name: str = "ingress"
    blame: Blame = "error"

    def enter(self, name: str, blame: Blame) -> None:
        """Says that a stage begins."""
        self.name, self.blame = name, blame
        self.context.mark(name, blame)
