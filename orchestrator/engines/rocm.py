"""The ROCm of this machine, whose HIP runtime executes on AMD's GPUs.

It is the machine's, as NVIDIA's driver is: it has to know the GPU and its kernel driver. Debian's
(5.2.3) loads neither code for gfx942 and later chips nor code objects of version 5.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.settings import Settings, has_hip

USUAL = Path("/opt/rocm")


def find(settings: Settings, usual: Path = USUAL) -> Path | None:
    """The folder that `LH_ROCM` names, else the usual one where that has a HIP runtime."""
    if settings.rocm is not None:
        return settings.rocm
    return usual.resolve() if has_hip(usual) else None


def environment(folder: Path, libraries: str = "") -> dict[str, str]:
    """What a process needs to use that ROCm; `libraries`: its LD_LIBRARY_PATH so far.

    Parts of a ROCm find one another by that path: those of another one must not come first.
    """
    paths = [str(folder / "lib"), *filter(None, [libraries])]
    return {"LH_ROCM": str(folder), "LD_LIBRARY_PATH": os.pathsep.join(paths)}
