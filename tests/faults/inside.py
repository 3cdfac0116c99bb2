"""What is inside of the harness of a real process: cells that pass, unless somebody strikes first.

Imported by the harness, beside the part of the package that the job's folder has.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.harness.toolchains import release
from orchestrator.job import Step
from tests.harness import fakes


@dataclass(frozen=True)
class Struck(fakes.FakeToolchain):
    """A toolchain in whose first pass of all the fault strikes; never again."""

    fault: str = ""
    mark: Path = Path()
    folder: Path = Path()

    def apply(self, step: Step, ir: str) -> str:
        """Does nothing to the IR."""
        try:
            self.mark.open("x").close()
        except FileExistsError:
            return ir
        FAULTS[self.fault](self)
        return ir


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def _sent(number: int, to: Callable[[], int]) -> Callable[[Struck], None]:
    def strike(struck: Struck) -> None:
        os.kill(to(), number)
        signal.pause()  # until the end, which comes from outside

    return strike


def _tool(script: str, program: str = "/bin/sh") -> Callable[[Struck], None]:
    """A tool of the release that ends like this."""

    def strike(struck: Struck) -> None:
        release._run([program, "-c", script])

    return strike


def _files_gone(struck: Struck) -> None:
    shutil.rmtree(struck.folder / "workloads")


def _files_damaged(struck: Struck) -> None:
    for path in (struck.folder / "golden").rglob("*.npz"):
        os.truncate(path, 10)


FAULTS: Mapping[str, Callable[[Struck], None]] = {
    "": lambda struck: None,
    "harness killed": _sent(signal.SIGKILL, os.getppid),
    "harness stopped": _sent(signal.SIGSTOP, os.getppid),
    "guard killed": _sent(signal.SIGKILL, lambda: _parent(os.getppid())),
    "cell killed": _sent(signal.SIGKILL, os.getpid),
    "cell terminated": _sent(signal.SIGTERM, os.getpid),
    "tool killed": _tool("kill -KILL $$"),
    "disk full": _tool("cat /proc/version > /dev/full"),
    "files gone": _files_gone,
    "files damaged": _files_damaged,
    "tool gone": _tool("", "/nowhere/mlir-opt"),
}


def enter(fault: str, mark: str, folder: str) -> int:
    """The harness as it is, with another frontend and another toolchain."""
    from orchestrator.harness import real  # type: ignore[attr-defined]

    toolchain = Struck(fault=fault, mark=Path(mark), folder=Path(folder))
    real._warm_up = lambda job: ({"torch_mlir": fakes.NumpyIngress()}, toolchain, {})
    return int(real.main(sys.argv))
