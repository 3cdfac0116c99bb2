"""PyTorch tensors as arguments: by formula, in a variant's type, as NumPy sees their bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from orchestrator.harness import formula
from orchestrator.harness.blame import DefinitionFault
from orchestrator.harness.elements import FLOATS, Array, ElementType, parse
from orchestrator.harness.formula import FormulaSpec

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


def input_formula(position: int, value: Any) -> FormulaSpec | None:
    """Of an input that is a tensor of floats; None: it stays as the workload made it."""
    import torch

    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return None
    return formula.for_input(position)


def filled(value: Any, spec: FormulaSpec | None) -> Any:
    """A tensor of the same shape and type with a formula's numbers; as it is without one."""
    import torch

    if spec is None:
        return value
    return torch.from_numpy(spec.numbers(tuple(value.shape))).to(value.dtype)


def cast(value: Any, variant: str) -> Any:
    """A contiguous tensor, of the variant's type when it is one of floats; other values as is."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    detached = value.detach()
    if variant not in FLOATS or not value.is_floating_point():
        return detached.contiguous()
    return detached.to(torch_type(parse(variant))).contiguous()


def torch_type(element: ElementType) -> Any:
    """PyTorch's type of an element."""
    import torch

    return getattr(torch, _TYPES[element])


def element_of(tensor: Any) -> ElementType:
    """The element type of a tensor.

    Raises:
        DefinitionFault: one that no cell can pass in or out.
    """
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _ELEMENTS:
        raise DefinitionFault(f"a tensor of type {tensor.dtype} cannot be passed in")
    return _ELEMENTS[name]


def bits(tensor: Any) -> tuple[ElementType, Array]:
    """A tensor's element type, and its bits in that type's storage.

    Raises:
        DefinitionFault: as `element_of`.
    """
    import torch

    element = element_of(tensor)
    if element == "bf16":
        return element, tensor.view(torch.int16).numpy().view(np.uint16)
    return element, tensor.numpy()
