"""Recorded launches compiled for a GPU that need not be there."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.harness.blame import Blamed, CompilerFault, DefinitionFault
from orchestrator.harness.elements import Array
from orchestrator.harness.gpu.assemble import amdgcn_facts, ptxas_facts
from orchestrator.harness.triton.diagnostics import said_again, telling
from orchestrator.harness.triton.plan import Kernel, Launch, Plan, Scalar, Scratch, View
from orchestrator.harness.triton.recording import Call, Recording
from orchestrator.job import Driver, KernelFacts, Target

DRIVERS: tuple[Driver, ...] = ("cuda", "hip")

Tell = Callable[[str], None]
Keep = Callable[[str, bytes], None]

_STAGES = {"ttir": "lower:ttir", "ttgir": "lower:ttgir", "llir": "lower:llir"}
"""Triton's stages with a name of their own; those after them are `codegen`."""
_SUFFIXES = {"ttir": "ttir.mlir", "ttgir": "ttgir.mlir", "llir": "ll", "amdgcn": "s"}
"""Of files; other stages are suffixes themselves."""
_HOLDS = {
    "ttir": "tt.func",
    "ttgir": "ttg.",
    "llir": "define ",
    "ptx": ".visible .entry",
    "amdgcn": ".amdhsa_kernel",
    "cubin": "\x7fELF",
    "hsaco": "\x7fELF",
}
"""What there must be in a stage's result."""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A program for one kind of GPU."""

    texts: Mapping[str, bytes]
    """File name to content, for each kernel and stage."""
    facts: tuple[KernelFacts, ...]
    plan: Plan


def compile_calls(
    recording: Recording, workload: str, target: Target, tell: Tell, keep: Keep
) -> Compiled:
    """Compiles each launch as Triton would before the launch, equal ones once.

    Args:
        recording: what is launched, in Triton's compiling mode.
        workload: names the module in facts.
        target: the GPU; its driver is one of `DRIVERS`.
        tell: called with the name of each stage that begins.
        keep: called with each file as soon as it is there.

    Raises:
        CompilerFault: a stage refused a kernel, or made something else than its kind of code.
        DefinitionFault: the chip is unknown, or a launch is of a kind that no runner can do.
    """
    from triton.runtime import driver

    work = _Work(
        workload=workload,
        target=target,
        tell=tell,
        keep=keep,
        buffers=recording.memory.buffers,
    )
    driver.set_active(_Elsewhere(target.chip, gpu_target(target)))
    launches = tuple(work.launch(call) for call in recording.calls)
    return Compiled(
        texts=work.texts,
        facts=tuple(work.facts),
        plan=Plan(kernels=tuple(work.kernels), launches=launches, memory=recording.memory),
    )


def gpu_target(target: Target) -> Any:
    """Triton's name for a GPU.

    Threads in a warp: 32, but 64 on AMD's chips before RDNA (`gfx10`), as in Triton's
    `backends/amd/compiler.py`.

    Raises:
        DefinitionFault: the chip's name is not of the driver's kind.
    """
    from triton.backends.compiler import GPUTarget

    if target.driver == "cuda" and (found := re.fullmatch(r"sm_(\d+)[af]?", target.chip)):
        return GPUTarget("cuda", int(found[1]), 32)
    if target.driver == "hip" and (found := re.fullmatch(r"gfx(\d+)[\da-f]{2}", target.chip)):
        return GPUTarget("hip", target.chip, 32 if int(found[1]) >= 10 else 64)
    raise DefinitionFault(f"`{target.chip}` names no chip that the driver {target.driver} drives")


@dataclass(frozen=True)
class _Elsewhere:
    """Stands for the driver of a GPU that is not here: all that compiling asks of one."""

    chip: str
    target: Any

    def get_current_device(self) -> str:
        return self.chip  # Triton keeps what it compiled by this

    def get_current_stream(self, device: str) -> int:
        del device
        return 0

    def get_current_target(self) -> Any:
        return self.target


@dataclass(kw_only=True)
class _Work:
    workload: str
    target: Target
    tell: Tell
    keep: Keep
    buffers: Sequence[Array]
    texts: dict[str, bytes] = field(default_factory=dict)
    facts: list[KernelFacts] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    compiled: list[Any] = field(default_factory=list)
    """Triton's objects, one for each of `kernels`."""

    def launch(self, call: Call) -> Launch:
        """Compiles what is launched, unless that was done."""
        log = io.StringIO()
        found = self._compile(call, log)
        if found not in self.compiled:
            self.compiled.append(found)
            self.kernels.append(_kernel(found))
            self.facts.append(self._facts(found, log.getvalue()))
        kinds = found.src.signature
        parameters = tuple(
            _parameter(f"{found.name}: `{name}`", value, kinds[name])
            for name, value in call.arguments.items()
            if kinds[name] != "constexpr"
        )
        index = self.compiled.index(found)
        return Launch(kernel=index, grid=call.grid, parameters=parameters)

    def _compile(self, call: Call, log: io.StringIO) -> Any:
        self._enter("ttir")
        arguments = call.with_tensors(self.buffers)

        def compile_it() -> Any:
            with contextlib.redirect_stdout(log):
                return call.kernel.warmup(grid=call.grid, **arguments, **call.options)

        try:
            with _watched(self._enter, functools.partial(self._left, call.kernel.__name__)):
                return compile_it()
        except (Blamed, MemoryError):
            raise
        except Exception as error:
            reason = telling(error) or said_again(compile_it) or str(error)
            raise CompilerFault(f"{call.kernel.__name__}: {reason}") from error

    def _enter(self, stage: str) -> None:
        self.tell(_STAGES.get(stage, "codegen"))

    def _left(self, kernel: str, stage: str, result: Any) -> None:
        data = result if isinstance(result, bytes) else str(result).encode()
        number = len(self.compiled)  # several kernels, or one for several kinds of arguments
        file = f"{number:02}-{kernel}.{_SUFFIXES.get(stage, stage)}"
        self.texts[file] = data
        self.keep(file, data)
        wanted = _HOLDS.get(stage, "")
        if wanted.encode() not in data:
            raise CompilerFault(f"{kernel}: there is no `{wanted}` in what {stage} made")

    def _facts(self, compiled: Any, log: str) -> KernelFacts:
        """Of one kernel; shared memory is what a launch asks for besides what the code has."""
        size = len(compiled.kernel)
        if self.target.driver == "cuda":
            found = ptxas_facts(log, self.target, self.workload, size)
        else:
            found = amdgcn_facts(compiled.asm["amdgcn"], self.target, self.workload, size)
        if len(found) != 1:
            raise CompilerFault(f"{compiled.name}: the assembler tells of {len(found)} kernels")
        (fact,) = found
        shared = (fact.shared_bytes or 0) + compiled.metadata.shared
        return dataclasses.replace(fact, shared_bytes=shared)


def _kernel(compiled: Any) -> Kernel:
    """What launching takes, as in Triton's `backends/*/driver.py`."""
    metadata = compiled.metadata
    for unsupported in ("launch_cooperative_grid", "launch_pdl"):
        if getattr(metadata, unsupported, False):
            raise DefinitionFault(f"{compiled.name}: kernels with `{unsupported}` cannot be run")
    if metadata.num_ctas != 1:
        raise DefinitionFault(f"{compiled.name}: kernels with `num_ctas` above 1 cannot be run")
    return Kernel(
        name=compiled.name,
        code=compiled.kernel,
        threads=metadata.num_warps * metadata.warp_size,
        shared_bytes=metadata.shared,
        scratch=(
            Scratch(
                block_bytes=metadata.global_scratch_size or 0,
                alignment=metadata.global_scratch_align or 1,
            ),
            Scratch(
                block_bytes=metadata.profile_scratch_size,
                alignment=metadata.profile_scratch_align,
            ),
        ),
    )


def _parameter(where: str, value: Any, kind: Any) -> View | Scalar:
    if isinstance(value, View):
        return value
    if isinstance(value, (bool, int, float)) and isinstance(kind, str):
        return Scalar(kind=kind, value=value)
    raise DefinitionFault(f"{where} is a {type(value).__name__}: kernels take tensors and numbers")


@contextlib.contextmanager
def _watched(enter: Tell, left: Callable[[str, Any], None]) -> Iterator[None]:
    """Tells of each stage of the compiler when it begins, and what came of it."""
    from triton import knobs

    def watch(name: str, make: Callable[[Any, Any], Any], module: Any, metadata: Any) -> Any:
        enter(name)
        result = make(module, metadata)
        left(name, result)
        return result

    def hook(
        backend: Any = None,
        stages: dict[str, Any] | None = None,
        options: Any = None,
        language: Any = None,
        capability: Any = None,
    ) -> tuple[str, str]:
        del backend, options, language, capability
        for name, make in (stages or {}).items():
            stages[name] = functools.partial(watch, name, make)  # type: ignore[index]
        return "", ""  # what results are cached by in addition: nothing

    knobs.runtime.add_stages_inspection_hook = hook
    knobs.nvidia.dump_ptxas_log = True
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook = None
