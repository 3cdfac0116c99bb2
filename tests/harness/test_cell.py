"""One cell from its workload to its verdict, with fakes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from orchestrator.harness.blame import CompilerFault, DefinitionFault, MachineFault
from orchestrator.harness.ingress.base import Port
from tests.harness import fakes
from tests.harness.incell import Surroundings, ir


def test_stages_are_marked_before_they_begin_with_who_is_at_fault(
    context: Surroundings, tmp_path: Path
) -> None:
    recipe = fakes.recipe("focus", "p")
    passes = {"p": lambda text: text + ir("llvm.func")}
    found = context.run(fakes.cell(tmp_path, recipes=(recipe,)), passes=passes)
    assert (found.status, found.golden) == ("pass", "computed")
    assert context.stages() == [
        ("ingress", "error"),
        ("ingress", "fail"),
        ("lower:focus", "fail"),
        ("codegen", "fail"),
        ("execute", "fail"),
        ("compare", "error"),
    ]
    kept = context.scratch / "kept"
    names = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert names == {
        "ir/00-ingress.mlir",
        "ir/01-focus.mlir",
        "inputs.npz",
        "outputs.npz",
        "golden.npz",
    }
    assert (kept / "ir/01-focus.mlir").read_text().endswith(ir("llvm.func"))


def test_wrong_numbers_are_told_with_their_place(context: Surroundings, tmp_path: Path) -> None:
    def wrong(descriptors: Sequence[int]) -> None:
        fakes.double(descriptors)
        fakes.vector(descriptors[1], 4)[3] = 5

    found = context.run(fakes.cell(tmp_path), kernel=wrong)
    assert (found.status, found.phase) == ("fail", "compare")
    assert found.message == (
        "output 0: 1 of 4 elements off, worst 3 at [3] (got 5, golden 2; "
        "allowed 1e-06 rel + 1e-06 abs)\npattern: a single element"
    )


def test_an_output_that_nobody_wrote_is_wrong(context: Surroundings, tmp_path: Path) -> None:
    found = context.run(fakes.cell(tmp_path), kernel=lambda _: None)
    assert found.status == "fail"
    assert "4 of 4 elements off" in found.message
    assert np.isnan(found.errors[0].worst_got)


def test_code_that_writes_its_input_is_wrong(context: Surroundings, tmp_path: Path) -> None:
    def overwrite(descriptors: Sequence[int]) -> None:
        fakes.double(descriptors)
        fakes.vector(descriptors[0], 4)[0] = 7

    found = context.run(fakes.cell(tmp_path), kernel=overwrite)
    assert (found.status, found.phase) == ("fail", "execute")
    assert found.message == "the compiled code overwrote its argument 0"


F32, I64 = Port(element="f32", shape=(4,)), Port(element="i64", shape=(4,))
TYPES: dict[str, tuple[list[Port], str]] = {
    "number": ([F32, F32], "the program has 2 outputs, its golden 1"),
    "rank": ([Port(element="f32", shape=(2, 2))], "an output of rank 2, its golden 1"),
    "shape": ([Port(element="f32", shape=(5,))], "output 0 is (5,), its golden (4,)"),
    "type": ([I64], "output 0 is i64, its golden float64"),
}


@pytest.mark.parametrize(("ports", "message"), TYPES.values(), ids=TYPES.keys())
def test_outputs_of_another_type_than_the_golden_are_the_compilers_fault(
    context: Surroundings, tmp_path: Path, ports: list[Port], message: str
) -> None:
    found = context.run(fakes.cell(tmp_path), ports=ports, kernel=lambda _: None)
    assert (found.status, found.message) == ("fail", message)


def test_a_size_known_only_at_run_time_is_the_goldens(
    context: Surroundings, tmp_path: Path
) -> None:
    found = context.run(fakes.cell(tmp_path), ports=[Port(element="f32", shape=(-1,))])
    assert found.status == "pass"


def test_a_missing_tolerance_is_our_own_fault(context: Surroundings, tmp_path: Path) -> None:
    found = context.run(fakes.cell(tmp_path, tolerance={}))
    assert (found.status, found.phase) == ("error", "compare")
    assert found.message == "golden/tolerances.yaml has no tolerance for f32"


def test_a_framework_that_computes_nan_has_no_golden(context: Surroundings, tmp_path: Path) -> None:
    nan = np.array([1, np.nan, np.nan, 1])
    found = context.run(fakes.cell(tmp_path), outputs=lambda: [np.zeros(4), nan])
    assert (found.status, found.phase) == ("error", "ingress")
    assert found.message == (
        "workloads/doubling.py: output 1 is NaN in 2 of 4 elements when the framework itself "
        "computes it"
    )


def test_a_program_without_outputs_is_no_workload(context: Surroundings, tmp_path: Path) -> None:
    found = context.run(fakes.cell(tmp_path), outputs=list)
    assert found.message == "workloads/doubling.py: the workload returns no tensor"


def test_a_workload_that_changed_since_it_was_planned_gets_no_verdict(
    context: Surroundings, tmp_path: Path
) -> None:
    cell = fakes.cell(tmp_path)
    (tmp_path / cell.workload.file).write_text("")
    found = context.run(cell)
    assert found.status == "miss"
    assert found.message == "workloads/doubling.py is not the file that was planned"


def full(_: str) -> str:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def greedy(_: str) -> str:
    raise MemoryError


def broken(_: str) -> str:
    raise MachineFault("mlir-opt could not be run")


RAISED = {
    "full disk": (full, "miss", "no space left on the device"),
    "memory": (greedy, "fail", "out of memory (limit 4 GiB)"),
    "tool": (broken, "miss", "mlir-opt could not be run"),
}


@pytest.mark.parametrize(("raises", "status", "message"), RAISED.values(), ids=RAISED.keys())
def test_what_a_toolchain_raises_is_blamed_on_its_layer(
    context: Surroundings, tmp_path: Path, raises: Callable[[str], str], status: str, message: str
) -> None:
    cell = fakes.cell(tmp_path, recipes=(fakes.recipe("focus", "p"),))
    found = context.run(cell, passes={"p": raises})
    assert (found.status, found.phase, found.message) == (status, "lower:focus", message)


def test_faults_carry_their_status() -> None:
    kinds = (CompilerFault, DefinitionFault, MachineFault)
    assert [kind("why").status for kind in kinds] == ["fail", "error", "miss"]
    assert str(CompilerFault("why")) == "why"
