"""SPIR-V through Intel's offline compiler to a chip's code, and what that says of each kernel.

`ocloc` is part of Intel's OpenCL driver: what it refuses, the driver refuses on a machine with that
GPU. Its code ("zebin") is an ELF file with a description in YAML, `.ze_info`:
https://github.com/intel/intel-graphics-compiler/blob/master/documentation/igc/ZEBinary/README.md
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from orchestrator.job import KernelFacts, Target

UNKNOWN_CHIP = "Cannot get HW Info for device"
"""What an ocloc older than the chip says."""
_SECTION = b".ze_info"


@dataclass(frozen=True, kw_only=True)
class ZeKernel:
    """What `.ze_info` has of one kernel."""

    name: str
    registers: int | None
    """That a hardware thread is given, which executes `lanes` threads of the program."""
    lanes: int
    scratch_bytes: int
    """Of a hardware thread, rounded up: what was spilled, and private memory beside it."""
    shared_bytes: int


def options(target: Target, source: str, name: str, folder: str) -> list[str]:
    """Arguments of ocloc: SPIR-V at `source` to a file `name` in `folder`."""
    return [
        *("compile", "-spirv_input", "-file", source, "-device", target.chip),
        *("-internal_options", "-cl-intel-allow-zebin"),
        *("-output", name, "-out_dir", folder, "-output_no_suffix"),
    ]


def facts(code: bytes, target: Target, module: str) -> tuple[KernelFacts, ...]:
    """Of each kernel in a module's code; none where that is no zebin."""
    return tuple(
        KernelFacts(
            chip=target.chip,
            kernel=f"{module}::{kernel.name}",
            form="zebin",
            code_bytes=len(code),
            registers=kernel.registers,
            spilled_bytes=kernel.scratch_bytes // kernel.lanes,
            shared_bytes=kernel.shared_bytes,
        )
        for kernel in kernels(ze_info(code))
    )


def ze_info(code: bytes) -> str:
    """The section `.ze_info` of a 64-bit little-endian ELF file; empty where there is none."""
    try:
        (at,) = struct.unpack_from("<Q", code, 0x28)
        size, count, names = struct.unpack_from("<HHH", code, 0x3A)
        sections = [struct.unpack_from("<IIQQQQ", code, at + i * size) for i in range(count)]
        names_at = sections[names][4]
        for name, _, _, _, start, length in sections:
            if code[names_at + name :].startswith(_SECTION + b"\0"):
                return code[start : start + length].rstrip(b"\0").decode("utf-8", "replace")
    except (struct.error, IndexError):
        return ""
    return ""


def kernels(text: str) -> list[ZeKernel]:
    """From the YAML of `.ze_info`, in its order."""
    part = re.search(r"^kernels:\s*$(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    found = []
    for each in re.split(r"^  - (?=name:)", part[1] if part else "", flags=re.MULTILINE)[1:]:

        def number(key: str, each: str = each) -> int:
            match = re.search(rf"^\s+{key}:\s+(\d+)", each, re.MULTILINE)
            return int(match[1]) if match else 0

        name = re.match(r"name:\s+['\"]?([^\s'\"]+)", each)
        scratch = re.findall(r"- type:\s+scratch\s+usage:\s+\S+\s+size:\s+(\d+)", each)
        found.append(
            ZeKernel(
                name=name[1] if name else "",
                registers=number("grf_count") or None,
                lanes=max(number("simd_size"), 1),
                scratch_bytes=sum(map(int, scratch)),
                shared_bytes=number("slm_size"),
            )
        )
    return found
