"""What the numbers in `NVRM: Xid` lines of NVIDIA's kernel driver speak against.

Numbers and meanings are those of NVIDIA's Xid catalog,
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. Whom each speaks against
follows from what the catalog says to do about it: `RESET_GPU`, `RESTART_BM`, `CHECK_MECHANICALS`
and ECC faults are the device's; those to be sought in the application (`CHECK_APP/CUDA` and the
workflows of 13 and 31) are the program's; the others are unclear. That 13, 31, 43 and 45 leave a
healthy GPU behind is also what NVIDIA's Kubernetes device plugin holds
(https://github.com/NVIDIA/k8s-device-plugin, `internal/rm/health.go`).
"""

from __future__ import annotations

from orchestrator.health.evidence import Blame

AFTERMATH = (43, 45)
"""A channel was stopped or torn down after another error, or because its process was killed. That
says what happened to the program, not why."""

_DEVICE = {
    48: "double bit ECC error",
    54: "auxiliary power is not connected",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "memory row remapped or page retired",
    64: "memory row remapping or page retirement failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    110: "security fault",
    119: "timeout of a call to the GPU's system processor (GSP)",
    120: "error in the GPU's system processor (GSP)",
    121: "chip-to-chip link error",
    122: "flash read failed",
    123: "flash write failed",
    125: "error in the board's configuration memory (InfoROM)",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    144: "NVLink error (SAW)",
    145: "NVLink error (RLW)",
    146: "NVLink error (TLW)",
    147: "NVLink error (TREX)",
    148: "NVLink error (NVLPW_CTRL)",
    149: "NVLink error (NETIR)",
    150: "NVLink error (MSE)",
    151: "key rotation error",
    154: "the driver asks for a recovery of the GPU",
    155: "NVLink error",
    156: "resource retired",
    157: "resource retirement failed",
    158: "fatal timeout in the GPU",
    160: "channel retired",
    161: "channel retirement failed",
    167: "fatal PCIe timeout",
    168: "errors in protected GPU memory",
    169: "internal micro-controller halt",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
}
_PROGRAM = {
    13: "graphics engine exception: an access out of bounds, an illegal instruction",
    31: "GPU memory page fault: an illegal address",
    43: "the program hit a fault and its channel was stopped",
    45: "cleaned up after another error, or because the process was killed",
    69: "graphics engine class error: an illegal launch",
}
_UNCLEAR = {
    8: "GPU stopped processing",
    11: "invalid or corrupted push buffer stream",
    25: "invalid or illegal push buffer stream",
    32: "invalid or corrupted push buffer stream",
    38: "driver firmware watchdog",
    39: "copy engine exception",
    40: "copy engine exception",
    41: "copy engine exception",
    44: "fault during context switch",
    46: "GPU stopped processing",
    80: "corrupted data sent to the GPU",
    109: "context switch timeout",
    141: "CUDA fast path error",
}


def about(number: int) -> tuple[Blame, str]:
    """Whom an Xid speaks against, and its meaning; an unlisted one is unclear."""
    tables: tuple[tuple[Blame, dict[int, str]], ...] = (
        ("device", _DEVICE),
        ("program", _PROGRAM),
        ("unclear", _UNCLEAR),
    )
    for blame, meanings in tables:
        if number in meanings:
            return blame, meanings[number]
    return "unclear", "see NVIDIA's Xid catalog"
