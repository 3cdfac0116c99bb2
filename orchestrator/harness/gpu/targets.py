"""From outlined kernels to one shared object for a kind of GPU: kernels, host code, runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.harness.blame import CompilerFault, MachineFault
from orchestrator.harness.context import Stage
from orchestrator.harness.gpu import chips, ir
from orchestrator.harness.gpu.assemble import assemble
from orchestrator.harness.gpu.runtime import SHIM_FLAGS, shim_source
from orchestrator.harness.stages import Lowering
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.harness.tools import toolkit
from orchestrator.job import Driver, KernelFacts, Step, Target


@dataclass(frozen=True, kw_only=True)
class Built:
    """A program for one target, ready to be bundled or executed."""

    target: Target
    library: Path
    """Host code with the kernels in it, and the runtime that finds the driver."""
    files: Mapping[str, bytes]
    """What was assembled: name to content."""
    facts: tuple[KernelFacts, ...]


def build(target: Target, module: str, stage: Stage, one_of_several: bool) -> Built:
    """Lowers, assembles and links outlined kernels and what launches them.

    Args:
        target: which GPU.
        module: IR in generic form, kernels in `gpu.module`s.
        stage: of the cell; enters the stages of the target's recipes, and `codegen`.
        one_of_several: messages must say which target they are about.

    Raises:
        CompilerFault: a pass, an assembler or the chip refused the program.
        MachineFault: there are no tools for it here.
    """
    try:
        return _build(target, module, stage)
    except CompilerFault as fault:
        if not one_of_several or fault.message.startswith(f"{target.chip}: "):
            raise
        raise CompilerFault(f"{target.chip}: {fault.message}") from fault


def _build(target: Target, module: str, stage: Stage) -> Built:
    toolchain = release(stage)
    scratch = stage.context.scratch / target.chip
    scratch.mkdir()
    lowering = Lowering(stage, f"ir/{target.chip}")
    spirv = target.driver in ("opencl", "vulkan")
    module = lowering.through(target.kernels, ir.with_block_sizes(module) if spirv else module)
    stage.enter("codegen", "fail")
    if target.driver == "vulkan":
        module = ir.with_spirv_nested(module)
    module = _to_binary(toolchain, module, "bin" if spirv else "isa", scratch)
    parts = [
        assemble(target, binary, toolchain.prefix / "bin", scratch)
        for binary in ir.binaries(module)
    ]
    check_fit(fact for part in parts for fact in part.facts)
    module = ir.with_binaries(module, {part.module: part.embedded for part in parts})
    lowering.keep("gpu-module-to-binary", module)
    module = lowering.through(target.host, module)
    stage.enter("codegen", "fail")
    host = toolchain.translate(module, scratch / "host.ll")
    library = link_runtime(toolchain, target.driver, scratch / "host.so", host)
    files = {name: data for part in parts for name, data in part.files.items()}
    for name, data in files.items():
        stage.context.keep(f"kernels/{target.chip}/{name}", data)
    facts = tuple(fact for part in parts for fact in part.facts)
    return Built(target=target, library=library, files=files, facts=facts)


def _to_binary(toolchain: ReleaseToolchain, module: str, form: str, scratch: Path) -> str:
    passes = f"gpu-module-to-binary{{format={form} toolkit={toolkit(scratch / 'toolkit')}}}"
    step = Step(tool="mlir-opt", passes=passes)
    if ir.for_xevm(module):
        return ir.with_kernels_apart(module, lambda alone: toolchain.apply(step, alone))
    return toolchain.apply(step, module)


def link_runtime(toolchain: ReleaseToolchain, driver: Driver, target: Path, *host: Path) -> Path:
    """A shared object of the runtime that finds a driver, and of host code; returns `target`."""
    return toolchain.link((*host, shim_source(driver)), target, SHIM_FLAGS)


def release(stage: Stage) -> ReleaseToolchain:
    """The LLVM release, which GPU code needs.

    Raises:
        MachineFault: this job compiles with something else.
    """
    toolchain = stage.context.toolchain
    if not isinstance(toolchain, ReleaseToolchain):
        raise MachineFault(
            f"GPU code needs the LLVM release, and this job compiles with `{toolchain.name}`"
        )
    return toolchain


def check_fit(facts: Iterable[KernelFacts]) -> None:
    """Refuses kernels that want more of a chip than it has.

    Raises:
        CompilerFault: names the kernel, what it wants and what there is.
    """
    for fact in facts:
        if fact.shared_bytes and (wrong := chips.fits(fact.chip, fact.shared_bytes)):
            raise CompilerFault(f"{fact.kernel}: {wrong}")
