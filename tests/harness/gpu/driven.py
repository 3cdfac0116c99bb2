"""What is done to a shim, in a process of its own.

`python -m tests.harness.gpu.driven SCENARIO SHARED_OBJECT` prints one JSON object; a fault of the
runtime is `fault` and `message` in it.
"""

from __future__ import annotations

import _ctypes
import ctypes
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness.blame import Blamed
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu.runtime import Runtime, device, load

Said = dict[str, Any]

PTX = b"""
.version 7.8
.target sm_90
.address_size 64
.visible .entry idle(
 .param .u64 idle_param_0
)
{
 ret;
}
.visible .entry rest(
 .param .u64 rest_param_0,
 .param .u64 rest_param_1
)
{
 ret;
}
"""
"""What tests load by themselves."""


def described(path: Path) -> Said:
    """The device that would be taken."""
    return {"device": device(path)}


def forward(path: Path) -> Said:
    """A good run: out = 2 * in + 1, everything given back."""
    runtime = load(path)
    source, target = _buffers(runtime)
    runtime.call("forward", [source, target])
    said: Said = {
        "out": target.tolist(),
        "ns": runtime.kernel_ns(),
        "device": runtime.describe(),
        "modules": runtime.modules(),
        "aligned": [source.ctypes.data % 64, target.ctypes.data % 64],
        "live": [runtime.live()],
    }
    runtime.clear()
    runtime.free(source, target)
    return said | {"ns_cleared": runtime.kernel_ns(), "live": [*said["live"], runtime.live()]}


def in_a_thread(path: Path) -> Said:
    """Loaded in one thread, used in another: a context is current in one thread."""
    runtime = load(path)
    source, target = _buffers(runtime)
    thread = threading.Thread(target=runtime.call, args=("forward", [source, target]))
    thread.start()
    thread.join()
    out = target.tolist()
    runtime.free(source, target)
    return {"out": out}


def unloaded(path: Path) -> Said:
    """Unloaded, and loaded again."""
    first = forward(path)
    handle = ctypes.CDLL(str(path))._handle
    _ctypes.dlclose(handle)
    _ctypes.dlclose(handle)  # `forward` opened it as well
    return {"equal": forward(path) == first}


def on_host_memory(path: Path) -> Said:
    """Kernels are handed memory that the device does not know."""
    runtime = load(path)
    source, target = np.ones(100, np.float32), np.ones(100, np.float32)
    return _told(lambda: runtime.call("forward", [source, target]))


def full(path: Path) -> Said:
    """More memory than there is; then, cleared, less."""
    runtime = load(path)
    said = _told(lambda: runtime.buffer(np.zeros(1 << 20, np.float32)))
    runtime.clear()
    small = runtime.buffer(np.zeros(16, np.float32))
    runtime.free(small)
    return said | {"live": runtime.live()}


def sticky(path: Path) -> Said:
    """An error, twice the same, then cleared."""
    runtime = load(path)
    source, target = _buffers(runtime)
    said = _told(lambda: runtime.call("forward", [source, target]))
    second = _told(lambda: runtime.call("forward", [source, target]))
    said |= {"again": second.get("message"), "out": target.tolist(), "live": [runtime.live()]}
    runtime.clear()
    runtime.call("forward", [source, target])
    said["out_cleared"] = target.tolist()
    runtime.free(source, target)
    said["live"].append(runtime.live())
    return said


def refused(path: Path) -> Said:
    """A module was refused: its kernels stay unusable when the error is cleared."""
    said = _told(lambda: load(path))
    ctypes.CDLL(str(path)).lh_gpu_clear()
    runtime = load(path)
    source, target = _buffers(runtime)
    said["launched"] = _told(lambda: runtime.call("forward", [source, target]))
    return said | {"modules": runtime.modules(), "out": target.tolist()}


def launches(path: Path) -> Said:
    """For each of `LAUNCHES`, [blocks, threads, shared bytes]: the message, how much is written."""
    runtime = load(path)
    said = []
    for how in json.loads(os.environ["LAUNCHES"]):
        source, target = _buffers(runtime)
        size = runtime.buffer(np.array(how, np.int64))
        told = _told(lambda a=[source, target, size]: runtime.call("launch", a))  # type: ignore[misc]
        runtime.clear()
        said.append([told.get("message", ""), int(np.count_nonzero(target))])
        runtime.free(source, target, size)
    return {"said": said, "live": runtime.live()}


def leak(path: Path) -> Said:
    """Something is not given back; something is given back twice."""
    runtime = load(path)
    kept, gone = _buffers(runtime)
    runtime.free(gone)
    said = _told(lambda: runtime.free(gone))
    return said | {"live": runtime.live(), "kept": kept.size}


def memory(path: Path) -> Said:
    """The calls that move memory, and events."""
    runtime = load(path)
    abi = _abi(runtime)
    stream, event = abi.mgpuStreamCreate(), abi.mgpuEventCreate()
    device = abi.mgpuMemAlloc(64, stream, False)
    back = np.zeros(16, np.uint32)
    abi.mgpuMemset32(device, 0x01020304, 8, stream)
    abi.mgpuMemset16(device + 32, 0x0506, 16, stream)
    abi.mgpuEventRecord(event, stream)
    abi.mgpuStreamWaitEvent(stream, event)
    abi.mgpuEventSynchronize(event)
    abi.mgpuMemcpy(back.ctypes.data, device, 64, stream)
    abi.mgpuStreamSynchronize(stream)
    live = [runtime.live()]
    abi.mgpuMemFree(device, stream)
    abi.mgpuMemFree(None, stream)
    abi.mgpuEventDestroy(event)
    abi.mgpuStreamDestroy(stream)
    page = abi._mlir_memref_to_llvm_aligned_alloc(1 << 16, 100)
    nothing = runtime.buffer(np.zeros((0, 3), np.float32))
    abi._mlir_memref_to_llvm_free(page)
    runtime.free(nothing)
    return {"back": back.tolist(), "live": [*live, runtime.live()], "page": page % (1 << 16)}


def idle(path: Path) -> Said:
    """More launches than there are slots for their times, and nobody waits for them."""
    runtime = load(path)
    abi = _abi(runtime)
    kernel = runtime.function(runtime.module(PTX), "idle")
    for _ in range(100):
        _launch(abi, kernel)
    runtime.check("launching")
    return {"ns": runtime.kernel_ns(), "modules": runtime.modules()}


def side_by_side(path: Path) -> Said:
    """Launches in two streams, only one of which is waited for before times are asked for."""
    runtime = load(path)
    abi = _abi(runtime)
    kernel = runtime.function(runtime.module(PTX), "idle")
    streams = [abi.mgpuStreamCreate() for _ in range(2)]
    for blocks, stream in zip((1, 10, 100), (0, 1, 0), strict=True):
        _launch(abi, kernel, blocks=blocks, stream=streams[stream])
    abi.mgpuStreamSynchronize(streams[0])
    _launch(abi, kernel, blocks=1000, stream=streams[1])
    ns = runtime.kernel_ns()
    for stream in streams:
        abi.mgpuStreamDestroy(stream)
    return {"ns": ns}


def mistaken(path: Path) -> Said:
    """Code that the driver refuses, names it does not know, too many parameters."""
    runtime = load(path)
    module = runtime.module(PTX)
    wrong = PTX.replace(b"ret;", b"does not parse;")
    steps: dict[str, Callable[[], object]] = {
        "code": lambda: runtime.module(wrong),
        "name": lambda: runtime.function(module, "busy"),
        "params": lambda: _run(runtime, runtime.function(module, "idle"), 2),
        "right": lambda: _run(runtime, runtime.function(module, "rest"), 2),
        "launch": lambda: _run(runtime, 0, 1),
    }
    said: Said = {}
    for name, step in steps.items():
        said[name] = list(_told(step).values())
        runtime.clear()
    return said


def text(path: Path) -> Said:
    """PTX, whatever the driver."""
    runtime = load(path)
    return _told(lambda: runtime.module(PTX))


def _buffers(runtime: Runtime) -> tuple[Array, Array]:
    source = runtime.buffer(np.arange(1, 101, dtype=np.float32))
    return source, runtime.buffer(np.zeros(100, np.float32))


def _told(step: Callable[[], object]) -> Said:
    """What a step ends with; empty when all is well."""
    try:
        step()
    except Blamed as fault:
        return {"fault": type(fault).__name__, "message": fault.message}
    return {}


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_ABI: dict[str, tuple[Any, list[Any]]] = {
    "mgpuStreamCreate": (_POINTER, []),
    "mgpuStreamDestroy": (None, [_POINTER]),
    "mgpuStreamWaitEvent": (None, [_POINTER, _POINTER]),
    "mgpuEventCreate": (_POINTER, []),
    "mgpuEventDestroy": (None, [_POINTER]),
    "mgpuEventRecord": (None, [_POINTER, _POINTER]),
    "mgpuEventSynchronize": (None, [_POINTER]),
    "mgpuMemAlloc": (_POINTER, [ctypes.c_uint64, _POINTER, ctypes.c_bool]),
    "mgpuMemFree": (None, [_POINTER, _POINTER]),
    "mgpuMemcpy": (None, [_POINTER, _POINTER, _SIZE, _POINTER]),
    "mgpuMemset32": (None, [_POINTER, ctypes.c_uint32, _SIZE, _POINTER]),
    "mgpuMemset16": (None, [_POINTER, ctypes.c_uint16, _SIZE, _POINTER]),
}


def _abi(runtime: Runtime) -> Any:
    """The library, its functions told that they take and return pointers."""
    for name, (result, arguments) in _ABI.items():
        function = getattr(runtime.library, name)
        function.restype, function.argtypes = result, arguments
    return runtime.library


def _launch(abi: Any, kernel: int, *, blocks: int = 1, stream: int | None = None) -> None:
    """Blocks of one thread of a kernel that takes an address, not waited for."""
    value = ctypes.c_void_p(0)
    params = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    abi.mgpuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, params, None, 1)


def _run(runtime: Runtime, kernel: int, count: int) -> None:
    """One thread of a kernel that is given so many addresses."""
    values = [ctypes.c_void_p(0) for _ in range(count)]
    runtime.launch(kernel, grid=(1, 1, 1), block=(1, 1, 1), parameters=values)


def main() -> None:
    """Runs a scenario."""
    scenario, path = globals()[sys.argv[1]], Path(sys.argv[2])
    said: Said = {}

    def run() -> None:
        said.update(scenario(path))

    print(json.dumps(_told(run) | said))


if __name__ == "__main__":
    main()
