"""Bundles of `toy.mlir`'s `forward`, out = 2 * in + 1, around any host code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator import records
from orchestrator.harness.elements import Array, ElementType
from orchestrator.harness.formula import FormulaSpec, for_input
from orchestrator.harness.gpu import bundle as subject
from orchestrator.harness.gpu.bundle import Bundle
from orchestrator.harness.gpu.targets import Built
from orchestrator.harness.ingress.base import Loaded
from orchestrator.job import Cell, Driver, KernelFacts, Target, Tolerance, Workload

CELL = "pytorch_gpu.toy.f32@cross-nvidia"
SHAPE = (100,)
INPUT = for_input(0).numbers(SHAPE).astype(np.float32)
FACTS = KernelFacts(chip="sm_90", kernel="first::twice", form="cubin", code_bytes=1234, registers=8)


def cell(**changes: Any) -> Cell:
    """The cell that the bundles come from."""
    fields: dict[str, Any] = {
        "id": CELL,
        "pipeline": "pytorch_gpu",
        "workload": Workload(name="toy", file="workloads/toy.py", sha256="0" * 64),
        "variant": "f32",
        "pool": "cross-nvidia",
        "ingress": "torch_mlir",
        "tolerance": {"f32": Tolerance(rtol=1e-6, atol=1e-6, reason="the framework's table")},
        "timeout_s": 60.0,
        "memory_bytes": 1 << 30,
    }
    return Cell(**{**fields, **changes})


def built(folder: Path, chip: str, code: bytes | None = None, driver: Driver = "cuda") -> Built:
    """A program for a chip; its host code names the chip unless it is given."""
    library = folder / f"{chip}.so"
    library.write_bytes(f"host code for {chip}".encode() if code is None else code)
    return Built(
        target=Target(driver=driver, chip=chip),
        library=library,
        files={"first.ptx": f"// {chip}".encode()},
        facts=(FACTS,),
    )


def loaded(
    *arguments: tuple[ElementType, Array], formulas: Sequence[FormulaSpec | None] = ()
) -> Loaded:
    """A workload's arguments."""
    return Loaded(program=None, arguments=arguments, formulas=tuple(formulas))


def write(folder: Path, *programs: Built, **changes: Any) -> Bundle:
    """A bundle of the toy; `changes` are arguments of `bundle.make`."""
    fields: dict[str, Any] = {
        "entry": "forward",
        "loaded": loaded(("f32", INPUT), formulas=[for_input(0)]),
        "results": [("f32", SHAPE)],
        "golden": [2 * INPUT.astype(np.float64) + 1],
        "built": programs,
        "versions": {"mlir-opt": "22.1.8"},
    }
    files = subject.make(cell(**changes.pop("cell", {})), **{**fields, **changes})
    subject.write(folder, files)
    return records.decode(Bundle, json.loads(files["bundle.json"]))


def with_stored(folder: Path) -> Path:
    """A bundle of two chips whose second argument, of integers, is stored."""
    arguments = loaded(
        ("f32", INPUT), ("i64", np.arange(6).reshape(2, 3)), formulas=[for_input(0), None]
    )
    write(folder, *(built(folder.parent, chip) for chip in ("sm_90", "sm_80")), loaded=arguments)
    return folder


def archived(folder: Path) -> Path:
    """The archive of a bundle's folder, beside it."""
    path = folder.with_name(f"{folder.name}.bundle.zip")
    files = [file for file in folder.rglob("*") if file.is_file()]
    path.write_bytes(
        subject.zipped({f.relative_to(folder).as_posix(): f.read_bytes() for f in files})
    )
    return path


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    """Changes `bundle.json`."""
    path = folder / "bundle.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def replace(folder: Path, name: str, data: bytes) -> None:
    """Another file with the right size and digest, as somebody would bundle it on purpose."""
    (folder / name).write_bytes(data)

    def told(value: Any) -> None:
        digest = hashlib.sha256(data).hexdigest()
        value["files"][name] = {"size": len(data), "sha256": digest}

    edit(folder, told)
