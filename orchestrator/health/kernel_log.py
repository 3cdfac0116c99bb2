"""Lines of the kernel log that speak of a GPU, of its driver, or of memory that ran out. Pure.

Where the wording comes from:
- NVIDIA: https://docs.nvidia.com/deploy/xid-errors/working-with-xid-errors.html (`NVRM: Xid`),
  https://github.com/NVIDIA/NVSentinel/issues/155 (a GPU off the bus without an Xid);
- AMD: Linux, `drivers/gpu/drm/amd/amdgpu/` (`amdgpu_job.c`, `amdgpu_device.c`, `amdgpu_ras.c`,
  `gmc_v*.c`), with whole logs in https://github.com/pop-os/cosmic-epoch/issues/3764 and
  https://github.com/ROCm/amdgpu/issues/168;
- Intel: Linux, `drivers/gpu/drm/i915/i915_gpu_error.c`, `drivers/gpu/drm/xe/xe_device.c`,
  `xe_guc_submit.c`, with whole logs in https://github.com/clearlinux/distribution/issues/2907 and
  https://github.com/CachyOS/linux-cachyos/issues/892;
- memory: Linux, `mm/oom_kill.c`.

A timeout or an engine's reset is what both a sick device and a kernel that never ends look like:
these are `unclear`. A page fault is a wrong address, so the program's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.health.evidence import Blame, Evidence, Vendor
from orchestrator.health.xids import AFTERMATH, about

_WIDTH = 300
"""Characters kept of a line."""
_PCI = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?\b", re.IGNORECASE)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]+)[^)]*\): (?P<code>\d+)\b")
_NO_RECOVERY = re.compile(r"\bto 0x0\b|\(None\)\s*$")
"""The end of an Xid 154 that takes back an earlier demand."""


@dataclass(frozen=True)
class _Sign:
    """A wording, and what it stands for. Its group, if any, is the code."""

    pattern: re.Pattern[str]
    kind: str
    blame: Blame
    meaning: str = ""


def _sign(pattern: str, kind: str, blame: Blame, meaning: str = "") -> _Sign:
    return _Sign(re.compile(pattern, re.IGNORECASE | re.DOTALL), kind, blame, meaning)


_NVIDIA = (
    _sign(r"NVRM:.*fallen off the bus", "lost", "device"),
    _sign(r"NVRM:.*API mismatch", "driver", "device", "kernel module and libraries differ"),
    _sign(r"NVRM:.*RmInitAdapter failed", "driver", "device", "the GPU cannot be initialized"),
)
_AMD = (
    _sign(r"device lost from bus", "lost", "device"),
    _sign(r"device wedged, needs recovery", "lost", "device"),
    _sign(r"GPU reset\(?\d*\)? failed|GPU Recovery Failed", "lost", "device"),
    # the total since boot, without `new`, is repeated whenever a tool asks for it
    _sign(r"[1-9]\d* new uncorrectable hardware errors detected in (\w+) block", "ecc", "device"),
    _sign(r"uncorrected hardware error\s*\((\w+)\)", "ecc", "device"),
    _sign(r"RAS poison (?:is )?consum|poison is consumed", "ecc", "device"),
    _sign(r"\bring (\S+) timeout", "hang", "unclear", "work did not end in time"),
    _sign(r"qcm fence wait loop timeout|MES failed to respond", "hang", "unclear"),
    _sign(r"GPU reset begin", "reset", "unclear", "the whole GPU is reset"),
    _sign(r"\[\w*hub\d*\] (?:no-)?(?:retry )?page fault", "fault", "program", "illegal address"),
    _sign(r"VM_L2_PROTECTION_FAULT_STATUS:\s*0x(?!0+\b)", "fault", "program", "illegal address"),
    _sign(r"Illegal (?:opcode|instruction|register access) in command stream", "fault", "program"),
)
_INTEL = (
    _sign(r"declared device \S+ as wedged", "lost", "device"),
    _sign(r"device wedged, needs recovery", "lost", "device"),
    _sign(r"declaring (?:it )?wedged|Failed to reset chip", "lost", "device"),
    _sign(r"GT\d+: reset failed", "lost", "device"),
    _sign(r"GPU HANG: ecode (\S+?)(?:,|$)", "hang", "unclear", "work did not end in time"),
    _sign(r"Engine reset: engine_class=(\w+)", "hang", "unclear", "work did not end in time"),
    _sign(r"\bTimedout job\b", "hang", "unclear", "work did not end in time"),
    _sign(r"Resetting chip\b|GT\d+: reset started", "reset", "unclear", "the whole GPU is reset"),
    _sign(r"Engine memory cat error|Fault response: Unsuccessful", "fault", "program"),
)
_OF = {
    "nvidia": (re.compile("NVRM:"), _NVIDIA),
    "amd": (re.compile("amdgpu"), _AMD),
    "intel": (re.compile(r"\b(?:i915|xe)\b"), _INTEL),
}
_MEMORY = (
    _sign(r"Memory cgroup out of memory: Kill(?:ed)? process (\d+)", "memory", "program"),
    _sign(r"\bOut of memory: Kill(?:ed)? process (\d+)", "memory", "unclear"),
)


def read(lines: Iterable[str], vendor: Vendor) -> tuple[Evidence, ...]:
    """What lines of the kernel log say of a vendor's GPUs and of memory, in their order.

    Lines about other vendors' GPUs are none of this job's business. A line is a whole record, in
    which the kernel may have broken lines; time stamps and prefixes in front do not matter.
    """
    return tuple(piece for line in lines if (piece := _read(line, vendor)) is not None)


def _read(line: str, vendor: Vendor) -> Evidence | None:
    prefix, signs = _OF[vendor]
    if prefix.search(line):
        if xid := _XID.search(line):
            return _xid(line, xid)
        return _first(line, signs)
    return _first(line, _MEMORY)


def _xid(line: str, match: re.Match[str]) -> Evidence:
    number = int(match["code"])
    blame, meaning = about(number)
    if number == 154 and _NO_RECOVERY.search(line):
        blame = "nobody"
    return Evidence(
        kind="aftermath" if number in AFTERMATH else "lost" if number == 79 else "xid",
        blame=blame,
        text=_text(line[match.start() :], meaning),
        gpu=match["gpu"],
        code=match["code"],
    )


def _first(line: str, signs: Iterable[_Sign]) -> Evidence | None:
    for sign in signs:
        if match := sign.pattern.search(line):
            gpu = _PCI.search(line)
            return Evidence(
                kind=sign.kind,
                blame=sign.blame,
                text=_text(line, sign.meaning),
                gpu=gpu[0] if gpu and sign.kind != "memory" else "",
                code=(match[1] or "") if sign.pattern.groups else "",
            )
    return None


def _text(line: str, meaning: str) -> str:
    """On one line, with its meaning unless it says so itself."""
    text = " ".join(line.split())
    text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
    said = not meaning or meaning.casefold() in text.casefold()
    return text if said else f"{text} ({meaning})"
