"""The fingerprint that two attempts share when nothing that could matter differed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping

from orchestrator import records
from orchestrator.job import Cell, RecipeRun

_SAME_WHATEVER = ("keep",)
"""Of a cell: it changes what is sent back, not what happens."""
_HARDWARE = (
    "cpu_model",
    "cpu_flags",
    "cpus",
    "kernel",
    "gpu_name",
    "gpu_chip",
    "gpu_driver",
    "gpu_firmware",
)
"""`memory_bytes` differs from boot to boot; the cell's own limit is what counts."""
DIGEST = re.compile("#[0-9a-f]{12}")
"""What stands for a part that is too long to be shown."""
_TOLD_ELSEWHERE = ("id", "pipeline", "pool", "variant", "workload", "recipes", "targets")
"""Of a cell: no part by itself, since it names the cell, is split up, or is in the result."""


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
    return _digest(content)[:32]


def parts(cell: Cell, harness_sha256: str) -> dict[str, str]:
    """What goes into a fingerprint piece by piece, so that two attempts can be told apart by it.

    Recipes (`recipe <name>`, `recipe <name> for <driver> <chip>`), `golden`, `tolerance` and
    `harness` have digests; short values stand for themselves.
    """
    content = _content(cell)
    found = {
        name.removesuffix("_s").removesuffix("_bytes").replace("_", " "): _short(value)
        for name, value in content.items()
        if name not in _TOLD_ELSEWHERE and value is not None
    }
    for run in cell.recipes:
        found[_free(f"recipe {run.name}", found)] = _short(records.encode(_placeless(run)))
    for target in cell.targets:
        for run in (*target.kernels, *target.host):
            name = f"recipe {run.name} for {target.driver} {target.chip}"
            found[_free(name, found)] = _short(records.encode(_placeless(run)))
    return {**found, "harness": f"#{harness_sha256[:12]}"}


def _free(name: str, taken: Mapping[str, str]) -> str:
    """`name`, or `name (2)`, …: a recipe may run twice."""
    numbered = (name, *(f"{name} ({number})" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _short(value: object) -> str:
    return f"#{_digest(value)[:12]}" if isinstance(value, (dict, list)) else str(value)


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _placeless(run: RecipeRun) -> RecipeRun:
    steps = tuple(dataclasses.replace(step, source="") for step in run.steps)
    return dataclasses.replace(run, steps=steps)


def _content(cell: Cell) -> dict[str, object]:
    plain = dataclasses.replace(
        cell,
        workload=dataclasses.replace(cell.workload, file=""),
        golden=None if cell.golden is None else dataclasses.replace(cell.golden, file=""),
        recipes=tuple(map(_placeless, cell.recipes)),
        targets=tuple(
            dataclasses.replace(
                target,
                kernels=tuple(map(_placeless, target.kernels)),
                host=tuple(map(_placeless, target.host)),
            )
            for target in cell.targets
        ),
    )
    document = records.encode(plain)
    assert isinstance(document, dict)
    return {k: v for k, v in document.items() if k not in _SAME_WHATEVER}
