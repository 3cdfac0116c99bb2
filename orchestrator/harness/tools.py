"""The assemblers, validators and device libraries that a stack brings besides LLVM."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from orchestrator.harness.blame import MachineFault

_NVCC = "nvidia/cuda_nvcc"
"""Folder of the wheel that has ptxas and libdevice, below site-packages."""


def sysroot() -> Path | None:
    """Where the stack's system packages were unpacked; None: they are installed in `/`."""
    named = os.environ.get("LH_SYSROOT", "")
    return Path(named) if named else None


def tool(name: str) -> Path:
    """An executable of the stack.

    Raises:
        MachineFault: the stack lacks it.
    """
    for folder in _folders():
        if os.access(folder / name, os.X_OK):
            return folder / name
    if found := shutil.which(name):
        return Path(found)
    raise MachineFault(f"this stack has no {name}: its image or its packages are incomplete")


def _folders() -> Iterator[Path]:
    yield Path(sysconfig.get_path("purelib"), _NVCC, "bin")
    root = sysroot()
    if root is not None:
        yield root / "usr/bin"
        yield from sorted((root / "usr/lib").glob("llvm-*/bin"), reverse=True)
    yield from sorted(Path("/usr/lib").glob("llvm-*/bin"), reverse=True)


def toolkit(folder: Path) -> Path:
    """A toolkit folder as `gpu-module-to-binary` expects one: device libraries where there are any.

    NVIDIA's libdevice is at `nvvm/libdevice`, AMD's ocml and ockl at `amdgcn/bitcode`.
    """
    libdevice = Path(sysconfig.get_path("purelib"), _NVCC, "nvvm/libdevice")
    for name, source in (("nvvm/libdevice", libdevice), ("amdgcn/bitcode", _amd_bitcode())):
        if source is not None and source.is_dir():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
    return folder


def _amd_bitcode() -> Path | None:
    root = sysroot() or Path("/")
    return next(iter(sorted(root.glob("usr/lib/*/amdgcn/bitcode"))), None)
