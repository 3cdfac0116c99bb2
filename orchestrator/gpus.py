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
_INTEL_CLOCKS = (
    "drm/card*/gt/gt0/rps_cur_freq_mhz",
    "drm/card*/gt_cur_freq_mhz",
    "tile0/gt0/freq0/cur_freq",
)


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
        device = root / f"sys/class/drm/renderD{facts.get('drm_render_minor', '')}" / "device"
        names = (_read(device / "product_name"), _read(node.parent / "name"), "AMD GPU")
        memory = _read(device / "mem_info_vram_total").strip()
        gpus.append(
            Gpu(
                vendor="amd",
                name=next(filter(None, map(str.strip, names))),
                chip=gfx_name(version),
                driver_version=_module_version(root, "amdgpu"),
                firmware=_read(device / "vbios_version").strip(),
                clocks=_amd_clocks(device),
                memory_bytes=int(memory) if memory.isdecimal() else 0,
                pci=_pci(device),
                nodes=tuple(nodes),
                problem=_unusable(nodes, "render and video"),
            )
        )
    return tuple(gpus)


def _amd_clocks(device: Path) -> str:
    """`132/900 MHz`, of cores and memory: the levels that the driver marks as current.

    https://docs.kernel.org/gpu/amdgpu/thermal.html#pp-dpm
    """
    levels = (_read(device / f"pp_dpm_{domain}") for domain in ("sclk", "mclk"))
    found = [
        re.search(r"^\s*\w+: *(\d+)Mhz *\*", text, re.MULTILINE | re.IGNORECASE) for text in levels
    ]
    return f"{'/'.join(match[1] if match else '?' for match in found)} MHz" if any(found) else ""


def gfx_name(version: int) -> str:
    """The name of `gfx_target_version`: 90402 is gfx942, 90010 is gfx90a, 110000 is gfx1100.

    Two decimal digits for the stepping, two for the minor version, which compilers write in
    hexadecimal (https://llvm.org/docs/AMDGPUUsage.html#processors).
    """
    return f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"


# --- Intel ------------------------------------------------------------------------------------


def _intel(root: Path) -> tuple[Gpu, ...]:
    return tuple(_intel_gpu(root, node) for node in _render_nodes(root, _INTEL))


def _intel_gpu(root: Path, node: str) -> Gpu:
    device = root / "sys/class/drm" / Path(node).name / "device"
    number = _read(device / "device").strip()
    driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
    return Gpu(
        vendor="intel",
        name=f"Intel GPU {number}".rstrip(),
        driver_version=f"{driver} {_module_version(root, driver)}" if driver else "",
        clocks=_intel_clocks(device),
        pci=_pci(device),
        nodes=(node,),
        problem=_unusable([node], "render"),
    )


def _intel_clocks(device: Path) -> str:
    """`1550 MHz`, of its first engine: i915's newer and older file, and xe's.

    https://docs.kernel.org/gpu/i915.html, https://docs.kernel.org/gpu/xe/xe_gt_freq.html
    """
    for pattern in _INTEL_CLOCKS:
        for file in sorted(device.glob(pattern)):
            if (clock := _read(file).strip()).isdecimal():
                return f"{clock} MHz"
    return ""


# --- nodes ------------------------------------------------------------------------------------


def _render_nodes(root: Path, vendor: str) -> list[str]:
    found = sorted((root / "sys/class/drm").glob("renderD*"))
    mine = [each for each in found if _read(each / "device/vendor").strip() == vendor]
    return [str(root / "dev/dri" / each.name) for each in mine]


def _module_version(root: Path, module: str) -> str:
    """Of a kernel driver: its own, else that of the kernel which it is a part of."""
    own = _read(root / "sys/module" / module / "version").strip()
    kernel = _read(root / "proc/sys/kernel/osrelease").strip()
    return own or (f"Linux {kernel}" if kernel else "")


def _pci(device: Path) -> str:
    found = re.search(r"^PCI_SLOT_NAME=(\S+)", _read(device / "uevent"), re.MULTILINE)
    return found[1] if found else ""


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
