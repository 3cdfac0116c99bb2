"""A loaded program that is Python: out = 2 * in + 1, and what can go wrong with it.

`install` puts it in the place of real ones; in a child process, `sitecustomize` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness.blame import CompilerFault, MachineFault
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu import runtime

DEVICE: dict[str, str | int] = {
    "driver": "cuda",
    "driver_version": "12.8",
    "library": "/usr/lib/libcuda.so.570",
    "device": "Fake H100",
    "chip": "sm_90",
}
SITECUSTOMIZE = """
import os
from tests.harness.gpu import fake_runtime
fake_runtime.install(os.environ["FAKE_RUNTIME"])
"""


class FakeRuntime:
    """Stands in for `Runtime`; `behaviour` is the name of a method of this class."""

    def __init__(self, code: bytes, behaviour: str) -> None:
        """Takes what was loaded, so that tests can tell."""
        self.code = code
        self.behave = getattr(self, f"_{behaviour}")
        self.buffers: list[Array] = []
        self.seen: list[list[Array]] = []
        """What each call was given, before it did anything."""
        self.log: list[str] = []
        self.leaked = 0

    def clear(self) -> None:
        """See `Runtime`."""
        self.log.append("clear")

    def describe(self) -> Mapping[str, str | int]:
        """See `Runtime`."""
        return {**DEVICE, "chip": os.environ.get("FAKE_CHIP", "sm_90")}

    def buffer(self, array: Array) -> Array:
        """See `Runtime`."""
        copy = np.array(array, order="C")
        self.buffers.append(copy)
        return copy

    def free(self, *buffers: Array) -> None:
        """See `Runtime`: what is freed becomes rubbish."""
        self.log.append("free")
        for view in buffers:
            self.buffers = [other for other in self.buffers if other is not view]
            view.reshape(-1).view(np.uint8)[...] = 0xCD

    def call(self, entry: str, arguments: Sequence[Array]) -> None:
        """See `Runtime`."""
        self.log.append(f"call {entry}")
        self.seen.append([np.array(array) for array in arguments])
        self.behave(*arguments)

    def kernel_ns(self) -> int:
        """See `Runtime`."""
        return 1000 * len(self.seen)

    def live(self) -> int:
        """See `Runtime`."""
        return len(self.buffers) + self.leaked

    def unload(self) -> None:
        """See `Runtime`."""
        self.log.append("unload")

    def _right(self, source: Array, target: Array) -> None:
        target[...] = 2 * source + 1

    def _wrong(self, source: Array, target: Array) -> None:
        self._right(source, target)
        target[7] = 0

    def _lazy(self, source: Array, target: Array) -> None:
        pass

    def _drifting(self, source: Array, target: Array) -> None:
        target[...] = 2 * source + len(self.seen)

    def _scribbling(self, source: Array, target: Array) -> None:
        self._right(source, target)
        source[3] = 0

    def _leaking(self, source: Array, target: Array) -> None:
        self._right(source, target)
        self.leaked += 2

    def _refused(self, source: Array, target: Array) -> None:
        raise CompilerFault("running forward: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1)")

    def _lost(self, source: Array, target: Array) -> None:
        raise MachineFault("running forward: cuStreamSynchronize: the device was lost (719)")

    def _full(self, source: Array, target: Array) -> None:
        raise MemoryError

    def _crashing(self, source: Array, target: Array) -> None:
        os.write(2, b"Xid 31: MMU fault\n")
        os.kill(os.getpid(), signal.SIGSEGV)

    def _killed(self, source: Array, target: Array) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _hanging(self, source: Array, target: Array) -> None:
        os.write(2, b"waiting for the device\n")
        Path(os.environ["FAKE_HANGS"]).touch()
        while True:
            signal.pause()

    def _chatty(self, source: Array, target: Array) -> None:
        os.write(1, b'{"event": "done"}\nllvmpipe: hello\n')
        self._right(source, target)

    def _leaving(self, source: Array, target: Array) -> None:
        os._exit(0)


def install(behaviour: str, patch: Any = setattr) -> list[FakeRuntime]:
    """Has programs behave like that; gives those that were loaded."""
    loaded: list[FakeRuntime] = []

    def load(path: Path) -> FakeRuntime:
        loaded.append(FakeRuntime(path.read_bytes(), behaviour))
        return loaded[-1]

    def device(path: Path) -> Mapping[str, str | int]:
        return load(path).describe()

    patch(runtime, "load", load)
    patch(runtime, "device", device)
    return loaded
