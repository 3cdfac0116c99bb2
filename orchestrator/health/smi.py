"""What vendors' tools say of their GPUs: their answers as readings. Pure.

- `nvidia-smi --query-gpu=… --format=csv`: fields of `nvidia-smi --help-query-gpu`, exit codes of
  nvidia-smi(1); a driver that does not know a field says so and answers nothing
  (https://github.com/CoHDI/composable-resource-operator/issues/37).
- `amd-smi metric --usage --ecc --json`:
  https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html; newer ones put
  the list below `gpu_data`.
- `rocm-smi --showuse --json`: https://github.com/ROCm/rocm_smi_lib. It has no errors in JSON
  (https://github.com/ROCm/legacy-rocm-build/issues/4374).
- Intel has no such tool on every machine; sysfs says whether the GPU is still there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.health.evidence import Blame, Evidence
from orchestrator.health.programs import Said

NVIDIA_FIELDS = (
    "pci.bus_id",
    "utilization.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "retired_pages.pending",
    "remapped_rows.pending",
    "gpu_recovery_action",
)
AMD_SMI = ("amd-smi", "metric", "--usage", "--ecc", "--json")
ROCM_SMI = ("rocm-smi", "--showuse", "--json")

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')
_BROKEN = re.compile(r"ERR!|\[?Unknown Error\]?", re.IGNORECASE)
_GONE = re.compile(r"GPU is lost|requires (?:a )?reset", re.IGNORECASE)
_NOTHING = {"", "0", "no", "none", "n/a", "not supported", "not available", "not active"}
_REFUSALS: tuple[tuple[str, str, Blame], ...] = (
    (r"Driver/library version mismatch", "driver", "device"),
    (r"Unable to determine the device handle.*", "lost", "device"),
    (r"GPU is lost.*", "lost", "device"),
    (r"GPU requires (?:a )?reset.*", "lost", "device"),
    (r"No devices were found", "lost", "device"),
    (r"couldn't communicate with the NVIDIA driver", "driver", "device"),
    (r"(?:Insufficient Permissions|No permission).*", "unreadable", "nobody"),
    (r"Failed to initialize NVML:.*", "driver", "device"),
    (r"driver not initialized.*", "driver", "device"),
    (r"No AMD GPUs specified", "lost", "device"),
)
_NVIDIA_EXITS = {
    8: "the GPU's power cables are not attached",
    9: "the NVIDIA driver is not loaded",
    10: "the kernel found an interrupt problem with a GPU",
    15: "the GPU has fallen off the bus or is inaccessible",
    16: "the GPU requires a reset",
}
"""As NVML numbers them: https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html."""
_NVIDIA_ANSWERED = (0, 14)
"""14: the board's configuration memory is corrupted, which is an old complaint, told each time."""


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """One GPU, as a tool sees it at a moment. None: it does not say."""

    gpu: str
    busy: int | None = None
    """Percent of the last moment in which something ran on it."""
    uncorrected: int | None = None
    """ECC errors since the driver was loaded."""
    pending: bool | None = None
    """Memory waits for a reset to be retired."""
    broken: str = ""
    """A field whose place was taken by an error."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a tool says."""

    gauges: tuple[Gauge, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    """What is wrong at this moment, whatever was before."""
    answered: bool = False


def nvidia_argv(fields: Sequence[str]) -> tuple[str, ...]:
    """How to ask for fields."""
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def unknown_field(said: Said) -> str:
    """A field that this driver's tool does not know; empty when that is not the trouble."""
    match = _UNKNOWN_FIELD.search(said.text)
    return match[1] if match else ""


def nvidia(said: Said, fields: Sequence[str]) -> Reading:
    """Reads the answer to `nvidia_argv(fields)`."""
    gauges: list[Gauge] = []
    evidence: list[Evidence] = []
    for line in said.text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            row = dict(zip(fields, values, strict=True))
            gauges.append(_nvidia_gauge(row))
            evidence += _nvidia_now(row)
    if not gauges or said.code not in _NVIDIA_ANSWERED:
        evidence.append(_refusal("nvidia-smi", said, _NVIDIA_EXITS.get(said.code, "")))
    return Reading(gauges=tuple(gauges), evidence=tuple(evidence), answered=bool(gauges))


def _nvidia_gauge(row: Mapping[str, str]) -> Gauge:
    pending = [row[name].casefold() for name in row if name.endswith(".pending")]
    return Gauge(
        gpu=row["pci.bus_id"],
        busy=_number(row.get("utilization.gpu")),
        uncorrected=_number(row.get("ecc.errors.uncorrected.volatile.total")),
        pending=any(value in ("yes", "true") or (_number(value) or 0) > 0 for value in pending),
        broken=next((name for name, value in row.items() if _BROKEN.search(value)), ""),
    )


def _nvidia_now(row: Mapping[str, str]) -> Iterator[Evidence]:
    gpu = row["pci.bus_id"]
    for name, value in row.items():
        if _GONE.search(value):
            text = f"nvidia-smi: {name} of GPU {gpu}: {value}"
            yield Evidence(kind="lost", blame="device", text=text, gpu=gpu)
    action = row.get("gpu_recovery_action", "")
    if _says(action) and not _GONE.search(action) and not _BROKEN.search(action):
        text = f"nvidia-smi: GPU {gpu} has to be recovered before it can be used: {action}"
        yield Evidence(kind="lost", blame="device", text=text, gpu=gpu, code="recovery")


def amd(said: Said, program: str) -> Reading:
    """Reads the answer of `AMD_SMI` or of `ROCM_SMI`."""
    try:
        document = json.loads(said.text[_start(said.text) :])
        gauges = tuple(_amd_gauges(document))
    except (ValueError, TypeError, AttributeError):
        gauges = ()
    if not gauges:
        return Reading(evidence=(_refusal(program, said, ""),))
    return Reading(gauges=gauges, answered=True)


def _start(text: str) -> int:
    """Where JSON begins: warnings may stand before it."""
    match = re.search(r"^[\[{]", text, re.MULTILINE)
    return match.start() if match else 0


def _amd_gauges(document: Any) -> Iterator[Gauge]:
    if isinstance(document, dict) and "gpu_data" in document:
        document = document["gpu_data"]
    if isinstance(document, list):
        for entry in document:
            usage = (entry.get("usage") or {}).get("gfx_activity")
            yield Gauge(
                gpu=str(entry["gpu"]) if "gpu" in entry else "",
                busy=_number(usage.get("value") if isinstance(usage, dict) else usage),
                uncorrected=_number((entry.get("ecc") or {}).get("total_uncorrectable_count")),
            )
        return
    for name, entry in document.items():
        if name.startswith("card"):
            yield Gauge(gpu=name, busy=_number(entry.get("GPU use (%)")))


def new_since(before: Reading, now: Reading) -> tuple[Evidence, ...]:
    """What went wrong between two answers: counters that grew, states that changed, GPUs gone."""
    if not (before.answered and now.answered):
        return ()
    found = []
    at_present = {gauge.gpu: gauge for gauge in now.gauges}
    for old in before.gauges:
        new = at_present.get(old.gpu)
        if new is None:
            text = f"GPU {old.gpu} is gone: it was there when the job started"
            found.append(Evidence(kind="lost", blame="device", text=text, gpu=old.gpu))
        else:
            found += _worse(old, new)
    return tuple(found)


def _worse(old: Gauge, new: Gauge) -> Iterator[Evidence]:
    def piece(kind: str, text: str) -> Evidence:
        return Evidence(kind=kind, blame="device", text=f"GPU {new.gpu}: {text}", gpu=new.gpu)

    if old.uncorrected is not None and (new.uncorrected or 0) > old.uncorrected:
        yield piece("ecc", f"uncorrected ECC errors: {old.uncorrected} before, {new.uncorrected}")
    if new.pending and old.pending is False:
        yield piece("retired", "memory waits for a reset to be retired")
    if new.broken and not old.broken:
        yield piece("tool", f"the tool shows an error for {new.broken}")


def _refusal(program: str, said: Said, meaning: str) -> Evidence:
    """A tool's error as evidence; one that is not known to be the device's is nobody's."""
    for pattern, kind, blame in _REFUSALS:
        if match := re.search(pattern, said.text, re.IGNORECASE):
            return Evidence(kind=kind, blame=blame, text=f"{program}: {_line(match[0])}")
    if meaning:
        return Evidence(kind="driver", blame="device", text=f"{program}: {meaning}")
    last = next((line for line in reversed(said.text.splitlines()) if line.strip()), "")
    text = f"{program} gave no answer that can be read (exit {said.code}): {_line(last)}"
    return Evidence(kind="unreadable", blame="nobody", text=text)


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _says(value: str) -> bool:
    """Whether a field says anything but `no`."""
    return value.strip("[] ").casefold() not in _NOTHING


def _number(value: object) -> int | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    text = str(value).strip().removesuffix("%").strip()
    return int(text) if text.isdecimal() else None
