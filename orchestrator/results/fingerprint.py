"""The fingerprint that two attempts share when nothing that could matter differed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from orchestrator import records
from orchestrator.job import Cell

_SAME_WHATEVER = ("keep",)
"""Of a cell: it changes what is sent back, not what happens."""
_HARDWARE = ("cpu_model", "cpu_flags", "cpus", "kernel")
"""`memory_bytes` differs from boot to boot; the cell's own limit is what counts."""


def fingerprint(
    cell: Cell,
    *,
    environment: str,
    toolchain: str,
    versions: Mapping[str, str],
    hardware: Mapping[str, str | int],
    harness_sha256: str,
) -> str:
    """32 hexadecimal digits over everything that an attempt's outcome can depend on.

    The place in a file that a step comes from (`Step.source`) and the path a workload was copied
    to are left out: moving a recipe changes no outcome.
    """
    content = {
        "cell": _content(cell),
        "environment": environment,
        "toolchain": toolchain,
        "versions": dict(versions),
        "hardware": {name: hardware[name] for name in _HARDWARE if name in hardware},
        "harness": harness_sha256,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _content(cell: Cell) -> dict[str, object]:
    plain = dataclasses.replace(
        cell,
        workload=dataclasses.replace(cell.workload, file=""),
        golden=None if cell.golden is None else dataclasses.replace(cell.golden, file=""),
        recipes=tuple(
            dataclasses.replace(
                run, steps=tuple(dataclasses.replace(step, source="") for step in run.steps)
            )
            for run in cell.recipes
        ),
    )
    document = records.encode(plain)
    assert isinstance(document, dict)
    return {k: v for k, v in document.items() if k not in _SAME_WHATEVER}
