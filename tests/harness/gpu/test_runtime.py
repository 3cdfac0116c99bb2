"""The Python side of a loaded shim: whose fault an error is, buffers, what is refused."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from orchestrator.harness.blame import Blamed, CompilerFault, MachineFault
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu import runtime as subject
from orchestrator.harness.gpu.runtime import ALIGNMENT, Runtime
from orchestrator.job import Driver


class Library:
    """Stands in for a loaded shared object; its memory is a NumPy array's."""

    def __init__(self, error: bytes = b"") -> None:
        self.error = error
        self.memory = np.zeros(4096 + ALIGNMENT, np.uint8)
        start = self.memory.ctypes.data
        self.address = start + -start % ALIGNMENT
        self.asked: list[tuple[int, int]] = []
        self.freed: list[int] = []
        self.called: list[tuple[Any, ...]] = []

    def lh_gpu_error(self) -> bytes:
        return self.error

    def lh_gpu_clear(self) -> None:
        self.error = b""

    def lh_gpu_describe(self) -> bytes:
        return b'{"driver":"cuda","memory_bytes":85}'

    def lh_gpu_kernel_ns(self) -> int:
        self.error = self.error or b"device: lost"
        return 7

    def mgpuModuleLoad(self, *arguments: Any) -> int:  # noqa: N802  C's name
        self.called.append(("binary", *arguments))
        return 5

    def mgpuModuleLoadJIT(self, *arguments: Any) -> int:  # noqa: N802  C's name
        self.called.append(("text", *arguments))
        return 6

    def _mlir_memref_to_llvm_aligned_alloc(self, alignment: int, size: int) -> int:
        self.asked.append((alignment, size))
        return self.address

    def _mlir_memref_to_llvm_free(self, address: int) -> None:
        self.freed.append(address)


def made(library: Library) -> Runtime:
    """A runtime on it."""
    stand_in: Any = library
    return Runtime(stand_in)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (b"program: cuX: BAD (1)", CompilerFault, "copying: cuX: BAD (1)"),
        (b"memory: cuX: FULL (2)", CompilerFault, "copying: out of device memory: cuX: FULL (2)"),
        (b"driver: no libcuda", MachineFault, "copying: no libcuda"),
        (b"device: a: b: \xff", MachineFault, "copying: a: b: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_an_error_blames_who_is_at_fault(error: bytes, kind: type[Blamed], message: str) -> None:
    runtime = made(Library(error))
    for _ in range(2):
        with pytest.raises(Blamed) as caught:
            runtime.check("copying")
        assert type(caught.value) is kind
        assert caught.value.message == message
    runtime.clear()
    runtime.check("copying")


def test_an_error_that_timing_meets_is_told() -> None:
    with pytest.raises(MachineFault, match=r"^timing: lost$"):
        made(Library()).kernel_ns()


def test_what_was_bound_is_a_mapping() -> None:
    assert made(Library()).describe() == {"driver": "cuda", "memory_bytes": 85}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
        np.array(2.5, np.float16),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
        np.arange(8, dtype=np.float64)[::-2],
    ],
    ids=["transposed", "scalar", "empty", "bool", "backwards"],
)
def test_a_buffer_is_a_contiguous_copy_in_the_devices_memory(array: Array) -> None:
    library = Library()
    view = made(library).buffer(array)
    assert library.asked == [(ALIGNMENT, array.nbytes)]
    assert view.ctypes.data == library.address
    assert view.flags.c_contiguous
    assert view.dtype == array.dtype
    assert view.shape == array.shape
    assert np.array_equal(view, array)
    view[...] = 1
    start = library.address - library.memory.ctypes.data
    assert library.memory[start : start + array.nbytes].tobytes() == view.tobytes()
    made(library).free(view)
    assert library.freed == [library.address]


def test_no_buffer_is_made_of_memory_that_is_not_there() -> None:
    library = Library(b"memory: full")
    library.address = 0
    with pytest.raises(CompilerFault, match=r"^allocating 4,000 bytes: out of device memory: full"):
        made(library).buffer(np.zeros(1000, np.float32))


@pytest.mark.parametrize(
    ("code", "handle", "called"),
    [
        (b"\x7fELF\0\1", 5, ("binary", b"\x7fELF\0\1", 6)),
        (b"\x03\x02\x23\x07\0\0\1\0", 5, ("binary", b"\x03\x02\x23\x07\0\0\1\0", 8)),
        (b"// PTX\n.version 8.0", 6, ("text", b"// PTX\n.version 8.0", 3)),
    ],
)
def test_code_is_told_from_text(code: bytes, handle: int, called: tuple[Any, ...]) -> None:
    library = Library()
    assert made(library).module(code) == handle
    assert library.called == [called]


def test_a_function_that_is_not_there_is_named() -> None:
    with pytest.raises(CompilerFault, match="the host code has no _mlir_ciface_forward"):
        made(Library()).call("forward", [])


def test_a_file_that_is_no_shared_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.so"
    path.write_text("no ELF")
    with pytest.raises(CompilerFault, match=r"the compiled host code cannot be loaded: .*host\.so"):
        subject.load(path)


def test_a_shared_object_without_a_shim_is_refused() -> None:
    with pytest.raises(CompilerFault, match=r"has no lh_gpu_open: it was linked without a shim"):
        subject.load(Path(_loaded("libm.so.6")))


@pytest.mark.parametrize("driver", get_args(Driver))
def test_every_driver_has_its_source(driver: Driver) -> None:
    assert subject.shim_source(driver).is_file()


def test_an_unknown_driver_has_none() -> None:
    name: Any = "metal"
    with pytest.raises(ValueError, match="metal"):
        subject.shim_source(name)


def _loaded(name: str) -> str:
    """The file that the loader has under a name."""
    ctypes.CDLL(name)
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.endswith(f"/{name}"))
