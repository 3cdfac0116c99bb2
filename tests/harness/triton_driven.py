"""A Triton program launched through a runtime, in a process of its own.

`python -m tests.harness.triton_driven WORKLOAD CHIP RUNTIME` prints one JSON object. For a driver
that takes no cubin the PTX is launched that it was made of.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness.blame import Blamed
from orchestrator.harness.gpu.runtime import load
from orchestrator.harness.ingress import triton_lang
from orchestrator.harness.ingress.base import CompiledProgram
from orchestrator.harness.triton.device import launch_plan
from orchestrator.job import Cell, Target, Workload


def main() -> None:
    """See the module."""
    path, chip, library = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    target = Target(driver="cuda" if chip.startswith("sm_") else "hip", chip=chip)
    cell = Cell(
        id="cell",
        pipeline="triton",
        workload=Workload(name=path.stem, file=path.name, sha256=""),
        variant="f32",
        pool="any",
        ingress="triton_lang",
        targets=(target,),
    )
    triton_lang.warm_up()
    loaded = triton_lang.load(cell, path.parent)
    program = triton_lang.compile_for(
        cell, loaded, target, lambda _name: None, lambda _name, _data: None
    )
    said: dict[str, Any] = {
        "shared": [kernel.shared_bytes for kernel in program.program.kernels],
        "scratch": [kernel.scratch[0].block_bytes for kernel in program.program.kernels],
    }
    try:
        runtime = load(library)
        outputs = launch_plan(triton_lang.plan(_with_ptx(program)), runtime).outputs
        said["written"] = [int(np.count_nonzero(~np.isnan(output))) for output in outputs]
        said |= {"live": runtime.live(), "modules": runtime.modules()}
        runtime.unload()
    except Blamed as fault:
        said |= {"fault": type(fault).__name__, "message": fault.message}
    print(json.dumps(said))


def _with_ptx(program: CompiledProgram) -> CompiledProgram:
    texts = [data for name, data in program.texts.items() if name.endswith(".ptx")]
    if not texts:
        return program
    kernels = tuple(
        dataclasses.replace(kernel, code=text)
        for kernel, text in zip(program.program.kernels, texts, strict=True)
    )
    return dataclasses.replace(
        program, program=dataclasses.replace(program.program, kernels=kernels)
    )


if __name__ == "__main__":
    main()
