"""Plans launched on a GPU, through the runtime that finds its driver. No Triton is needed."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu.execute import Executed, refuse_left
from orchestrator.harness.gpu.runtime import Runtime
from orchestrator.harness.triton.plan import (
    Launch,
    Plan,
    Scalar,
    View,
    disturbed,
    guarded,
    inside,
    read,
)

Parameter: TypeAlias = "ctypes._SimpleCData[Any]"  # noqa: SLF001  any number of ctypes


def _half(value: float) -> Parameter:
    return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))


def _bfloat(value: float) -> Parameter:
    from orchestrator.harness.elements import rounded

    return ctypes.c_uint16(int(rounded(np.array([value]), ["f32", "bf16"])[0]))


_PASSED: Mapping[str, Callable[[Any], Parameter]] = {
    "i1": ctypes.c_int8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp16": _half,
    "bf16": _bfloat,
    "fp32": ctypes.c_float,
    "f32": ctypes.c_float,
    "fp64": ctypes.c_double,
}
"""How numbers are passed: the extractors of Triton's `backends/nvidia/driver.c`."""


KINDS = frozenset(_PASSED)
"""Of numbers that can be passed."""


def launch_plan(plan: Plan, runtime: Runtime, *, repeat: int = 1) -> Executed:
    """Runs a program, whose launches run one after the other, on fresh copies of its memory.

    Args:
        plan: the program.
        runtime: a driver that is bound.
        repeat: how often to run it; the later ones are for their times.

    Raises:
        CompilerFault: the driver refused a kernel or its launch, or a kernel wrote where it must
            not.
        MachineFault: the driver or the device let us down.
    """
    modules = [runtime.module(kernel.code) for kernel in plan.kernels]
    functions = [
        runtime.function(module, kernel.name)
        for module, kernel in zip(modules, plan.kernels, strict=True)
    ]
    outputs: list[Array] = []
    kernel_ns = []
    for _ in range(repeat):
        runtime.clear()
        found = _run(plan, functions, runtime)
        kernel_ns.append(runtime.kernel_ns())
        outputs = outputs or found
    refuse_left(runtime)
    return Executed(
        outputs=tuple(outputs), device=dict(runtime.describe()), kernel_ns=tuple(kernel_ns)
    )


def _run(plan: Plan, functions: Sequence[int], runtime: Runtime) -> list[Array]:
    memory = plan.memory
    wholes = [runtime.buffer(guarded(contents)) for contents in memory.buffers]
    buffers = [inside(w, contents) for w, contents in zip(wholes, memory.buffers, strict=True)]
    for launch in plan.launches:
        _launch(plan, launch, functions[launch.kernel], buffers, runtime)
    if wrong := disturbed(memory, wholes):
        raise CompilerFault(wrong)
    outputs = [read(view, buffers[view.buffer]) for view in memory.outputs]
    runtime.free(*wholes)
    return outputs


def _launch(
    plan: Plan, launch: Launch, function: int, buffers: Sequence[Array], runtime: Runtime
) -> None:
    """Parameters in the kernel's order, then global scratch memory, then the profiler's."""
    kernel = plan.kernels[launch.kernel]
    parameters = [_passed(parameter, buffers) for parameter in launch.parameters]
    with contextlib.ExitStack() as given_back:
        for scratch in kernel.scratch:
            address = None
            if size := scratch.block_bytes * math.prod(launch.grid):
                block = runtime.buffer(np.zeros(size + scratch.alignment, np.uint8))
                given_back.callback(runtime.free, block)
                address = block.ctypes.data + -block.ctypes.data % scratch.alignment
            parameters.append(ctypes.c_void_p(address))
        runtime.launch(
            function,
            grid=launch.grid,
            block=(kernel.threads, 1, 1),
            parameters=parameters,
            shared_bytes=kernel.shared_bytes,
        )


def _passed(parameter: View | Scalar, buffers: Sequence[Array]) -> Parameter:
    if isinstance(parameter, View):
        return ctypes.c_void_p(buffers[parameter.buffer].ctypes.data + parameter.offset)
    return _PASSED[parameter.kind](parameter.value)
