"""Chips that code is made for: whose they are, and what a block may have of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.job import SPIRV, Driver

_KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A GPU architecture, as compilers name it."""

    drivers: tuple[Driver, ...]
    shared_bytes: int | None = None
    """The most shared memory that one block can have; None: the device says when it is there."""


def _nvidia(kib: int) -> Chip:
    return Chip(drivers=("cuda",), shared_bytes=kib * _KIB)


_LDS = Chip(drivers=("hip",), shared_bytes=64 * _KIB)

CHIPS: Mapping[str, Chip] = {
    # "Maximum amount of shared memory per thread block", CUDA C++ Programming Guide, table of
    # technical specifications per compute capability:
    # https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
    "sm_70": _nvidia(96),
    "sm_75": _nvidia(64),
    "sm_80": _nvidia(163),
    "sm_86": _nvidia(99),
    "sm_87": _nvidia(163),
    "sm_89": _nvidia(99),
    "sm_90": _nvidia(227),
    "sm_90a": _nvidia(227),
    "sm_100": _nvidia(227),
    "sm_100a": _nvidia(227),
    "sm_120": _nvidia(99),
    # "LDS" per workgroup, LLVM's User Guide for AMDGPU Backend, Processors:
    # https://llvm.org/docs/AMDGPUUsage.html#processors
    "gfx906": _LDS,
    "gfx908": _LDS,
    "gfx90a": _LDS,
    "gfx942": _LDS,
    "gfx950": Chip(drivers=("hip",), shared_bytes=160 * _KIB),
    "gfx1030": _LDS,
    "gfx1100": _LDS,
    "gfx1101": _LDS,
    "gfx1102": _LDS,
    "gfx1200": _LDS,
    "gfx1201": _LDS,
    # as Intel's compilers name them; the driver, which compiles SPIR-V, says what a block may have
    "pvc": Chip(drivers=("opencl",)),  # Data Center GPU Max
    "bmg": Chip(drivers=("opencl",)),  # Arc B
    SPIRV: Chip(drivers=("opencl", "vulkan")),
    # SPIR 1.2, for OpenCL drivers that take no SPIR-V
    "spir": Chip(drivers=("opencl",)),
}


def wrong_chip(name: str, driver: Driver) -> str:
    """Why no code can be made for a chip with a driver; empty when it can."""
    chip = CHIPS.get(name)
    if chip is not None and driver in chip.drivers:
        return ""
    fitting = [known for known, each in CHIPS.items() if driver in each.drivers]
    if chip is not None:
        return f"chip `{name}` is not of driver `{driver}`. Its chips: {', '.join(fitting)}"
    near = difflib.get_close_matches(name, fitting, n=1)
    meant = f" Did you mean `{near[0]}`?" if near else ""
    return f"no chip `{name}` is known.{meant} Chips of `{driver}`: {', '.join(fitting)}"


def fits(name: str, shared_bytes: int) -> str:
    """Why a kernel cannot have that much shared memory; empty when it can."""
    chip = CHIPS.get(name)
    if chip is None or chip.shared_bytes is None or shared_bytes <= chip.shared_bytes:
        return ""
    return (
        f"wants {shared_bytes:,} bytes of shared memory for a block, and {name} has "
        f"{chip.shared_bytes:,}: use smaller tiles, or another chip"
    )
