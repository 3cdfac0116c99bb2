"""What the machine at hand is: the facts that pools are matched against."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ARCHES = {"amd64": "x86_64", "arm64": "aarch64"}
_ARM_IMPLEMENTERS = {
    "0x41": "ARM",
    "0x42": "Broadcom",
    "0x43": "Cavium",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x51": "Qualcomm",
    "0x61": "Apple",
    "0xc0": "Ampere",
}


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU of this machine."""

    vendor: Literal["nvidia", "amd", "intel"]
    name: str
    chip: str = ""
    """`sm_90`, `gfx942`; empty when unknown."""
    driver_version: str = ""
    firmware: str = ""
    clocks: str = ""
    """Of cores and memory when it was looked at: `1980/2619 MHz`; empty when unknown."""
    memory_bytes: int = 0
    pci: str = ""
    """`0000:65:00.0`; empty when unknown."""
    nodes: tuple[str, ...] = ()
    """Device nodes that a process needs to use it."""
    problem: str = ""
    """Why it cannot be used, and what to do; empty when it can."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine, as its kernel describes it."""

    arch: str
    """`x86_64`, `aarch64`, …"""
    cpu_vendor: str
    """As `/proc/cpuinfo` names it (`GenuineIntel`, `AuthenticAMD`); empty when unknown."""
    cpu_model: str
    cpu_flags: str
    """Sorted, space-separated."""
    cpus: int
    """Logical CPUs that this process may use."""
    memory_bytes: int
    """All of the machine's; 0 when unknown."""
    kernel: str
    gpus: tuple[Gpu, ...] = ()


def parse(*, arch: str, kernel: str, cpus: int, cpuinfo: str, meminfo: str) -> Host:
    """A host from the texts of `/proc/cpuinfo` and `/proc/meminfo` (empty where there are none)."""
    facts = _first_processor(cpuinfo)
    implementer = facts.get("cpu implementer", "")
    flags = (facts.get("flags") or facts.get("features") or "").split()
    return Host(
        arch=_ARCHES.get(arch.lower(), arch),
        cpu_vendor=facts.get("vendor_id") or _ARM_IMPLEMENTERS.get(implementer, implementer),
        cpu_model=facts.get("model name") or _arm_part(facts) or "unknown CPU",
        cpu_flags=" ".join(sorted(set(flags))),
        cpus=max(cpus, 1),
        memory_bytes=_memory_bytes(meminfo),
        kernel=kernel,
    )


def detect() -> Host:
    """The machine that this process runs on.

    Starts no other process, and never raises for what it cannot find out.
    """
    return parse(
        arch=platform.machine(),
        kernel=f"{platform.system()} {platform.release()}",
        cpus=_usable_cpus(),
        cpuinfo=_read(Path("/proc/cpuinfo")),
        meminfo=_read(Path("/proc/meminfo")),
    )


def _first_processor(cpuinfo: str) -> dict[str, str]:
    """Key to value of the first block; on ARM some keys stand only in the last one."""
    facts: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip().lower(), value.strip())
    return facts


def _arm_part(facts: dict[str, str]) -> str:
    part = facts.get("cpu part", "")
    return f"CPU part {part}" if part else ""


def _memory_bytes(meminfo: str) -> int:
    for line in meminfo.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "MemTotal:" and words[1].isdecimal():
            return int(words[1]) << 10
    return 0


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
