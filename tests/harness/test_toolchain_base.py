"""What both toolchains share: reading IR and diagnostics, writing pipelines, calling code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from orchestrator.harness.toolchains.base import (
    SCHEDULE,
    call,
    first_errors,
    operations,
    pass_pipeline,
)
from orchestrator.job import Step
from tests.harness.fakes import PythonKernel

IR = """\
"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xf32>) -> (), sym_name = "linalg.generic"}> ({
  ^bb0(%arg0: memref<4xf32>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1.0 : f32}> : () -> f32
    %2:2 = "test.two_results"(%0) {note = "see \\"tensor.pad\\"(%0)"} : (index) -> (f32, f32)
    "linalg.generic"(%1, %arg0) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg1: f32, %arg2: f32):
      "linalg.yield"(%arg1) : (f32) -> ()
    }) : (f32, memref<4xf32>) -> ()
    "transform.structured.match"() : () -> ()
    "cf.br"()[^bb1] : () -> ()
  ^bb1:
    "func.return"() : () -> ()
  }) : () -> ()
}) {torch.name = "aten.mm"} : () -> ()
"""


def test_operations_are_counted_and_nothing_else() -> None:
    assert operations(IR) == {
        "builtin.module": 1,
        "func.func": 1,
        "arith.constant": 2,
        "test.two_results": 1,
        "linalg.generic": 1,
        "linalg.yield": 1,
        "transform.structured.match": 1,
        "cf.br": 1,
        "func.return": 1,
    }


def test_no_operations_in_no_module() -> None:
    assert not operations("")


@pytest.mark.parametrize(
    ("passes", "library", "pipeline"),
    [
        ("cse", None, "builtin.module(cse)"),
        ("", None, "builtin.module()"),
        ("func.func(a,b{x=1 y=2})", None, "builtin.module(func.func(a,b{x=1 y=2}))"),
        (
            "",
            Path("/t/s.mlir"),
            (
                "builtin.module(transform-preload-library{transform-library-paths=/t/s.mlir},"
                "transform-interpreter)"
            ),
        ),
        (
            "cse",
            Path("/t/s.mlir"),
            (
                "builtin.module(cse,transform-preload-library{transform-library-paths=/t/s.mlir},"
                "transform-interpreter)"
            ),
        ),
    ],
)
def test_pipelines_are_anchored_at_the_module(
    passes: str, library: Path | None, pipeline: str
) -> None:
    assert pass_pipeline(Step(tool="mlir-opt", passes=passes), library) == pipeline


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("<stdin>:2:8: error: op failed", "error: op failed"),
        ("-:2:8: error: op failed", "error: op failed"),
        ("/tmp/x/in.mlir:2:8: error: op failed", "error: op failed"),
        ("/tmp/cell-x/module.ll:9:3: error: no such type", "error: no such type"),
        ('loc("-":3:4): error: op failed', "error: op failed"),
        ("<unknown>:0: error: no such pass", "error: no such pass"),
        ('error: "-":1:10: op failed', "error: op failed"),
        (f"/tmp/tmp1/{SCHEDULE}:4:14: error: bad", "schedule:4:14: error: bad"),
        (f'error: "/tmp/tmp1/{SCHEDULE}":4:14: bad', "error: schedule:4:14: bad"),
        ("ld.lld: error: undefined symbol: f", "ld.lld: error: undefined symbol: f"),
        ("LLVM ERROR: out of memory", "LLVM ERROR: out of memory"),
        ("mlir-opt: X.cpp:7: Assertion `x' failed.", "mlir-opt: X.cpp:7: Assertion `x' failed."),
        ("<unknown>:0: error: ", ""),
        ("<stdin>:2:8: note: see current operation", ""),
        ("<stdin>:2:8: warning: odd", ""),
    ],
)
def test_diagnostics_are_told_without_temporary_places(line: str, told: str) -> None:
    assert first_errors(f"noise\n  {line}  \n   ^\n") == told


def test_the_first_three_different_errors_are_told() -> None:
    lines = ["a", "a", "a", "a", "b", "note", "c", "d"]
    text = "\n".join(f"<stdin>:{i}:1: error: {name}" for i, name in enumerate(lines))
    assert first_errors(text.replace("error: note", "note: n")) == "error: a\nerror: b\nerror: c"
    assert first_errors(text, limit=1) == "error: a"


def described(arrays: Sequence[npt.NDArray[np.generic]]) -> list[tuple[int, ...]]:
    """The words of the descriptors that compiled code gets for arrays."""
    found: list[tuple[int, ...]] = []

    def read(descriptors: Sequence[int]) -> None:
        for address, array in zip(descriptors, arrays, strict=True):
            words = (ctypes.c_int64 * (3 + 2 * array.ndim)).from_address(address)
            found.append(tuple(words))

    call(PythonKernel(read), arrays)
    return found


BASE: npt.NDArray[Any] = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
VIEWS: dict[str, npt.NDArray[Any]] = {
    "whole": BASE,
    "transposed": BASE.T,
    "every other": BASE[:, ::2, 1::2],
    "backwards": BASE[::-1],
    "one row": BASE[1, 2],
    "scalar": np.array(7.0),
    "empty": np.zeros((0, 3), np.int8),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_descriptor_describes_its_array(view: npt.NDArray[Any]) -> None:
    ((allocated, pointer, offset, *rest),) = described([view])
    assert allocated == pointer == view.ctypes.data
    assert offset == 0
    assert tuple(rest[: view.ndim]) == view.shape
    strides = rest[view.ndim :]
    assert tuple(s * view.itemsize for s in strides) == view.strides


def test_arguments_keep_their_order_and_ranks() -> None:
    arrays = [VIEWS["scalar"], VIEWS["whole"], VIEWS["one row"]]
    assert [len(words) for words in described(arrays)] == [3, 9, 5]


def test_what_the_kernel_writes_arrives() -> None:
    target: npt.NDArray[Any] = np.zeros((2, 2), np.int32)

    def write(descriptors: Sequence[int]) -> None:
        (address,) = descriptors
        pointer = ctypes.c_void_p.from_address(address + 8).value
        (ctypes.c_int32 * 4).from_address(pointer or 0)[3] = 42

    call(PythonKernel(write), [target])
    assert target.tolist() == [[0, 0], [0, 42]]
