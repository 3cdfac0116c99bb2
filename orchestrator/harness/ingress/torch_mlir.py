"""PyTorch through torch-mlir's FX importer, with parameters and buffers lifted to arguments.

Lifted, a model's IR stays small however big it is, and one lowering serves any weights.
"""

from __future__ import annotations

import copy
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from orchestrator.harness import formula, tensors
from orchestrator.harness.blame import CompilerFault, DefinitionFault
from orchestrator.harness.elements import parse
from orchestrator.harness.formula import FormulaSpec
from orchestrator.harness.ingress.base import (
    Exported,
    Loaded,
    Port,
    Reference,
    import_workload,
)
from orchestrator.job import Cell

NEEDS = ("Model", "get_inputs")
"""What a workload must define."""
_ENTRY = "forward"
_SEED = 20_240_229
_RUNNING_STATISTICS = ("running_mean", "running_var")


class Program:
    """A model in its variant's type: state by name, positional inputs, dynamic dimensions."""

    def __init__(
        self, model: Any, state: Mapping[str, Any], inputs: Sequence[Any], dynamic: Sequence[Any]
    ) -> None:
        """Takes the `nn.Module` in eval mode and what it will be called with.

        Inputs that are no tensors (a scalar, a flag) are part of the program, not arguments.
        """
        import torch

        self.model = model
        self.state = dict(state)
        self.call = tuple(inputs)
        self.positions = tuple(i for i, v in enumerate(inputs) if isinstance(v, torch.Tensor))
        self.dynamic = tuple(tuple(pair) for pair in dynamic)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The tensors among what it is called with."""
        return tuple(self.call[i] for i in self.positions)

    def with_inputs(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """What to call the model with, given other tensors."""
        call = list(self.call)
        for position, tensor in zip(self.positions, tensors, strict=True):
            call[position] = tensor
        return tuple(call)


def warm_up() -> None:
    """Imports torch and torch-mlir and exports a tiny model, which is most of a first export."""
    import torch

    # torch-mlir copies trees of arguments in a way that torch deprecates: no news for anyone
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")
    torch.set_num_threads(1)  # cells run side by side; and threads would not survive a fork
    model = torch.nn.Linear(2, 2)
    state = {name: value.detach() for name, value in _state(model).items()}
    program = Program(model, state, (torch.zeros(1, 2),), ())
    _import(_lifted(program), program, "linalg-on-tensors")


def versions() -> Mapping[str, str]:
    """Of the frontend."""
    return {name: version(name) for name in ("torch", "torch-mlir", "numpy")}


def frontend_opt() -> Path | None:
    """`torch-mlir-opt` beside this interpreter."""
    found = shutil.which("torch-mlir-opt", path=str(Path(sys.executable).parent))
    return Path(found) if found else None


def load(cell: Cell, folder: Path) -> Loaded:
    """Makes the model in eval mode and its inputs, by formula when the cell asks for it."""
    import torch

    module = import_workload(cell.workload, folder, NEEDS)
    torch.manual_seed(_SEED)
    arguments: Any = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    by_name = isinstance(arguments, dict)
    model = module.Model(**arguments) if by_name else module.Model(*arguments)
    if not isinstance(model, torch.nn.Module):
        raise DefinitionFault(f"{cell.workload.file}: Model is no torch.nn.Module")
    inputs = list(module.get_inputs())
    with torch.no_grad():
        model.eval()
        state = _state(model)
        formulas = _formulas(cell, state, inputs)
        values = zip([*state.values(), *inputs], formulas, strict=True)
        filled = [tensors.cast(tensors.filled(value, spec), cell.variant) for value, spec in values]
    state = dict(zip(state, filled, strict=False))
    inputs = filled[len(state) :]
    program = Program(model, state, inputs, getattr(module, "DYNAMIC_DIMS", ()))
    passed = [*state.values(), *program.inputs]
    kept = (*range(len(state)), *(len(state) + i for i in program.positions))
    return Loaded(
        program=program,
        arguments=tuple(tensors.bits(t) for t in passed),
        formulas=tuple(formulas[i] for i in kept),
    )


def reference(loaded: Loaded) -> Reference:
    """Eager PyTorch on the very same numbers, widened to float64 where the model allows it."""
    import torch

    program: Program = loaded.program
    with torch.no_grad():
        try:
            outputs = _call(program, _widen)
            source = "eager@f64"
        except RuntimeError:  # an operator without a float64 kernel, or a hard-wired type
            outputs = _call(program, lambda tensor: tensor)
            source = "eager"
    arrays = []
    for output in outputs:
        wide = output.to(torch.float64) if output.is_floating_point() else output
        arrays.append(wide.detach().contiguous().numpy())
    return Reference(outputs=tuple(arrays), source=source)


def export(cell: Cell, loaded: Loaded) -> Exported:
    """Through `torch.export` and torch-mlir to the dialect that the pipeline asks for."""
    output = cell.ingress_options.get("output", "linalg-on-tensors")
    program: Program = loaded.program
    try:
        module = _import(_lifted(program), program, output)
    except MemoryError:
        raise
    except Exception as error:
        raise CompilerFault(_reason(error)) from error
    return Exported(
        ir=str(module.operation.get_asm(print_generic_op_form=True)),
        entry=_ENTRY,
        results=_results(module),
    )


def _state(model: Any) -> dict[str, Any]:
    """Parameters and buffers by name, tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _lifted(program: Program) -> Any:
    """A module whose arguments are the state, then the inputs."""
    import torch

    names = tuple(program.state)
    skeleton = copy.deepcopy(program.model).to("meta")

    class Lifted(torch.nn.Module):  # type: ignore[misc]  # torch is not installed here
        def forward(self, *arguments: Any) -> Any:
            state = dict(zip(names, arguments[: len(names)], strict=True))
            call = program.with_inputs(arguments[len(names) :])
            return torch.func.functional_call(skeleton, state, call, tie_weights=True)

    return Lifted()


def _import(lifted: Any, program: Program, output: str) -> Any:
    import torch
    from torch_mlir import fx

    arguments = [*program.state.values(), *program.inputs]
    dynamic = None
    if program.dynamic:
        marks: list[dict[int, Any]] = [{} for _ in arguments]
        for position, axis in program.dynamic:
            argument = len(program.state) + program.positions.index(position)
            marks[argument][axis] = torch.export.Dim.AUTO
        dynamic = {"arguments": tuple(marks)}
    return fx.export_and_import(
        lifted, *arguments, output_type=output, func_name=_ENTRY, dynamic_shapes=dynamic
    )


def _results(module: Any) -> tuple[Port, ...]:
    from torch_mlir.ir import RankedTensorType, StringAttr

    for operation in module.body.operations:
        if StringAttr(operation.attributes["sym_name"]).value == _ENTRY:
            results = operation.type.results
            break
    else:
        raise CompilerFault(f"the frontend left no function {_ENTRY}")
    ports = []
    for kind in results:
        if not isinstance(kind, RankedTensorType):
            raise CompilerFault(f"the frontend returns {kind}, which is no ranked tensor")
        sizes = tuple(
            -1 if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis)
            for axis in range(kind.rank)
        )
        ports.append(Port(element=parse(str(kind.element_type)), shape=sizes))
    return tuple(ports)


def _call(program: Program, convert: Any) -> tuple[Any, ...]:
    import torch

    model = copy.deepcopy(program.model)
    state = {name: convert(value) for name, value in program.state.items()}
    call = program.with_inputs([convert(value) for value in program.inputs])
    result = torch.func.functional_call(model, state, call, tie_weights=True)
    flat = torch.utils._pytree.tree_leaves(result)  # noqa: SLF001  torch has no public name for it
    for position, value in enumerate(flat):
        if not isinstance(value, torch.Tensor):
            raise DefinitionFault(f"output {position} is {type(value).__name__}, not a tensor")
    return tuple(flat)


def _widen(tensor: Any) -> Any:
    return tensor.double() if tensor.is_floating_point() else tensor


def _formulas(
    cell: Cell, state: Mapping[str, Any], inputs: Sequence[Any]
) -> list[FormulaSpec | None]:
    """For each of the state, then for each of the inputs; None: it stays as the module made it."""
    if cell.workload.inputs != "signed":
        return [None] * (len(state) + len(inputs))
    return [
        *(_state_formula(name, value) for name, value in state.items()),
        *(tensors.input_formula(position, value) for position, value in enumerate(inputs)),
    ]


def _state_formula(name: str, value: Any) -> FormulaSpec | None:
    """Of parameters and running statistics; other buffers are the model's own tables."""
    import torch

    statistic = name.rsplit(".", 1)[-1] in _RUNNING_STATISTICS
    if not value.is_floating_point() or not (isinstance(value, torch.nn.Parameter) or statistic):
        return None
    return formula.for_parameter(name, value.detach().double().numpy())


def _reason(error: Exception) -> str:
    """The telling lines of a frontend's exception: which operation, and why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line]
    head = (telling or lines or [type(error).__name__])[:3]
    return "\n".join(line[:400] for line in head)
