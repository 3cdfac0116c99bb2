"""Programs of a frontend that is a compiler of its own: compiled, interpreted or launched by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.context import Stage
from orchestrator.harness.ingress.base import Array, CompiledProgram, Loaded, OwnCompiler
from orchestrator.harness.made import Made
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Cell, Target


def compiled(
    cell: Cell, stage: Stage, loaded: Loaded, golden: Sequence[Array], compiler: OwnCompiler
) -> Made:
    """Compiles for the cell's targets and executes; where it compiles for none, interprets."""
    targets = [target for target in cell.targets if target.driver in compiler.DRIVERS]
    programs = [_compile(cell, stage, loaded, compiler, target) for target in targets]
    made = Made(
        results=compiler.results(loaded),
        outputs=None,
        kernels=tuple(fact for program in programs for fact in program.facts),
    )
    if programs:
        what = _Program(cell=cell, loaded=loaded, golden=golden, compiler=compiler, chips=programs)
        return _launched(what, stage, made)
    if not cell.execute:
        return made
    stage.enter("execute", "fail")
    return replace(made, outputs=compiler.interpret(cell, loaded))


def _compile(
    cell: Cell, stage: Stage, loaded: Loaded, compiler: OwnCompiler, target: Target
) -> CompiledProgram:
    from orchestrator.harness.gpu.targets import check_fit

    def enter(name: str) -> None:
        stage.enter(name, "fail")

    def keep(name: str, data: bytes) -> None:
        stage.context.keep(f"kernels/{target.chip}/{name}", data)

    try:
        program = compiler.compile_for(cell, loaded, target, enter, keep)
        check_fit(program.facts)
    except CompilerFault as fault:
        if len(cell.targets) == 1 or fault.message.startswith(f"{target.chip}: "):
            raise
        raise CompilerFault(f"{target.chip}: {fault.message}") from fault
    return program


@dataclass(frozen=True, kw_only=True)
class _Program:
    """A program that was compiled for GPUs, and what it should compute."""

    cell: Cell
    loaded: Loaded
    golden: Sequence[Array]
    compiler: OwnCompiler
    chips: Sequence[CompiledProgram]


def _launched(what: _Program, stage: Stage, made: Made) -> Made:
    """Leaves a bundle, and launches the code for the first chip where that is asked for."""
    from orchestrator.harness.gpu.execute import loaded
    from orchestrator.harness.gpu.targets import link_runtime, release
    from orchestrator.harness.triton.device import launch_plan

    stage.enter("codegen", "fail")
    execute, first = what.cell.execute, what.chips[0]
    if not execute and not isinstance(stage.context.toolchain, ReleaseToolchain):
        return made  # nothing here makes the runtime that a bundle needs
    target = stage.context.scratch / "runtime.so"
    library = link_runtime(release(stage), first.target.driver, target)
    _leave_bundle(what, stage, made, library)
    if not execute:
        return made
    stage.enter("execute", "fail")
    with loaded(library) as runtime:
        executed = launch_plan(what.compiler.plan(first), runtime)
    return replace(
        made, outputs=executed.outputs, device=executed.device, kernel_ns=executed.kernel_ns
    )


def _leave_bundle(what: _Program, stage: Stage, made: Made, library: Path) -> None:
    from orchestrator.harness.gpu import bundle
    from orchestrator.harness.gpu.targets import Built

    built = [
        Built(target=each.target, library=library, files=each.texts, facts=each.facts)
        for each in what.chips
    ]
    files = bundle.make(
        what.cell,
        entry="launch",
        loaded=what.loaded,
        results=[(port.element, port.shape) for port in made.results],
        golden=what.golden,
        built=built,
        versions={**stage.context.toolchain.versions(), **stage.context.ingress.versions()},
        plans={each.target.chip: what.compiler.plan(each) for each in what.chips},
    )
    stage.context.keep(bundle.archive_name(what.cell), bundle.zipped(files))
