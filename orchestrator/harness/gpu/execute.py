"""Host code and kernels in one shared object, called on a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.elements import Array, ElementType, poison
from orchestrator.harness.gpu import runtime as runtimes
from orchestrator.harness.gpu.runtime import Runtime
from orchestrator.harness.judge import Result
from orchestrator.harness.toolchains.base import refuse_overwritten


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What a program computed, on which device, and how long its kernels took."""

    outputs: tuple[Array, ...]
    """Of the first call, in storage types."""
    device: Mapping[str, str | int]
    """As `Runtime.describe` tells it."""
    kernel_ns: tuple[int, ...]
    """Nanoseconds on the device, for each call; 0 where the driver does not tell."""


def execute(
    library: Path,
    entry: str,
    arguments: Sequence[tuple[ElementType, Array]],
    results: Sequence[Result],
) -> Executed:
    """Loads a program, calls it once and unloads it. See `run`.

    Args:
        library: host code, its runtime, and kernels.
        entry: the function to call.
        arguments: of the function, in storage types.
        results: element type and shape of each output.
    """
    with loaded(library) as runtime:
        return run(runtime, entry, arguments, results)


@contextlib.contextmanager
def loaded(library: Path) -> Iterator[Runtime]:
    """A program whose kernels the driver took; it is unloaded unless something is raised.

    What is raised ends the process soon: a driver that broke may crash or hang when it cleans up.

    Raises:
        CompilerFault: the driver refused the code.
        MachineFault: there is no driver or no device for it.
    """
    runtime = runtimes.load(library)
    yield runtime
    runtime.unload()


def run(
    runtime: Runtime,
    entry: str,
    arguments: Sequence[tuple[ElementType, Array]],
    results: Sequence[Result],
    *,
    repeat: int = 1,
) -> Executed:
    """Calls a loaded program, all of its arguments in memory that host and device reach.

    Outputs start as all-ones bits. The later ones of `repeat` calls are for their times, and find
    the outputs of the call before.

    Raises:
        CompilerFault: the code is at fault, wrote to its inputs, or did not give back what it
            allocated.
        MachineFault: the driver or the device is at fault.
    """
    originals = [array for _, array in arguments]
    inputs = [runtime.buffer(array) for array in originals]
    targets = [runtime.buffer(poison(shape, element)) for element, shape in results]
    kernel_ns = []
    outputs: tuple[Array, ...] = ()
    for _ in range(repeat):
        runtime.clear()
        runtime.call(entry, [*inputs, *targets])
        kernel_ns.append(runtime.kernel_ns())
        outputs = outputs or tuple(np.array(view) for view in targets)
    refuse_overwritten(inputs, originals)
    runtime.free(*inputs, *targets)
    refuse_left(runtime)
    return Executed(outputs=outputs, device=dict(runtime.describe()), kernel_ns=tuple(kernel_ns))


def refuse_left(runtime: Runtime) -> None:
    """Raises `CompilerFault` when a program has kept something of the device's."""
    if left := runtime.live():
        raise CompilerFault(
            f"the program did not give back what it took from the device: {left} allocations, "
            "streams or events are left"
        )
