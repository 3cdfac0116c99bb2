"""Jobs of Triton cells, run by the harness in the stack's virtual environment."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from orchestrator import records
from orchestrator.backends import jobdir
from orchestrator.engines.venv import VenvEngine
from orchestrator.errors import LighthouseError
from orchestrator.job import Cell, Driver, Golden, Job, Outcome, Target, Tolerance, Workload
from orchestrator.settings import Settings

ROOT = Path(__file__).parents[2]
WORKLOADS = ROOT / "recipes" / "workloads"
GOLDENS = ROOT / "golden"
CHIPS: Mapping[str, Driver] = {
    "sm_80": "cuda",
    "sm_90": "cuda",
    "sm_100": "cuda",
    "gfx90a": "hip",
    "gfx942": "hip",
    "gfx1100": "hip",
    "gfx1201": "hip",
}
KERNEL = """
import torch
import triton
import triton.language as tl

SIZE = 100

@triton.jit
def inner(value):
    return value + nowhere

@triton.jit
def kernel(x, out, size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + place, mask=place < size)
    {body}
    tl.store(out + place, value, mask=place < size)

def get_inputs():
    return [torch.randn(SIZE)]

def launch(x):
    out = torch.empty_like(x)
    {launch}
    return {result}

def reference(x):
    return {reference}
"""


@dataclass(kw_only=True)
class Seen:
    """What the harness said of one cell."""

    stages: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=lambda: Outcome(status="miss", message="no verdict"))


def text(
    *,
    body: str = "pass",
    launch: str = "kernel[(1,)](x, out, SIZE, BLOCK=128)",
    result: str = "out",
    reference: str = "x",
) -> str:
    """A workload that copies 100 numbers, with something else in it."""
    return KERNEL.format(body=body, launch=launch, result=result, reference=reference)


def golden(path: Path, variant: str) -> Golden:
    """The recorded golden of a workload."""
    record = json.loads((GOLDENS / path.stem / f"{variant}.json").read_text())
    return Golden(
        file=f"golden/{path.stem}/{variant}.npz",
        **{name: record[name] for name in ("sha256", "size", "inputs_sha256")},
    )


def cell(path: Path, *chips: str, variant: str = "f32", execute: bool = True) -> Cell:
    """A cell of a workload, for these chips, or for the interpreter when there are none."""
    return Cell(
        id=f"triton.{path.stem}.{variant}@{'-'.join(chips) or 'interpreter'}",
        pipeline="triton",
        workload=Workload(
            name=path.stem,
            file=f"workloads/{path.name}",
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        ),
        variant=variant,
        pool="any",
        ingress="triton_lang",
        targets=tuple(Target(driver=CHIPS[chip], chip=chip) for chip in chips),
        execute=execute,
        tolerance={
            "f32": Tolerance(rtol=1.3e-6, atol=1e-5, reason="the table"),
            "f16": Tolerance(rtol=1e-3, atol=2.5e-4, reason="weights of 1 are rounded to f16"),
        },
        timeout_s=120.0,
        keep="always",
    )


def run(
    folder: Path, cells: Sequence[Cell], files: Mapping[str, Path], **environ: str
) -> dict[str, Seen]:
    """Runs cells, whose workloads are in `files`; by id."""
    folder.mkdir()
    names = {name: str(path) for name, path in files.items()}
    job = jobdir.write(folder, Job(id="job", stack="triton", pool="any", cells=tuple(cells)), names)
    seen = {each.id: Seen() for each in job.cells}
    argv = [str(python()), "-m", "orchestrator.harness", str(folder)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), "TMPDIR": str(folder.parent)}
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**environment, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["event"] == "stage":
            seen[event["cell"]].stages.append(event["stage"])
        elif event["event"] == "artifact":
            data = zlib.decompress(base64.b64decode(event["data"]))
            seen[event["cell"]].files[event["name"]] = data
        elif event["event"] == "done":
            seen[event["cell"]].outcome = records.decode(Outcome, event["outcome"])
    return seen


@cache
def python() -> Path:
    """The stack's Python, as the `venv` engine makes it; skips where it cannot be made."""
    engine = VenvEngine(ROOT, Settings.from_environment(os.environ))
    try:
        environment = engine.prepare("triton", lambda _: None)
    except LighthouseError as error:
        pytest.skip(f"no stack `triton`: {error}")
    return Path(environment.reference, "bin", "python")
