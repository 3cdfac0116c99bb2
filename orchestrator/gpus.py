"""The GPUs of this machine: what the kernel and the drivers' tools say, and what stands in the way.

Nothing here raises, and no process is started where there is no trace of a GPU.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.host import Gpu

Ask = Callable[[Sequence[str]], str]
"""Runs a command; what it printed, empty when it could not be run or took too long."""

_QUERY = (
    "name,compute_cap,driver_version,memory.total,pci.bus_id,vbios_version,clocks.sm,clocks.mem"
)
_TIMEOUT_S = 10.0
_AMD, _INTEL = "0x1002", "0x8086"


def ask(argv: Sequence[str]) -> str:
    """Both streams of a command that has ten seconds; a tool that hangs is a broken driver."""
    try:
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def detect_gpus(root: Path = Path("/"), run: Ask = ask) -> tuple[Gpu, ...]:
    """All GPUs of the three vendors, usable or with their problem.

    Args:
        root: of the file system, for tests.
        run: how to run a command.
    """
    return (*_nvidia(root, run), *_amd(root), *_intel(root))


# --- NVIDIA -----------------------------------------------------------------------------------


def _nvidia(root: Path, run: Ask) -> tuple[Gpu, ...]:
    nodes = sorted(str(p) for p in (root / "dev").glob("nvidia[0-9]*"))
    loaded = (root / "proc/driver/nvidia/version").is_file()
    wsl = (root / "dev/dxg").exists()
    if not (nodes or loaded or wsl):
        return ()
    said = run(["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"])
    rows = [[word.strip() for word in line.split(",")] for line in said.splitlines()]
    gpus = [
        Gpu(
            vendor="nvidia",
            name=name,
            chip=f"sm_{capability.replace('.', '')}",
            driver_version=driver,
            memory_bytes=int(memory) << 20 if memory.isdecimal() else 0,
            pci=pci,
            firmware=firmware,
            clocks=f"{core}/{memory_clock} MHz",
            nodes=tuple(nodes),
            problem=_unusable(nodes[:1], ""),
        )
        for name, capability, driver, memory, pci, firmware, core, memory_clock in (
            row for row in rows if len(row) == _QUERY.count(",") + 1
        )
        if re.fullmatch(r"\d+\.\d+", capability)
    ]
    if gpus:
        return tuple(gpus)
    if not (nodes or loaded):
        return ()  # Windows below, and no NVIDIA GPU that it shows
    return (
        Gpu(vendor="nvidia", name="NVIDIA GPU", nodes=tuple(nodes), problem=_sick(said, nodes)),
    )


def _sick(said: str, nodes: Sequence[str]) -> str:
    """Why an NVIDIA driver that is loaded shows no GPU."""
    if "version mismatch" in said:
        return (
            "nvidia-smi: the driver's library is not of the version of its kernel module: reboot, "
            "or reload the module"
        )
    if not nodes:
        return (
            "the NVIDIA driver is loaded and there is no /dev/nvidia0: run nvidia-modprobe, or "
            "hand the device to this container"
        )
    if not said.strip():
        return "nvidia-smi was not found, or did not answer: install the driver's tools, or reboot"
    return f"nvidia-smi: {said.strip().splitlines()[0]:.200}"


# --- AMD --------------------------------------------------------------------------------------


def _amd(root: Path) -> tuple[Gpu, ...]:
    gpus = []
    nodes = [str(root / "dev/kfd"), *_render_nodes(root, _AMD)]
    for node in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        facts = dict(line.split(" ", 1) for line in _read(node).splitlines() if " " in line)
        version = int(facts.get("gfx_target_version", "0"))
        if version == 0:
            continue  # a CPU
        name = _read(node.parent / "name").strip() or "AMD GPU"
        gpus.append(
            Gpu(
                vendor="amd",
                name=name,
                chip=gfx_name(version),
                driver_version=_read(root / "sys/module/amdgpu/version").strip(),
                nodes=tuple(nodes),
                problem=_unusable(nodes, "render and video"),
            )
        )
    return tuple(gpus)


def gfx_name(version: int) -> str:
    """The name of `gfx_target_version`: 90402 is gfx942, 90010 is gfx90a, 110000 is gfx1100.

    Two decimal digits for the stepping, two for the minor version, which compilers write in
    hexadecimal (https://llvm.org/docs/AMDGPUUsage.html#processors).
    """
    return f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"


# --- Intel ------------------------------------------------------------------------------------


def _intel(root: Path) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            vendor="intel",
            name="Intel GPU",
            nodes=(node,),
            problem=_unusable([node], "render"),
        )
        for node in _render_nodes(root, _INTEL)
    )


# --- nodes ------------------------------------------------------------------------------------


def _render_nodes(root: Path, vendor: str) -> list[str]:
    found = sorted((root / "sys/class/drm").glob("renderD*"))
    mine = [each for each in found if _read(each / "device/vendor").strip() == vendor]
    return [str(root / "dev/dri" / each.name) for each in mine]


def _unusable(nodes: Sequence[str], groups: str) -> str:
    """Why device nodes cannot be opened by this user; empty when they can."""
    for node in nodes:
        if not os.path.exists(node):  # noqa: PTH110  a device node, followed or not
            return f"{node} is missing: load the driver, or hand the device to this container"
        if not os.access(node, os.R_OK | os.W_OK):
            member = f" (this user is not in the groups {groups})" if groups else ""
            return f"{node}: permission denied{member}: ask the machine's owner for access"
    return ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
