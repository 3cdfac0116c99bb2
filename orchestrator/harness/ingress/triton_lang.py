"""Triton: kernels and the host code that launches them, compiled without a GPU or interpreted.

A process imports Triton once, either to compile or to interpret: it is decided there whether
`triton.jit` makes kernels or functions of NumPy, in Triton's own library as well. So it is left to
each cell; only what takes long and is the same for both is loaded before.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness import tensors
from orchestrator.harness.blame import Blamed, CompilerFault, DefinitionFault
from orchestrator.harness.elements import FLOATS, Array, to_float64
from orchestrator.harness.ingress.base import (
    CompiledProgram,
    Loaded,
    Port,
    Reference,
    import_workload,
)
from orchestrator.harness.triton import compiling
from orchestrator.harness.triton.plan import Plan, disturbed, guarded, inside, read
from orchestrator.harness.triton.recording import Recording, record
from orchestrator.job import Cell, Target

NEEDS = ("launch", "get_inputs", "reference")
"""What a workload must define."""
DRIVERS = compiling.DRIVERS
_SEED = 20_240_229


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a workload launches, and what it says that the outputs should be."""

    file: str
    recording: Recording
    reference: Callable[..., Any]


def warm_up() -> None:
    """Imports torch and maps Triton's compiler, which is most of what importing Triton takes."""
    import torch

    torch.set_num_threads(1)  # threads would not survive a fork
    spec = importlib.util.find_spec("triton")
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in Path(folder, "_C").glob("libtriton*.so"):
            ctypes.CDLL(str(library))
    if spec is None:
        raise ModuleNotFoundError("No module named 'triton'", name="triton")


def versions() -> Mapping[str, str]:
    """Of the frontend."""
    return {name: version(name) for name in ("triton", "torch", "numpy")}


def frontend_opt() -> Path | None:
    """None: its passes are no tool's."""
    return None


def load(cell: Cell, folder: Path) -> Loaded:
    """Makes the inputs, by formula when the cell asks for it, and notes what is launched on them.

    For targets that are all of other drivers than `DRIVERS`, Triton interprets in this process.
    """
    import torch

    _import_triton(interpreted=not any(target.driver in DRIVERS for target in cell.targets))
    module = import_workload(cell.workload, folder, NEEDS)
    _refuse_tuning(module, cell.workload.file)
    torch.manual_seed(_SEED)
    inputs = list(module.get_inputs())
    for position, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            raise DefinitionFault(
                f"{cell.workload.file}: input {position} is {type(value).__name__}, not a tensor"
            )
    signed = cell.workload.inputs == "signed"
    formulas = [tensors.input_formula(i, v) if signed else None for i, v in enumerate(inputs)]
    inputs = [
        tensors.cast(tensors.filled(value, spec), cell.variant)
        for value, spec in zip(inputs, formulas, strict=True)
    ]
    recording = record(module.launch, inputs, cell.workload.file)
    program = Program(file=cell.workload.file, recording=recording, reference=module.reference)
    return Loaded(
        program=program,
        arguments=tuple(tensors.bits(tensor) for tensor in inputs),
        formulas=tuple(formulas),
    )


def reference(loaded: Loaded) -> Reference:
    """The workload's own, in NumPy, on the very same numbers in float64."""
    program: Program = loaded.program
    wide = [
        to_float64(array, element) if element in FLOATS else array
        for element, array in loaded.arguments
    ]
    returned = program.reference(*wide)
    outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
    arrays = []
    for position, output in enumerate(outputs):
        array = np.asarray(output)
        if array.dtype.kind == "f" and array.dtype != np.float64:
            raise DefinitionFault(
                f"{program.file}: `reference` computes output {position} in {array.dtype.name}"
            )
        arrays.append(array)
    return Reference(outputs=tuple(arrays), source="numpy@f64")


def results(loaded: Loaded) -> tuple[Port, ...]:
    """Types of the outputs, as the workload's host code allocates them."""
    program: Program = loaded.program
    return tuple(
        Port(element=view.element, shape=view.shape) for view in program.recording.memory.outputs
    )


def compile_for(
    cell: Cell,
    loaded: Loaded,
    target: Target,
    stage: Callable[[str], None],
    keep: Callable[[str, bytes], None],
) -> CompiledProgram:
    """TTIR, TTGIR, LLVM IR, then PTX and a cubin, or AMDGCN and HSACO, of each kernel launched."""
    program: Program = loaded.program
    made = compiling.compile_calls(program.recording, cell.workload.name, target, stage, keep)
    return CompiledProgram(target=target, texts=made.texts, facts=made.facts, program=made.plan)


def interpret(cell: Cell, loaded: Loaded) -> list[Array]:
    """Runs each launch, a block after the other, in Triton's interpreter."""
    del cell  # all of it went into what was loaded
    program: Program = loaded.program
    memory = program.recording.memory
    wholes = [guarded(contents) for contents in memory.buffers]
    buffers = [inside(w, contents) for w, contents in zip(wholes, memory.buffers, strict=True)]
    for call in program.recording.calls:
        try:
            call.kernel[call.grid](**call.with_tensors(buffers), **call.options)
        except (Blamed, MemoryError):
            raise
        except Exception as error:
            reason = _reason(error, program.file)
            raise CompilerFault(f"{call.kernel.__name__}: {reason}") from error
    if wrong := disturbed(memory, wholes):
        raise DefinitionFault(f"{program.file}: {wrong}")
    return [read(view, buffers[view.buffer]) for view in memory.outputs]


def plan(program: CompiledProgram) -> Plan:
    """The launches of what was compiled, in order, and the memory that they work on."""
    found: Plan = program.program
    return found


def _reason(error: BaseException, file: str) -> str:
    """What first went wrong in the interpreter, and at which of the workload's lines."""
    while error.__cause__ is not None:
        error = error.__cause__
    name = Path(file).name
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == name]
    place = f"{name}:{lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _import_triton(*, interpreted: bool) -> None:
    """Imports Triton in one of its modes, whatever the user's environment says of it."""
    for name in [name for name in os.environ if name.startswith("TRITON_")]:
        del os.environ[name]
    os.environ["TRITON_INTERPRET"] = "1" if interpreted else "0"
    os.environ["TRITON_CACHE_DIR"] = str(_cache())
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # its default, which it warns of when not told
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # else code differs with the job's folder
    from triton import language
    from triton.runtime.interpreter import InterpretedFunction

    if isinstance(language.cdiv, InterpretedFunction) != interpreted:
        raise RuntimeError("this process has imported Triton in its other mode")


@cache
def _cache() -> Path:
    """Where Triton keeps what it compiled: in a cell's scratch folder, else until we end."""
    folder = tempfile.mkdtemp(prefix="triton-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _refuse_tuning(module: Any, file: str) -> None:
    from triton.runtime.autotuner import Autotuner

    for name, value in vars(module).items():
        if isinstance(value, Autotuner) and len(value.configs) > 1:
            raise DefinitionFault(
                f"{file}: {name} is tuned by measuring on a device, and the result would not be "
                "the same everywhere. Leave it one configuration"
            )
