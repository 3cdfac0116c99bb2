"""Which of a bundle's codes a device executes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestrator.job import Driver

_NVIDIA = re.compile(r"sm_(\d+)([af]?)")
_ARCHITECTURE_SPECIFIC = 90
"""From this compute capability on cubins are made for a chip alone: Triton takes `sm_90a`."""
CUBIN = "a cubin is for its chip, below sm_90 for later ones of its generation too"
RULES = {
    "cuda": "PTX is for its chip and newer ones",
    "hip": "an HSACO is for its chip alone",
    "opencl": "SPIR-V is for any device",
    "vulkan": "SPIR-V is for any device",
}
"""What a driver takes, in words."""


def ordered(chips: Iterable[str]) -> list[str]:
    """Chips as people list them, older ones first: `sm_80`, `sm_90`, `sm_100`."""
    return sorted(chips, key=lambda chip: (len(chip), chip))


def fitting(
    driver: Driver, chips: Iterable[str], device_chip: str, *, cubins: bool = False
) -> str | None:
    """The best of `chips` for a device; None when there is none. `cubins`: NVIDIA's code is no PTX.

    NVIDIA: the newest chip that is not newer than the device, whose driver compiles PTX for it;
    PTX for one chip alone (`sm_90a`) or its family (`sm_100f`) when the device is that
    (https://docs.nvidia.com/cuda/parallel-thread-execution/#ptx-module-directives-target).
    AMD: the device's own; drivers put features behind the name (`gfx90a:sramecc+:xnack-`).
    Others: whatever there is, unless the driver names what it takes.
    """
    known = ordered(chips)
    if driver == "cuda":
        if cubins:
            known = [chip for chip in known if _takes_cubin(chip, device_chip)]
        ranked = [(rank, chip) for chip in known if (rank := _nvidia_rank(chip, device_chip))]
        return max(ranked)[1] if ranked else None
    name = device_chip.partition(":")[0]
    if name in known:
        return name
    return known[0] if driver in ("opencl", "vulkan") and not name and known else None


def _nvidia_rank(chip: str, device_chip: str) -> tuple[int, int] | None:
    """How well PTX for a chip serves a device: higher is better, None is not at all."""
    code, device = _NVIDIA.fullmatch(chip), _NVIDIA.fullmatch(device_chip)
    if code is None or device is None:
        return None
    wanted, there = int(code[1]), int(device[1])
    fits = {
        "": wanted <= there,
        "f": wanted <= there and wanted // 10 == there // 10,
        "a": wanted == there,
    }
    return (wanted, list(fits).index(code[2])) if fits[code[2]] else None


def _takes_cubin(chip: str, device_chip: str) -> bool:
    """https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility"""
    code, device = _NVIDIA.fullmatch(chip), _NVIDIA.fullmatch(device_chip)
    if code is None or device is None:
        return False
    made, there = int(code[1]), int(device[1])
    return made == there or (made < _ARCHITECTURE_SPECIFIC and made // 10 == there // 10)
