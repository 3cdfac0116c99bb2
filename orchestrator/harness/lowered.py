"""Programs that recipes lower: from the frontend's IR to outputs."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.context import Stage
from orchestrator.harness.elements import ElementType, poison
from orchestrator.harness.ingress.base import (
    Array,
    Exported,
    Loaded,
    Port,
    parameters_and_inputs,
)
from orchestrator.harness.made import Made
from orchestrator.harness.stages import Lowering
from orchestrator.harness.toolchains.base import Kernel, call, refuse_overwritten
from orchestrator.job import Cell


def lowered(cell: Cell, stage: Stage, loaded: Loaded, golden: Sequence[Array]) -> Made:
    """Exports, lowers, compiles and executes a program, on the CPU or for the cell's targets."""
    stage.enter("ingress", "fail")
    context = stage.context
    exported = context.ingress.export(cell, loaded)
    context.keep("ir/00-ingress.mlir", exported.ir.encode())
    ir = Lowering(stage, "ir").through(cell.recipes, exported.ir)
    if cell.targets:
        return _on_gpu(cell, stage, exported, ir, loaded, golden)
    stage.enter("codegen", "fail")
    kernel = context.toolchain.compile(ir, exported.entry, context.scratch)
    stage.enter("execute", "fail")
    outputs = _execute(kernel, exported, loaded, golden)
    return Made(results=exported.results, outputs=outputs)


def _on_gpu(
    cell: Cell, stage: Stage, exported: Exported, ir: str, loaded: Loaded, golden: Sequence[Array]
) -> Made:
    from orchestrator.harness.gpu import bundle
    from orchestrator.harness.gpu.execute import execute
    from orchestrator.harness.gpu.targets import build

    built = [build(target, ir, stage, len(cell.targets) > 1) for target in cell.targets]
    kernels = tuple(fact for each in built for fact in each.facts)
    results = _results(exported, golden)
    files = bundle.make(
        cell,
        entry=exported.entry,
        loaded=loaded,
        results=results,
        golden=golden,
        built=built,
        versions={**stage.context.toolchain.versions(), **stage.context.ingress.versions()},
    )
    stage.context.keep(bundle.archive_name(cell), bundle.zipped(files))
    if not cell.execute:
        return Made(results=exported.results, outputs=None, kernels=kernels)
    stage.enter("execute", "fail")
    executed = execute(built[0].library, exported.entry, loaded.arguments, results)
    return Made(
        results=exported.results,
        outputs=executed.outputs,
        kernels=kernels,
        device=executed.device,
        kernel_ns=executed.kernel_ns,
    )


def _execute(
    kernel: Kernel, exported: Exported, loaded: Loaded, golden: Sequence[Array]
) -> list[Array]:
    arguments = parameters_and_inputs(loaded)
    outputs = [poison(shape, element) for element, shape in _results(exported, golden)]
    call(kernel, [*arguments, *outputs])
    refuse_overwritten(arguments, [original for _, original in loaded.arguments])
    return outputs


def _results(
    exported: Exported, golden: Sequence[Array]
) -> list[tuple[ElementType, tuple[int, ...]]]:
    """Element type and shape of each output."""
    if len(exported.results) != len(golden):
        raise CompilerFault(
            f"the program has {len(exported.results)} outputs, its golden {len(golden)}"
        )
    return [
        (port.element, _concrete(port, array))
        for port, array in zip(exported.results, golden, strict=True)
    ]


def _concrete(port: Port, golden: Array) -> tuple[int, ...]:
    """The port's shape, sizes known only at run time taken from the golden."""
    if len(port.shape) != golden.ndim:
        raise CompilerFault(f"an output of rank {len(port.shape)}, its golden {golden.ndim}")
    return tuple(
        wanted if size < 0 else size for size, wanted in zip(port.shape, golden.shape, strict=True)
    )
