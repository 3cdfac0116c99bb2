"""One cell from ingress to verdict, in a process of its own.

What happens here is told to the supervisor by marks on a pipe, so that a stage that takes the
process down has a name.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orchestrator.compare.numeric import explain
from orchestrator.harness import formula
from orchestrator.harness.arrays import npz, read_given, read_golden
from orchestrator.harness.blame import Blamed, DefinitionFault
from orchestrator.harness.context import Context, Stage
from orchestrator.harness.gpu.own import compiled
from orchestrator.harness.ingress.base import (
    Array,
    Loaded,
    Reference,
    own_compiler,
)
from orchestrator.harness.judge import judge
from orchestrator.harness.lowered import lowered
from orchestrator.job import Cell, Outcome


def run(cell: Cell, context: Context) -> Outcome:
    """All stages of a cell. Whatever is raised becomes the outcome's message."""
    stage = Stage(context)
    try:
        return _run(cell, context, stage)
    except BaseException as error:  # noqa: BLE001  a workload may raise anything, SystemExit too
        return _unexpected(error, cell, stage)


def record(cell: Cell, context: Context) -> Outcome:
    """The framework's own outputs, kept as `golden.npz` and `golden.json`."""
    stage = Stage(context)
    try:
        loaded = _load(cell, context, stage)
        reference = _reference(cell, context, loaded)
    except BaseException as error:  # noqa: BLE001  as in `run`
        return _unexpected(error, cell, stage)
    digest = _inputs_digest(loaded)
    context.keep("golden.npz", npz({f"output_{i}": a for i, a in enumerate(reference.outputs)}))
    about = {"source": reference.source, "inputs_sha256": digest}
    context.keep("golden.json", json.dumps(about).encode())
    return Outcome(status="pass", inputs_sha256=digest)


def _unexpected(error: BaseException, cell: Cell, stage: Stage) -> Outcome:
    """The outcome of whatever ended a cell: a finding, an exception of a layer, a full disk."""
    if isinstance(error, Blamed):
        return Outcome(status=error.status, phase=stage.name, message=error.message)
    traceback.print_exc()
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Outcome(status="miss", phase=stage.name, message="no space left on the device")
    if isinstance(error, MemoryError):
        return Outcome(status=stage.blame, phase=stage.name, message=out_of_memory(cell))
    # what compilers raise is wrapped where they are called: this is the workload or ourselves
    return Outcome(status="error", phase=stage.name, message=_raised(error, cell))


def out_of_memory(cell: Cell) -> str:
    """What to say of a cell that met its memory limit."""
    return f"out of memory (limit {cell.memory_bytes / 2**30:g} GiB)"


def _run(cell: Cell, context: Context, stage: Stage) -> Outcome:
    loaded = _load(cell, context, stage)
    digest = _inputs_digest(loaded)
    golden = _golden(cell, context, loaded, digest)
    compiler = own_compiler(context.ingress)
    if compiler is None:
        made = lowered(cell, stage, loaded, golden)
    else:
        made = compiled(cell, stage, loaded, golden, compiler)
    outcome = Outcome(
        status="pass",
        kernels=made.kernels,
        device=made.device,
        kernel_ns=made.kernel_ns,
        golden="recorded" if cell.golden else "computed",
        inputs_sha256=digest,
    )
    if made.outputs is None:
        return outcome
    _keep_arrays(context, loaded, made.outputs, golden)
    stage.enter("compare", "error")
    elements = [port.element for port in made.results]
    errors = judge(elements, made.outputs, golden, cell.tolerance)
    wrong = [text for error in errors if (text := explain(error))]
    return dataclasses.replace(
        outcome,
        status="fail" if wrong else "pass",
        phase="compare" if wrong else "",
        message="\n".join(wrong),
        errors=errors,
    )


def _keep_arrays(
    context: Context, loaded: Loaded, outputs: Sequence[Array], golden: Sequence[Array]
) -> None:
    inputs = [array for _, array in loaded.arguments]
    for name, part, arrays in (
        ("inputs.npz", "argument", inputs),
        ("outputs.npz", "output", outputs),
        ("golden.npz", "output", golden),
    ):
        context.keep(name, npz({f"{part}_{i}": array for i, array in enumerate(arrays)}))


def _load(cell: Cell, context: Context, stage: Stage) -> Loaded:
    stage.enter("ingress", "error")
    read_given(context.folder, cell.workload.file, cell.workload.sha256)
    return context.ingress.load(cell, context.folder)


def _inputs_digest(loaded: Loaded) -> str:
    return formula.digest(array for _, array in loaded.arguments)


def _golden(cell: Cell, context: Context, loaded: Loaded, digest: str) -> Sequence[Array]:
    if cell.golden is None:
        return _reference(cell, context, loaded).outputs
    if digest != cell.golden.inputs_sha256:
        raise DefinitionFault(
            f"the golden was recorded from other inputs ({cell.golden.inputs_sha256[:12]}, now "
            f"{digest[:12]}). Record it again: lh-ci golden update {cell.workload.name}"
        )
    return read_golden(context.folder, cell.golden)


def _reference(cell: Cell, context: Context, loaded: Loaded) -> Reference:
    reference = context.ingress.reference(loaded)
    if not reference.outputs:
        raise DefinitionFault(f"{cell.workload.file}: the workload returns no tensor")
    for position, output in enumerate(reference.outputs):
        if output.dtype.kind == "f" and np.isnan(output).any():
            count = int(np.isnan(output).sum())
            raise DefinitionFault(
                f"{cell.workload.file}: output {position} is NaN in {count:,} of "
                f"{output.size:,} elements when the framework itself computes it"
            )
    return reference


def _raised(error: BaseException, cell: Cell) -> str:
    """What was raised and, when it was raised in the workload's file, where."""
    text = str(error).strip()
    if re.search(r"can't allocate memory|not enough memory|bad_alloc", text):
        return out_of_memory(cell)
    name = Path(cell.workload.file).name
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == name
    ]
    place = f"{name}:{lines[-1]}: " if lines else ""
    head = "\n".join(text.splitlines()[:3])
    return f"{place}{type(error).__name__}{': ' if head else ''}{head}"
