"""Where tests find an LLVM release, if this machine has one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def tool(name: str) -> Path:
    """A tool of the release at `LH_LLVM_PREFIX`, on `PATH`, or of Debian's LLVM 22; else skips."""
    prefix = os.environ.get("LH_LLVM_PREFIX")
    places = [prefix and f"{prefix}/bin", os.environ.get("PATH"), "/usr/lib/llvm-22/bin"]
    for place in places:
        if place and (found := shutil.which(name, path=place)):
            return Path(found)
    pytest.skip(f"no {name} at LH_LLVM_PREFIX, on PATH or in /usr/lib/llvm-22")
