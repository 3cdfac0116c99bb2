"""What a workload's `launch` launches, written down instead of done.

`launch` is plain host code: it allocates tensors and calls `kernel[grid](...)`. Here those calls
only leave a note, so the same code serves for compiling without a device, for the interpreter and
for a device that another process reaches.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.harness.blame import DefinitionFault
from orchestrator.harness.elements import Array, aligned
from orchestrator.harness.tensors import element_of, torch_type
from orchestrator.harness.triton.plan import Grid, Memory, View


@dataclass(frozen=True, kw_only=True)
class Call:
    """One `kernel[grid](...)`."""

    kernel: Any
    """Triton's object."""
    grid: Grid
    arguments: Mapping[str, Any]
    """By the names of the kernel's parameters, constants among them; tensors are `View`s."""
    options: Mapping[str, Any]
    """The compiler's: `num_warps` and the like."""

    def with_tensors(self, buffers: Sequence[Array]) -> dict[str, Any]:
        """The arguments, with tensors that lie in these buffers."""
        return {
            name: _tensor(value, buffers[value.buffer]) if isinstance(value, View) else value
            for name, value in self.arguments.items()
        }


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a program launches, and on what."""

    calls: tuple[Call, ...]
    memory: Memory


def record(launch: Callable[..., Any], inputs: Sequence[Any], file: str) -> Recording:
    """Runs host code that launches kernels, without launching any.

    Memory that it allocates and does not fill starts as all-ones bits (NaN).

    Args:
        launch: returns a tensor or several, each written by a kernel.
        inputs: tensors on the CPU, which it is called with.
        file: names the workload in messages.

    Raises:
        DefinitionFault: it launches nothing, or does more than to allocate and launch.
    """
    recorder = _Recorder(file)
    for tensor in inputs:
        recorder.view(tensor)
    count = len(recorder.contents)
    with _poisoning(), _instead_of_launching(recorder.launched):
        returned = launch(*inputs)
    return recorder.finished(returned, frozenset(range(count)))


@dataclass
class _Recorder:
    file: str
    calls: list[Call] = field(default_factory=list)
    contents: list[Array] = field(default_factory=list)
    storages: list[Any] = field(default_factory=list)
    """Held, so that no other memory gets their addresses."""

    def view(self, tensor: Any) -> View:
        held = tensor.untyped_storage()
        address = held.data_ptr()
        known = [(storage.data_ptr(), storage.nbytes()) for storage in self.storages]
        key = (address, held.nbytes())
        if key not in known:
            known.append(key)
            self.storages.append(held)
            self.contents.append(_bytes_of(held))
        return View(
            buffer=known.index(key),
            offset=tensor.data_ptr() - address,
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            element=element_of(tensor),
        )

    def launched(self, kernel: Any, grid: Any, given: Sequence[Any], named: dict[str, Any]) -> None:
        """One call as Triton's `run` gets it."""
        signature = inspect.signature(kernel.fn)
        passed = {name: value for name, value in named.items() if name in signature.parameters}
        bound = signature.bind(*given, **passed)
        bound.apply_defaults()
        blocks = tuple(grid(bound.arguments) if callable(grid) else grid)
        if not 1 <= len(blocks) <= 3:
            raise DefinitionFault(
                f"{self.file}: {kernel.__name__} is launched on a grid of {len(blocks)} dimensions,"
                " not 1 to 3"
            )
        x, y, z = (*(int(n) for n in blocks), 1, 1)[:3]
        arguments = {
            name: self.view(value) if hasattr(value, "untyped_storage") else value
            for name, value in bound.arguments.items()
        }
        options = {name: value for name, value in named.items() if name not in passed}
        self.calls.append(Call(kernel=kernel, grid=(x, y, z), arguments=arguments, options=options))

    def finished(self, returned: Any, inputs: frozenset[int]) -> Recording:
        if not self.calls:
            raise DefinitionFault(f"{self.file}: `launch` launches no kernel")
        for storage, before in zip(self.storages, self.contents, strict=True):
            if (_bytes_of(storage) != before).any():
                raise DefinitionFault(
                    f"{self.file}: `launch` writes to a tensor that a kernel was given before; "
                    "only kernels may, since they run later"
                )
        known = len(self.storages)
        outputs = []
        for position, tensor in enumerate(_several(returned)):
            if not hasattr(tensor, "untyped_storage"):
                kind = type(tensor).__name__
                raise DefinitionFault(f"{self.file}: output {position} is {kind}, not a tensor")
            outputs.append(self.view(tensor))
            if outputs[-1].buffer >= known:
                raise DefinitionFault(f"{self.file}: output {position} was given to no kernel")
        memory = Memory(buffers=tuple(self.contents), inputs=inputs, outputs=tuple(outputs))
        return Recording(calls=tuple(self.calls), memory=memory)


def _several(returned: Any) -> Sequence[Any]:
    return returned if isinstance(returned, (tuple, list)) else (returned,)


def _as_bytes(storage: Any) -> Any:
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _bytes_of(storage: Any) -> Array:
    return aligned(_as_bytes(storage).numpy())


def _tensor(view: View, buffer: Array) -> Any:
    import torch

    memory = torch.from_numpy(buffer).untyped_storage()
    empty = torch.empty(0, dtype=torch_type(view.element))
    return empty.set_(memory, view.offset // empty.element_size(), view.shape, view.strides)


def _poisoning() -> contextlib.AbstractContextManager[Any]:
    """Lets memory that torch leaves uninitialized start as all-ones bits."""
    import torch
    from torch.overrides import TorchFunctionMode

    empty = (torch.empty, torch.empty_like, torch.empty_strided, torch.empty_permuted)
    new = (torch.Tensor.new_empty, torch.Tensor.new_empty_strided)

    class Poisoning(TorchFunctionMode):  # type: ignore[misc]  # torch is not installed here
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            made = function(*args, **(kwargs or {}))
            if function in (*empty, *new):
                bits = 1 if made.dtype == torch.bool else 0xFF
                _as_bytes(made.untyped_storage()).fill_(bits)
            return made

    return Poisoning()


@contextlib.contextmanager
def _instead_of_launching(
    note: Callable[[Any, Any, Sequence[Any], dict[str, Any]], None],
) -> Iterator[None]:
    from triton import knobs
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    kind = InterpretedFunction if knobs.runtime.interpret else JITFunction
    launching = kind.run

    def run(kernel: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> None:
        if not warmup:
            note(kernel, grid, given, named)

    kind.run = run
    try:
        yield
    finally:
        kind.run = launching
