"""JAX functions exported as StableHLO; torch-mlir's wheel legalizes it further, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.harness import formula
from orchestrator.harness.blame import CompilerFault, DefinitionFault
from orchestrator.harness.elements import ElementType
from orchestrator.harness.formula import FormulaSpec
from orchestrator.harness.ingress.base import (
    Array,
    Exported,
    Loaded,
    Port,
    Reference,
    import_workload,
)
from orchestrator.harness.ingress.torch_mlir import frontend_opt
from orchestrator.job import Cell

__all__ = ["export", "frontend_opt", "load", "reference", "versions", "warm_up"]

NEEDS = ("model", "get_inputs")
"""What a workload must define."""
_ENTRY = "main"
_SEED = 20_240_229
_FLOAT_VARIANTS = ("f16", "bf16", "f32", "f64")
_ELEMENTS: dict[str, ElementType] = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "bool": "i1",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}
_TYPES = {element: name for name, element in _ELEMENTS.items()}


class Program:
    """A function and the arrays it is called with."""

    def __init__(self, function: Any, inputs: Sequence[Any]) -> None:
        """Takes the workload's `model` and its inputs in the variant's type."""
        self.function = function
        self.inputs = tuple(inputs)


def warm_up() -> None:
    """Imports JAX; its backend, whose threads a fork would lose, is left to each cell."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def versions() -> Mapping[str, str]:
    """Of the frontend."""
    return {name: version(name) for name in ("jax", "jaxlib", "torch-mlir", "numpy")}


def load(cell: Cell, folder: Path) -> Loaded:
    """Makes the inputs, by formula when the cell asks for it."""
    module = import_workload(cell.workload, folder, NEEDS)
    np.random.seed(_SEED)
    inputs = [np.asarray(value) for value in module.get_inputs()]
    signed = cell.workload.inputs == "signed"
    formulas = [_formula(i, value) if signed else None for i, value in enumerate(inputs)]
    inputs = [
        _cast(
            value if spec is None else spec.numbers(value.shape).astype(value.dtype), cell.variant
        )
        for value, spec in zip(inputs, formulas, strict=True)
    ]
    return Loaded(
        program=Program(module.model, inputs),
        arguments=tuple(_bits(value) for value in inputs),
        formulas=tuple(formulas),
    )


def reference(loaded: Loaded) -> Reference:
    """JAX itself, compiled by XLA in float64, on the very same numbers."""
    import jax

    program: Program = loaded.program
    with jax.enable_x64(True):
        wide = [_widen(value) for value in program.inputs]
        outputs = jax.tree_util.tree_leaves(program.function(*wide))
        arrays = [np.asarray(value) for value in outputs]
    return Reference(
        outputs=tuple(
            a.astype(np.float64) if a.dtype.name.startswith(("float", "bfloat")) else a
            for a in arrays
        ),
        source="jax@f64",
    )


def export(cell: Cell, loaded: Loaded) -> Exported:
    """JAX's own lowering for the CPU, in generic form."""
    del cell  # no options
    import jax

    program: Program = loaded.program
    shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in program.inputs]
    try:
        lowered = jax.jit(program.function).lower(*shapes)
        module = lowered.compiler_ir("stablehlo")
        ir = str(module.operation.get_asm(print_generic_op_form=True))
    except MemoryError:
        raise
    except Exception as error:
        message = str(error).strip() or type(error).__name__
        raise CompilerFault(message.splitlines()[0][:400]) from error
    results = tuple(_port(leaf) for leaf in jax.tree_util.tree_leaves(lowered.out_info))
    return Exported(ir=ir, entry=_ENTRY, results=results)


def _port(aval: Any) -> Port:
    name = np.dtype(aval.dtype).name
    if name not in _ELEMENTS:
        raise DefinitionFault(f"an output of type {name} cannot be passed out")
    return Port(element=_ELEMENTS[name], shape=tuple(int(n) for n in aval.shape))


def _formula(position: int, value: Array) -> FormulaSpec | None:
    return formula.for_input(position) if _is_float(value) else None


def _is_float(value: Array) -> bool:
    return _ELEMENTS.get(value.dtype.name, "i1") in _FLOAT_VARIANTS


def _cast(value: Array, variant: str) -> Array:
    if variant not in _FLOAT_VARIANTS or not _is_float(value):
        return value
    import jax.numpy as jnp  # knows bfloat16

    return value.astype(jnp.dtype(_TYPES[_variant(variant)]))


def _variant(name: str) -> ElementType:
    from orchestrator.harness.elements import parse

    return parse(name)


def _widen(value: Array) -> Array:
    return value.astype(np.float64) if _is_float(value) else value


def _bits(value: Array) -> tuple[ElementType, Array]:
    name = value.dtype.name
    if name not in _ELEMENTS:
        raise DefinitionFault(f"an input of type {name} cannot be passed in")
    array = np.ascontiguousarray(value)
    return _ELEMENTS[name], array.view(np.uint16) if name == "bfloat16" else array
