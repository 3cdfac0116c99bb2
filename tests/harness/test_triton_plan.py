"""Plans of launches: how memory and numbers reach kernels, and what kernels must not touch."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu.runtime import Runtime
from orchestrator.harness.triton.device import launch_plan
from orchestrator.harness.triton.plan import (
    Kernel,
    Launch,
    Memory,
    Plan,
    Scalar,
    Scratch,
    View,
    disturbed,
    guarded,
    inside,
    read,
)

NO_SCRATCH = Scratch(block_bytes=0, alignment=1)
SIZE = 10
INPUT = np.arange(SIZE, dtype=np.float32)
POISON = np.full(4 * SIZE, 0xFF, np.uint8)


def view(buffer: int, offset: int = 0) -> View:
    """All of a vector of ten, or its end."""
    size = SIZE - offset // 4
    return View(buffer=buffer, offset=offset, shape=(size,), strides=(1,), element="f32")


MEMORY = Memory(
    buffers=(INPUT.view(np.uint8), POISON), inputs=frozenset({0}), outputs=(view(1), view(1, 8))
)


class Device:
    """A device of one thread, whose kernels are Python; in the place of `Runtime`."""

    def __init__(self, *kernels: Callable[..., None]) -> None:
        """Each kernel gets what is passed to it: addresses and numbers."""
        self.kernels = kernels
        self.buffers: list[Array] = []
        self.launches: list[dict[str, Any]] = []

    def buffer(self, array: Array) -> Array:
        """See `Runtime`."""
        self.buffers.append(guarded(array.view(np.uint8))[256 : 256 + array.nbytes])
        return self.buffers[-1]

    def free(self, *buffers: Array) -> None:
        """See `Runtime`."""
        for buffer in buffers:
            self.buffers = [other for other in self.buffers if other is not buffer]

    def clear(self) -> None:
        """See `Runtime`."""

    def kernel_ns(self) -> int:
        """See `Runtime`."""
        return 100 * len(self.launches)

    def live(self) -> int:
        """See `Runtime`."""
        return len(self.buffers)

    def describe(self) -> dict[str, str | int]:
        """See `Runtime`."""
        return {"device": "a list of functions"}

    def module(self, code: bytes) -> int:
        """See `Runtime`."""
        return int(code)

    def function(self, module: int, name: str) -> int:
        """See `Runtime`."""
        assert name == f"kernel_{module}"
        return module

    def launch(self, function: int, *, parameters: Sequence[Any], **how: Any) -> None:
        """See `Runtime`."""
        self.launches.append(how)
        self.kernels[function](*parameters)


def kernel(index: int, **more: Any) -> Kernel:
    """A kernel of a `Device`."""
    given = {"threads": 128, "shared_bytes": 0, "scratch": (NO_SCRATCH, NO_SCRATCH), **more}
    return Kernel(name=f"kernel_{index}", code=str(index).encode(), **given)


def plan(*launches: Launch, kernels: Sequence[Kernel] = (), memory: Memory = MEMORY) -> Plan:
    """A plan with one kernel, or these."""
    return Plan(kernels=tuple(kernels or [kernel(0)]), launches=launches, memory=memory)


def run(plan: Plan, *kernels: Callable[..., None]) -> tuple[list[Array], Device]:
    """What a plan computes on a device with these kernels."""
    device = Device(*kernels)
    return list(launch_plan(plan, cast("Runtime", device)).outputs), device


def floats(address: Any) -> Any:
    """Memory from an address on."""
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_float))


def doubled(source: Any, target: Any, *_: Any) -> None:
    """Writes twice the ten numbers."""
    for i in range(SIZE):
        floats(target)[i] = 2 * floats(source)[i]


ONCE = Launch(kernel=0, grid=(1, 1, 1), parameters=(view(0), view(1)))


def test_outputs_are_read_where_views_say() -> None:
    (whole, end), device = run(plan(ONCE), doubled)
    assert whole.tolist() == (2 * INPUT).tolist()
    assert end.tolist() == (2 * INPUT[2:]).tolist()
    assert device.buffers == []


def test_launches_run_in_order_with_their_own_sizes() -> None:
    order: list[int] = []
    kernels = [kernel(0), kernel(1, threads=256, shared_bytes=4096)]
    launches = [Launch(kernel=i, grid=(1, i + 1, 3), parameters=()) for i in (1, 0, 1)]
    _, device = run(
        plan(*launches, kernels=kernels), lambda *_: order.append(0), lambda *_: order.append(1)
    )
    assert order == [1, 0, 1]
    assert device.launches == [
        {"grid": (1, 2, 3), "block": (256, 1, 1), "shared_bytes": 4096},
        {"grid": (1, 1, 3), "block": (128, 1, 1), "shared_bytes": 0},
        {"grid": (1, 2, 3), "block": (256, 1, 1), "shared_bytes": 4096},
    ]


def test_a_tensor_is_passed_as_the_address_of_its_first_element() -> None:
    addresses: list[int] = []
    launch = Launch(kernel=0, grid=(1, 1, 1), parameters=(view(1), view(1, 8)))
    run(plan(launch), lambda first, second, *_: addresses.extend([first.value, second.value]))
    assert addresses[0] % 64 == 0
    assert addresses[1] - addresses[0] == 8


@pytest.mark.parametrize(
    ("kind", "value", "passed"),
    [
        ("i1", True, b"\1"),
        ("u1", False, b"\0"),
        ("i8", -2, b"\xfe"),
        ("i16", -2, b"\xfe\xff"),
        ("i32", -2, b"\xfe\xff\xff\xff"),
        ("i64", -2, b"\xfe" + 7 * b"\xff"),
        ("u8", 255, b"\xff"),
        ("u16", 65535, b"\xff\xff"),
        ("u32", 1 << 31, b"\0\0\0\x80"),
        ("u64", 1 << 63, 7 * b"\0" + b"\x80"),
        ("fp16", 1.5, b"\0\x3e"),
        ("bf16", 1.5, b"\xc0\x3f"),
        ("fp32", 1.5, b"\0\0\xc0\x3f"),
        ("f32", 2, b"\0\0\0\x40"),
        ("fp64", 1.5, 6 * b"\0" + b"\xf8\x3f"),
    ],
)
def test_a_number_is_passed_in_its_own_type(kind: str, value: float, passed: bytes) -> None:
    seen: list[bytes] = []
    launch = Launch(kernel=0, grid=(1, 1, 1), parameters=(Scalar(kind=kind, value=value),))
    run(plan(launch), lambda number, *_: seen.append(bytes(number)))
    assert seen == [passed]


def test_scratch_memory_comes_last_and_is_given_back() -> None:
    seen: list[Any] = []
    grid = (3, 2, 1)
    scratch = (Scratch(block_bytes=100, alignment=512), NO_SCRATCH)
    launch = Launch(kernel=0, grid=grid, parameters=(Scalar(kind="i32", value=7),))

    def note(number: Any, memory: Any, profile: Any) -> None:
        seen.extend([number.value, memory.value, profile.value])
        ctypes.memset(memory, 1, 100 * math.prod(grid))  # all of it is ours

    _, device = run(plan(launch, kernels=[kernel(0, scratch=scratch)]), note)
    assert seen[0] == 7
    assert seen[1] % 512 == 0
    assert seen[2] is None
    assert device.buffers == []


def write(value: float, *places: int) -> Callable[..., None]:
    """A kernel that writes at these places of the output."""

    def kernel(source: Any, target: Any, *_: Any) -> None:
        del source
        for place in places:
            floats(target)[place] = value

    return kernel


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (write(1.0, 0, SIZE), "memory after output 0 was written"),
        (write(1.0, -1), "memory before output 0 was written"),
        (lambda source, *_: write(1.0, 3)(None, source), "an input of 40 bytes was overwritten"),
    ],
)
def test_what_a_kernel_must_not_write(kernel: Callable[..., None], message: str) -> None:
    with pytest.raises(CompilerFault, match=message):
        run(plan(ONCE), kernel)


def test_an_output_that_nobody_writes_is_as_it_was() -> None:
    (whole, _), _ = run(plan(ONCE), write(1.0, 4))
    assert np.isnan(whole).tolist() == [i != 4 for i in range(SIZE)]


def test_guards_surround_a_buffer_at_an_aligned_address() -> None:
    contents = np.arange(7, dtype=np.uint8)
    whole = guarded(contents)
    part = inside(whole, contents)
    assert part.tolist() == contents.tolist()
    assert whole.ctypes.data % 64 == part.ctypes.data % 64 == 0
    assert part.ctypes.data - whole.ctypes.data >= 64
    end = part.ctypes.data + part.nbytes
    assert whole.ctypes.data + whole.nbytes - end >= 64
    memory = Memory(buffers=(contents,), inputs=frozenset(), outputs=())
    assert disturbed(memory, [whole]) == ""
    whole[-1] = 0
    assert disturbed(memory, [whole]) == "memory after a buffer of 7 bytes was written"


@pytest.mark.parametrize(
    ("shape", "strides", "wanted"),
    [
        ((2, 3), (1, 2), [[1, 3, 5], [2, 4, 6]]),
        ((3,), (0,), [1, 1, 1]),
        ((), (), 1),
        ((2, 0), (1, 1), [[], []]),
    ],
)
def test_a_view_is_read_in_its_own_order(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: Any
) -> None:
    buffer = np.arange(8, dtype=np.uint16).view(np.uint8)
    found = read(View(buffer=0, offset=2, shape=shape, strides=strides, element="bf16"), buffer)
    assert found.dtype == np.uint16
    assert found.tolist() == wanted
    assert found.flags.c_contiguous
