"""Programs of kernels alone in a bundle: the runner itself launches them, by a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.harness.elements import Array, storage
from orchestrator.harness.triton.device import KINDS
from orchestrator.harness.triton.plan import Kernel, Launch, Memory, Plan, Scalar, Scratch, View

_FILLS = (0x00, 0xFF)
"""Bytes that all of a buffer may be, so that it need not be stored."""
_MOST_THREADS = 1024
_MOST_BLOCKS = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class BundledKernel:
    """A kernel, its code in a file of the bundle."""

    name: str
    """Its symbol."""
    file: str
    threads: int
    """In a block, all along x."""
    shared_bytes: int
    """Dynamic, for each block."""
    scratch: tuple[Scratch, ...]


@dataclass(frozen=True, kw_only=True)
class BundledBuffer:
    """Memory as it is before the first launch: an argument's bytes, or one byte all over.

    Where neither is said, `buffer_<position>` of `buffers.npz`.
    """

    size: int
    """Bytes."""
    argument: int | None = None
    fill: int | None = None

    @property
    def stored(self) -> bool:
        """Whether its bytes are in `buffers.npz`."""
        return self.argument is None and self.fill is None


@dataclass(frozen=True, kw_only=True)
class BundledLaunches:
    """A chip's kernels, and what is launched one after the other."""

    kernels: tuple[BundledKernel, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True, kw_only=True)
class BundledProgram:
    """A program of kernels alone."""

    buffers: tuple[BundledBuffer, ...]
    inputs: tuple[int, ...]
    """Buffers that must come back as they were."""
    outputs: tuple[View, ...]
    chips: Mapping[str, BundledLaunches]


def bundled(
    plans: Mapping[str, Plan], code: Mapping[str, Mapping[str, bytes]], arguments: Sequence[Array]
) -> tuple[BundledProgram, dict[str, Array]]:
    """A program as a bundle has it, and the buffers that are to be stored: name to bytes.

    Args:
        plans: for each chip, on the same memory.
        code: for each chip, files of a bundle, those of its kernels among them.
        arguments: that the bundle has anyway.
    """
    memory = next(iter(plans.values())).memory
    buffers = tuple(_buffer(contents, arguments) for contents in memory.buffers)
    program = BundledProgram(
        buffers=buffers,
        inputs=tuple(sorted(memory.inputs)),
        outputs=memory.outputs,
        chips={chip: _launches(plan, code[chip]) for chip, plan in plans.items()},
    )
    stored = {f"buffer_{i}": memory.buffers[i] for i, each in enumerate(buffers) if each.stored}
    return program, stored


def plan(
    program: BundledProgram,
    chip: str,
    read: Callable[[str], bytes],
    arguments: Sequence[Array],
    stored: Mapping[str, Array],
) -> Plan:
    """The plan for a chip; `read` gives a file of the bundle, `stored` is `buffers.npz`."""
    found = program.chips[chip]
    return Plan(
        kernels=tuple(
            Kernel(
                name=each.name,
                code=read(each.file),
                threads=each.threads,
                shared_bytes=each.shared_bytes,
                scratch=each.scratch,
            )
            for each in found.kernels
        ),
        launches=found.launches,
        memory=Memory(
            buffers=tuple(
                _contents(i, each, arguments, stored) for i, each in enumerate(program.buffers)
            ),
            inputs=frozenset(program.inputs),
            outputs=program.outputs,
        ),
    )


def problems(
    program: BundledProgram,
    chips: Mapping[str, object],
    files: Mapping[str, object],
    sizes: Sequence[int],
) -> Iterator[str]:
    """What is wrong with a program, in words; `sizes`: of the bundle's arguments, in bytes."""
    if set(program.chips) != set(chips):
        yield "its launches are for other chips than its code"
    for position, buffer in enumerate(program.buffers):
        if not _is_good(buffer, sizes):
            yield f"buffer {position} is no memory that there is"
    room = [buffer.size for buffer in program.buffers]
    if any(not 0 <= i < len(room) for i in program.inputs):
        yield "an input that is no buffer"
    if any(not _lies_in(view, room) for view in program.outputs):
        yield "an output outside of its buffer"
    for chip, found in program.chips.items():
        yield from (f"{chip}: {what}" for what in _wrong_launches(found, files, room))


def _buffer(contents: Array, arguments: Sequence[Array]) -> BundledBuffer:
    data = contents.tobytes()
    for position, array in enumerate(arguments):
        if array.tobytes() == data:
            return BundledBuffer(size=len(data), argument=position)
    fill = next((byte for byte in _FILLS if (contents == byte).all()), None)
    return BundledBuffer(size=len(data), fill=fill)


def _contents(
    position: int, buffer: BundledBuffer, arguments: Sequence[Array], stored: Mapping[str, Array]
) -> Array:
    if buffer.argument is not None:
        return np.frombuffer(arguments[buffer.argument].tobytes(), np.uint8)
    if buffer.fill is not None:
        return np.full(buffer.size, buffer.fill, np.uint8)
    return stored[f"buffer_{position}"]


def _launches(plan: Plan, files: Mapping[str, bytes]) -> BundledLaunches:
    names = {data: name for name, data in files.items()}
    kernels = tuple(
        BundledKernel(
            name=each.name,
            file=names[each.code],
            threads=each.threads,
            shared_bytes=each.shared_bytes,
            scratch=each.scratch,
        )
        for each in plan.kernels
    )
    return BundledLaunches(kernels=kernels, launches=tuple(map(_plain, plan.launches)))


def _plain(launch: Launch) -> Launch:
    """The same with truth values as numbers: JSON's are no numbers."""
    return replace(launch, parameters=tuple(map(_number, launch.parameters)))


def _number(parameter: View | Scalar) -> View | Scalar:
    if isinstance(parameter, Scalar) and isinstance(parameter.value, bool):
        return replace(parameter, value=int(parameter.value))
    return parameter


# --- what may come from anywhere --------------------------------------------------------------


def _is_good(buffer: BundledBuffer, sizes: Sequence[int]) -> bool:
    if buffer.size < 0:
        return False
    if buffer.argument is not None:
        known = 0 <= buffer.argument < len(sizes)
        return known and buffer.fill is None and sizes[buffer.argument] == buffer.size
    return buffer.fill is None or 0 <= buffer.fill <= 0xFF


def _lies_in(view: View, room: Sequence[int]) -> bool:
    if not 0 <= view.buffer < len(room) or len(view.shape) != len(view.strides):
        return False
    if min((view.offset, *view.shape, *view.strides)) < 0:
        return False
    if 0 in view.shape:
        return True
    last = sum((n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True))
    size = storage(view.element).itemsize
    return view.offset + (last + 1) * size <= room[view.buffer]


def _wrong_launches(
    found: BundledLaunches, files: Mapping[str, object], room: Sequence[int]
) -> Iterator[str]:
    for kernel in found.kernels:
        if kernel.file not in files:
            yield f"{kernel.file!r:.80} is not among its files"
        numbers = [kernel.shared_bytes, *(s.block_bytes for s in kernel.scratch)]
        if min(numbers) < 0 or any(s.alignment < 1 for s in kernel.scratch):
            yield f"kernel {kernel.name!r:.80} wants memory of no size"
        if not 1 <= kernel.threads <= _MOST_THREADS:
            yield f"kernel {kernel.name!r:.80} has blocks of {kernel.threads} threads"
    for position, launch in enumerate(found.launches):
        if not _can_be_launched(launch, len(found.kernels), room):
            yield f"launch {position} is of no kernel, on no grid, or of nothing that can be passed"


def _can_be_launched(launch: Launch, kernels: int, room: Sequence[int]) -> bool:
    if not 0 <= launch.kernel < kernels or len(launch.grid) != 3:
        return False
    if min(launch.grid) < 0 or math.prod(launch.grid) > _MOST_BLOCKS:
        return False
    return all(
        _lies_in(each, room) if isinstance(each, View) else each.kind in KINDS
        for each in launch.parameters
    )
