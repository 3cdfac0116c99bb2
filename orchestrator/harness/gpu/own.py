"""Programs of a frontend that is a compiler of its own: compiled, interpreted or launched by it."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.context import Stage
from orchestrator.harness.ingress.base import Array, CompiledProgram, Loaded, OwnCompiler
from orchestrator.harness.made import Made
from orchestrator.job import Cell, Target


def compiled(cell: Cell, stage: Stage, loaded: Loaded, compiler: OwnCompiler) -> Made:
    """Compiles for the cell's targets and executes; where it compiles for none, interprets."""
    targets = [target for target in cell.targets if target.driver in compiler.DRIVERS]
    programs = [_compile(cell, stage, loaded, compiler, target) for target in targets]
    outputs: Sequence[Array] | None = None
    device: dict[str, str | int] = {}
    if cell.execute:
        if programs:
            outputs, device = _launch(stage, loaded, compiler, programs[0])
        else:
            stage.enter("execute", "fail")
            outputs = compiler.interpret(cell, loaded)
    return Made(
        results=compiler.results(loaded),
        outputs=outputs,
        kernels=tuple(fact for program in programs for fact in program.facts),
        device=device,
    )


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


def _launch(
    stage: Stage, loaded: Loaded, compiler: OwnCompiler, program: CompiledProgram
) -> tuple[Sequence[Array], dict[str, str | int]]:
    from orchestrator.harness.gpu.execute import loaded as opened
    from orchestrator.harness.gpu.targets import link_runtime, release

    stage.enter("codegen", "fail")
    driver = program.target.driver
    library = link_runtime(release(stage), driver, stage.context.scratch / "runtime.so")
    stage.enter("execute", "fail")
    with opened(library) as runtime:
        return compiler.launch(program, loaded, runtime), dict(runtime.describe())
