"""Which toolchain a job compiles with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from orchestrator.harness.blame import MachineFault
from orchestrator.harness.toolchains.base import Toolchain
from orchestrator.harness.toolchains.bindings import BindingsToolchain
from orchestrator.harness.toolchains.release import ReleaseToolchain


def choose(wanted: Literal["auto", "release", "bindings"], frontend_opt: Path | None) -> Toolchain:
    """The LLVM release at `LH_LLVM_PREFIX` when there is one, else the wheel's bindings.

    Raises:
        MachineFault: the release is asked for and `LH_LLVM_PREFIX` names none.
    """
    prefix = os.environ.get("LH_LLVM_PREFIX", "")
    if wanted == "bindings" or (wanted == "auto" and not prefix):
        return BindingsToolchain(frontend_opt)
    if not prefix:
        raise MachineFault("no LLVM release here: LH_LLVM_PREFIX is not set")
    return ReleaseToolchain(Path(prefix), frontend_opt)
