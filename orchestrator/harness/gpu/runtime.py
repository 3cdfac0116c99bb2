"""A shared object of host code and a shim, loaded: its memory, its launches, its errors.

The C side of everything here is `shim/mgpu.h`.
"""

from __future__ import annotations

import _ctypes
import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from orchestrator.harness.blame import CompilerFault, MachineFault
from orchestrator.harness.elements import Array
from orchestrator.harness.toolchains import base
from orchestrator.job import Driver

ALIGNMENT = 64
"""Bytes that every buffer's address is a multiple of."""

SHIM_FLAGS = ("-std=c17", "-ffreestanding", "-fvisibility=hidden", "-Wl,-Bsymbolic")
"""What a shim is compiled and linked with: no libc's headers are needed, and its own mgpu* win over
those of any other library in the process."""
_OPTIMIZATION = 3
"""Of the driver's compiler, as `gpu-module-to-binary` has it for host code."""
_BINARIES = (b"\x7fELF", b"\x03\x02\x23\x07")
"""How cubins and HSACO, and SPIR-V, begin."""
_ALLOCATE = "_mlir_memref_to_llvm_aligned_alloc"
_FREE = "_mlir_memref_to_llvm_free"
_SHIM = Path(__file__).parent / "shim"


def shim_source(driver: Driver) -> Path:
    """The C file that is compiled into the host code's shared object."""
    if driver not in get_args(Driver):
        raise ValueError(driver)
    return _SHIM / f"{driver}.c"


def load(path: Path) -> Runtime:
    """Loads a shared object, which loads its kernels, and binds the driver and a device.

    Raises:
        CompilerFault: it cannot be loaded, or the driver refuses its kernels.
        MachineFault: no driver, no device, or not one for this code.
    """
    runtime = _bind(path)
    runtime.check("loading the kernels")
    runtime.library.lh_gpu_open()
    runtime.check("opening the device")
    return runtime


def device(path: Path) -> Mapping[str, str | int]:
    """What a shared object's driver would bind, whatever it thinks of the kernels in there.

    Raises:
        CompilerFault: it cannot be loaded.
        MachineFault: no driver, no device.
    """
    runtime = _bind(path)
    runtime.clear()
    runtime.library.lh_gpu_open()
    runtime.check("opening the device")
    found = runtime.describe()
    runtime.unload()
    return found


def _bind(path: Path) -> Runtime:
    """Loads a shared object, which loads its kernels; what went wrong there is not yet told."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)  # host code may call it
    try:
        library = ctypes.CDLL(str(path.absolute()))  # a bare name would be searched for
    except OSError as error:
        raise CompilerFault(f"the compiled host code cannot be loaded: {error}") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise CompilerFault(f"{path.name} has no {name}: it was linked without a shim")
        function.restype, function.argtypes = result, arguments
    return Runtime(library)


@dataclass(frozen=True)
class Runtime:
    """Host code that is loaded, its kernels and its device ready. For one thread at a time."""

    library: ctypes.CDLL

    def check(self, doing: str) -> None:
        """Raises what went wrong since the last `clear`; until then nothing more is done.

        Raises:
            CompilerFault: the code is at fault, or the device's memory is full.
            MachineFault: the driver or the device is.
        """
        text = self.library.lh_gpu_error().decode(errors="replace")
        if not text:
            return
        kind, _, words = text.partition(": ")
        if kind == "program":
            raise CompilerFault(f"{doing}: {words}")
        if kind == "memory":
            raise CompilerFault(f"{doing}: out of device memory: {words}")
        raise MachineFault(f"{doing}: {words}")

    def clear(self) -> None:
        """Forgets the error and the time that kernels took."""
        self.library.lh_gpu_clear()

    def describe(self) -> Mapping[str, str | int]:
        """What was bound: driver, driver_version, library, device, chip, memory_bytes, …"""
        described: dict[str, str | int] = json.loads(self.library.lh_gpu_describe())
        return described

    def buffer(self, array: Array) -> Array:
        """A C-contiguous copy in memory that host and device reach, aligned to `ALIGNMENT`.

        The result is a view: after `free` of it nobody may touch it.

        Raises:
            CompilerFault: the device's memory is full.
        """
        address = getattr(self.library, _ALLOCATE)(ALIGNMENT, array.nbytes)
        self.check(f"allocating {array.nbytes:,} bytes")
        memory = (ctypes.c_ubyte * max(array.nbytes, 1)).from_address(address)
        view: Array = np.ndarray(array.shape, array.dtype, buffer=memoryview(memory))
        view[...] = array
        return view

    def free(self, *buffers: Array) -> None:
        """Gives back what `buffer` made."""
        for view in buffers:
            getattr(self.library, _FREE)(view.ctypes.data)
        self.check("freeing")

    def call(self, entry: str, arguments: Sequence[Array]) -> None:
        """Calls a function of the host code with buffers: inputs first, then outputs.

        Raises:
            CompilerFault: there is no such function, or the device says that the code is at fault.
            MachineFault: the driver or the device is at fault.
        """
        base.call(_Entry(self.library, f"_mlir_ciface_{entry}"), arguments)
        self.check(f"running {entry}")

    def module(self, code: bytes) -> int:
        """Loads kernels besides the host code's own: PTX text, or a cubin, HSACO or SPIR-V binary.

        Raises:
            CompilerFault: the driver refuses them.
            MachineFault: the driver is too old for them, or the device is at fault.
        """
        if code.startswith(_BINARIES):
            handle = self.library.mgpuModuleLoad(code, len(code))
        else:
            handle = self.library.mgpuModuleLoadJIT(code, _OPTIMIZATION)
        self.check("loading a kernel")
        return int(handle)

    def function(self, module: int, name: str) -> int:
        """A kernel of a loaded module. Raises `CompilerFault` when there is none of that name."""
        handle = self.library.mgpuModuleGetFunction(module, name.encode())
        self.check(f"finding kernel {name}")
        return int(handle)

    def launch(
        self,
        function: int,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: Sequence[ctypes._SimpleCData[Any]],
        shared_bytes: int = 0,
    ) -> None:
        """Launches a kernel and waits for it.

        Args:
            function: from `function`.
            grid: blocks in each direction.
            block: threads of a block in each direction.
            parameters: values as the kernel declares them: addresses are `ctypes.c_void_p`.
            shared_bytes: dynamic shared memory of a block.

        Raises:
            CompilerFault: the device does not take it, or says that the code is at fault.
            MachineFault: the driver or the device is at fault.
        """
        count = len(parameters)
        addresses = (ctypes.c_void_p * count)(*(ctypes.addressof(p) for p in parameters))
        self.library.mgpuLaunchKernel(
            *(function, *grid, *block, shared_bytes, None, addresses, None, count)
        )
        self.library.mgpuStreamSynchronize(None)
        self.check("running a kernel")

    def kernel_ns(self) -> int:
        """Nanoseconds on the device since the last `clear`; 0 where the driver does not tell."""
        elapsed = int(self.library.lh_gpu_kernel_ns())
        self.check("timing")
        return elapsed

    def live(self) -> int:
        """Allocations, streams and events that nobody gave back."""
        return int(self.library.lh_gpu_live())

    def unload(self) -> None:
        """Unloads the kernels, gives back the device, and takes the code out of this process.

        Neither this object nor any buffer may be used after that.
        """
        _ctypes.dlclose(self.library._handle)  # noqa: SLF001  ctypes itself never unloads

    def modules(self) -> int:
        """Kernel modules that are loaded."""
        return int(self.library.lh_gpu_modules())


@dataclass(frozen=True)
class _Entry:
    """A function of the host code."""

    library: ctypes.CDLL
    symbol: str

    def invoke(self, descriptors: Sequence[int]) -> None:
        try:
            function = getattr(self.library, self.symbol)
        except AttributeError as error:
            raise CompilerFault(f"the host code has no {self.symbol}") from error
        function.restype = None
        function(*(ctypes.c_void_p(address) for address in descriptors))


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES: Mapping[str, tuple[Any, list[Any]]] = {
    "lh_gpu_open": (ctypes.c_int, []),
    "lh_gpu_describe": (ctypes.c_char_p, []),
    "lh_gpu_error": (ctypes.c_char_p, []),
    "lh_gpu_clear": (None, []),
    "lh_gpu_kernel_ns": (ctypes.c_uint64, []),
    "lh_gpu_live": (ctypes.c_uint64, []),
    "lh_gpu_modules": (ctypes.c_uint64, []),
    "mgpuModuleLoad": (_POINTER, [ctypes.c_char_p, _SIZE]),
    "mgpuModuleLoadJIT": (_POINTER, [ctypes.c_char_p, ctypes.c_int]),
    "mgpuModuleGetFunction": (_POINTER, [_POINTER, ctypes.c_char_p]),
    "mgpuLaunchKernel": (
        None,
        [
            _POINTER,
            *[ctypes.c_ssize_t] * 6,
            *(ctypes.c_int32, _POINTER, _POINTER, _POINTER, _SIZE),
        ],
    ),
    "mgpuStreamSynchronize": (None, [_POINTER]),
    _ALLOCATE: (_POINTER, [_SIZE, _SIZE]),
    _FREE: (None, [_POINTER]),
}
