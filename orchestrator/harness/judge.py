"""Outputs held against goldens, wherever they were computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.compare.numeric import compare
from orchestrator.harness.blame import CompilerFault, DefinitionFault
from orchestrator.harness.elements import FLOATS, Array, ElementType
from orchestrator.job import OutputError, Tolerance

Result = tuple[ElementType, tuple[int, ...]]
"""Element type and shape of an output."""


def check_goldens(
    results: Sequence[Result], golden: Sequence[Array], tolerances: Mapping[str, Tolerance]
) -> None:
    """That each output can be compared with its golden at all.

    Raises:
        CompilerFault: the program's outputs are of another kind or shape.
        DefinitionFault: nobody said how close is close.
    """
    if len(results) != len(golden):
        raise CompilerFault(f"the program has {len(results)} outputs, its golden {len(golden)}")
    for index, ((element, shape), want) in enumerate(zip(results, golden, strict=True)):
        if (element in FLOATS) != (want.dtype.kind == "f"):
            raise CompilerFault(f"output {index} is {element}, its golden {want.dtype.name}")
        if shape != want.shape:
            raise CompilerFault(f"output {index} is {shape}, its golden {want.shape}")
        if element in FLOATS and element not in tolerances:
            raise DefinitionFault(f"golden/tolerances.yaml has no tolerance for {element}")


def judge(
    elements: Sequence[ElementType],
    outputs: Sequence[Array],
    golden: Sequence[Array],
    tolerances: Mapping[str, Tolerance],
) -> tuple[OutputError, ...]:
    """How far each output is from its golden. Raises as `check_goldens` does."""
    results = [(e, got.shape) for e, got in zip(elements, outputs, strict=True)]
    check_goldens(results, golden, tolerances)
    return tuple(
        compare(index, got, element, want, tolerances)
        for index, (element, got, want) in enumerate(zip(elements, outputs, golden, strict=True))
    )
