"""Which toolchain a job compiles with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.harness.blame import MachineFault
from orchestrator.harness.toolchains.base import Kernel, Toolchain
from orchestrator.harness.toolchains.bindings import BindingsToolchain
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Step


@dataclass(frozen=True)
class NoToolchain:
    """For frontends that are compilers of their own, where there is no LLVM release."""

    name: str = "none"

    def versions(self) -> Mapping[str, str]:
        """Of nothing."""
        return {}

    def apply(self, step: Step, ir: str) -> str:
        """Raises MachineFault: there is nothing to do it with."""
        del ir
        raise MachineFault(f"{step.source}: this job has no toolchain to apply it with")

    def compile(self, ir: str, entry: str, scratch: Path) -> Kernel:
        """Raises MachineFault: there is nothing to do it with."""
        del ir, scratch
        raise MachineFault(f"this job has no toolchain to compile {entry} with")


def choose(
    wanted: Literal["auto", "release", "bindings"], frontend_opt: Path | None, *, recipes: bool
) -> Toolchain:
    """The LLVM release at `LH_LLVM_PREFIX` when there is one, else the wheel's bindings.

    `recipes`: some cell is lowered by recipes; else no toolchain is needed.

    Raises:
        MachineFault: the release is asked for and `LH_LLVM_PREFIX` names none.
    """
    prefix = os.environ.get("LH_LLVM_PREFIX", "")
    if not recipes and not prefix:
        return NoToolchain()
    if wanted == "bindings" or (wanted == "auto" and not prefix):
        return BindingsToolchain(frontend_opt)
    if not prefix:
        raise MachineFault("no LLVM release here: LH_LLVM_PREFIX is not set")
    return ReleaseToolchain(Path(prefix), frontend_opt)
