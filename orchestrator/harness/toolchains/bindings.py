"""MLIR's Python bindings in the frontend's wheel: passes and just-in-time code in process.

A pass that crashes takes the process with it, which is why every cell has its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.harness.blame import CompilerFault, DefinitionFault
from orchestrator.harness.toolchains.base import (
    Kernel,
    definition_errors,
    first_errors,
    written,
)
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Step


@dataclass(frozen=True, kw_only=True)
class JitCode:
    """Code that an execution engine holds."""

    engine: Any
    symbol: str

    def invoke(self, descriptors: Sequence[int]) -> None:
        """Calls the entry function through the engine's packed interface.

        It takes an array of pointers to the arguments, which are themselves pointers here.
        """
        address = self.engine.raw_lookup(self.symbol)
        if not address:
            raise CompilerFault(f"the compiled code has no symbol {self.symbol}")
        arguments = [ctypes.c_void_p(descriptor) for descriptor in descriptors]
        packed = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(packed))


@dataclass(frozen=True)
class BindingsToolchain:
    """The MLIR of the torch-mlir wheel."""

    frontend_opt: Path | None
    name: str = "bindings"

    def versions(self) -> Mapping[str, str]:
        """The wheel's own MLIR has no number: the wheel's version names it."""
        from importlib.metadata import version

        from torch_mlir import execution_engine, ir, passmanager  # noqa: F401  they must load

        return {"mlir-bindings": f"torch-mlir {version('torch-mlir')}"}

    def apply(self, step: Step, ir: str) -> str:
        """A module after one step, in generic form."""
        if step.tool == "frontend-opt":
            # the bindings do not register the frontend's passes; its command-line tool does
            return ReleaseToolchain(Path("/nonexistent"), self.frontend_opt).apply(step, ir)
        from torch_mlir.ir import Context, MLIRError, Module
        from torch_mlir.passmanager import PassManager

        with written(step) as pipeline, Context() as context:
            context.enable_multithreading(False)
            try:
                module = Module.parse(ir)
            except MLIRError as error:
                raise CompilerFault(_message(error)) from error
            try:
                passes = PassManager.parse(pipeline)
            except (MLIRError, ValueError) as error:
                raise DefinitionFault(f"{step.source}: {_message(error)}") from error
            try:
                passes.run(module.operation)
            except MLIRError as error:
                if definition := definition_errors(str(error)):
                    raise DefinitionFault(f"{step.source}: {definition}") from error
                raise CompilerFault(_message(error)) from error
            return str(module.operation.get_asm(print_generic_op_form=True))

    def compile(self, ir: str, entry: str, scratch: Path) -> Kernel:
        """Compiles at -O3 for this CPU; the code lives as long as the returned object."""
        del scratch  # nothing is written
        from torch_mlir.execution_engine import ExecutionEngine
        from torch_mlir.ir import Context, MLIRError, Module

        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
        with Context():
            try:
                engine = ExecutionEngine(Module.parse(ir), opt_level=3)
            except (MLIRError, RuntimeError) as error:
                raise CompilerFault(_message(error)) from error
        return JitCode(engine=engine, symbol=f"_mlir_ciface_{entry}")


def _message(error: Exception) -> str:
    text = str(error)
    return first_errors(text) or text.strip().splitlines()[0]
