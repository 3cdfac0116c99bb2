"""Two attempts share a fingerprint exactly when nothing that could matter differed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orchestrator.job import Cell, Golden, RecipeRun, Step, Target, Tolerance, Workload
from orchestrator.results.fingerprint import DIGEST, fingerprint, parts

STEP = Step(tool="mlir-opt", passes="cse", source="recipes/schedules/a.yaml:7")
RECIPE = RecipeRun(name="a", steps=(STEP,))
MOVED = RecipeRun(name="a", steps=(dataclasses.replace(STEP, source="b.yaml:9"),))
TARGET = Target(driver="cuda", chip="sm_90", kernels=(RECIPE,), host=(RECIPE,))
CELL = Cell(
    id="torch_cpu.mlp.f32@intel-cpu",
    pipeline="torch_cpu",
    workload=Workload(name="mlp", file="workloads/mlp.py", sha256="aa", constants={"BATCH": 8}),
    variant="f32",
    pool="intel-cpu",
    ingress="torch_mlir",
    recipes=(RECIPE,),
    targets=(TARGET,),
    golden=Golden(file="golden/mlp/f32.npz", sha256="bb", size=3, inputs_sha256="cc"),
    tolerance={"f32": Tolerance(rtol=1e-6, atol=1e-5, reason="table")},
)
CONTEXT: dict[str, Any] = {
    "environment": "sha256:1",
    "toolchain": "release",
    "versions": {"torch": "2.13.0"},
    "hardware": {"cpu_model": "Intel", "cpu_flags": "avx2", "cpus": 2, "memory_bytes": 7},
    "harness_sha256": "dd",
}


def of(cell: Cell = CELL, **context: Any) -> str:
    return fingerprint(cell, **{**CONTEXT, **context})


def test_it_is_the_same_for_the_same() -> None:
    assert of() == of(dataclasses.replace(CELL))
    assert len(of()) == 32


@pytest.mark.parametrize(
    "changed",
    [
        {"keep": "always"},
        {"recipes": (RecipeRun(name="a", steps=(dataclasses.replace(STEP, source="b.yaml:9"),)),)},
        {"workload": dataclasses.replace(CELL.workload, file="workloads/elsewhere.py")},
        {"targets": (dataclasses.replace(TARGET, kernels=(MOVED,), host=(MOVED,)),)},
    ],
)
def test_it_ignores_what_changes_no_outcome(changed: dict[str, Any]) -> None:
    assert of(dataclasses.replace(CELL, **changed)) == of()


def test_it_ignores_how_much_memory_was_there_at_boot() -> None:
    assert of(hardware={**CONTEXT["hardware"], "memory_bytes": 8}) == of()


@pytest.mark.parametrize(
    "changed",
    [
        {"recipes": (RecipeRun(name="a", steps=(dataclasses.replace(STEP, passes="x"),)),)},
        {"workload": dataclasses.replace(CELL.workload, sha256="ab")},
        {"workload": dataclasses.replace(CELL.workload, constants={"BATCH": 9})},
        {"golden": None},
        {"tolerance": {}},
        {"variant": "f64"},
        {"timeout_s": 1.0},
        {"memory_bytes": 1},
        {"ingress_options": {"a": "b"}},
        {"targets": (dataclasses.replace(TARGET, chip="sm_80"),)},
    ],
)
def test_it_differs_when_the_cell_does(changed: dict[str, Any]) -> None:
    assert of(dataclasses.replace(CELL, **changed)) != of()


@pytest.mark.parametrize(
    "context",
    [
        {"environment": "sha256:2"},
        {"toolchain": "bindings"},
        {"versions": {"torch": "2.14.0"}},
        {"hardware": {**CONTEXT["hardware"], "cpu_flags": "avx2 avx512f"}},
        {"hardware": {**CONTEXT["hardware"], "gpu_driver": "560.28"}},
        {"harness_sha256": "de"},
    ],
)
def test_it_differs_when_the_surroundings_do(context: dict[str, Any]) -> None:
    assert of(**context) != of()


def test_its_parts_tell_what_no_other_field_of_a_result_does() -> None:
    found = parts(CELL, "dd" * 32)
    digests = {name for name, value in found.items() if DIGEST.fullmatch(value)}
    assert digests == {
        "recipe a",
        "recipe a for cuda sm_90",
        "recipe a for cuda sm_90 (2)",
        "golden",
        "tolerance",
        "ingress options",
        "harness",
    }
    assert {name: found[name] for name in sorted(set(found) - digests)} == {
        "execute": "True",
        "ingress": "torch_mlir",
        "memory": str(4 << 30),
        "timeout": "60.0",
    }


def test_a_part_changes_with_what_it_stands_for_alone() -> None:
    other = RecipeRun(name="a", steps=(dataclasses.replace(STEP, passes="canonicalize"),))
    before, after = parts(CELL, "d"), parts(dataclasses.replace(CELL, recipes=(other,)), "d")
    assert [name for name in before if before[name] != after[name]] == ["recipe a"]
    assert parts(dataclasses.replace(CELL, recipes=(MOVED,), targets=(TARGET,)), "d") == before
    assert "golden" not in parts(dataclasses.replace(CELL, golden=None), "d")
