"""What files say about each other."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.config.tree import Tree

MATRIX = "matrix.yaml"
PINS = "images/pins.yaml"
TOLERANCES = "golden/tolerances.yaml"
TORCH = "recipes/pipelines/torch_cpu.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        # names in a pipeline
        (
            MATRIX,
            "stack: pytorch",
            "stack: pytroch",
            (
                "matrix.yaml:15:12  pipelines.torch_cpu.stack: no stack `pytroch`. "
                "Did you mean `pytorch`? Stacks: pytorch"
            ),
        ),
        (
            MATRIX,
            "[intel-cpu, amd-cpu]",
            "[gpu]",
            (
                "matrix.yaml:17:13  pipelines.torch_cpu.pools[0]: no pool `gpu`. "
                "Pools: amd-cpu, arm-cpu, intel-cpu"
            ),
        ),
        (
            MATRIX,
            "recipe: torch_cpu",
            "recipe: onnx",
            (
                "matrix.yaml:16:13  pipelines.torch_cpu.recipe: no recipe `onnx`. "
                "recipes/pipelines has: torch_cpu"
            ),
        ),
        (
            MATRIX,
            "- workloads: [mlp]",
            "- workloads: [mlp, jax_*]",
            (
                "matrix.yaml:22:26  pipelines.torch_cpu.runs[1].workloads[1]: "
                "`jax_*` matches no workload. Workloads: mlp, odd, sum"
            ),
        ),
        (
            MATRIX,
            "- workloads: [mlp]",
            "- workloads: [mlp, summ]",
            (
                "matrix.yaml:22:26  pipelines.torch_cpu.runs[1].workloads[1]: no workload `summ`. "
                "Did you mean `sum`? Workloads: mlp, odd, sum"
            ),
        ),
        (
            MATRIX,
            "without: [odd]",
            "without: [odd, even]",
            (
                "matrix.yaml:21:24  pipelines.torch_cpu.runs[0].without[1]: takes nothing away: "
                "no workload `even`. Workloads: mlp, odd, sum"
            ),
        ),
        (
            MATRIX,
            "without: [odd]",
            'without: ["*"]',
            "matrix.yaml:20:9  pipelines.torch_cpu.runs[0]: `without` leaves no workload",
        ),
        (
            MATRIX,
            "  mlp: {memory",
            "  mpl: {memory",
            (
                "matrix.yaml:25:3  workloads.mpl: no workload `mpl`. Did you mean `mlp`? "
                "Workloads: mlp, odd, sum"
            ),
        ),
        (
            TORCH,
            "frontend: torch_mlir",
            "frontend: torch-mlir",
            (
                f"{TORCH}:4:13  ingress.frontend: no ingress module `torch-mlir`. "
                "Did you mean `torch_mlir`? Ingress modules: torch_mlir"
            ),
        ),
        # stacks and pins
        (
            MATRIX,
            "  pytorch: {tier: core, about: PyTorch}",
            "  pytorch: {tier: core, about: PyTorch}\n  jax: {tier: core, about: JAX}",
            (
                "matrix.yaml:11:3  stacks.jax: images/jax/Dockerfile is missing\n"
                "matrix.yaml:11:3  stacks.jax: images/pins.yaml has no pins for it. It has: pytorch"
            ),
        ),
        (
            PINS,
            "stacks:\n",
            "stacks:\n  jax: {proven: 2026-01-01, python: ['3.11'], packages: {jax: '1'}}\n",
            "images/pins.yaml:8:3  stacks.jax: matrix.yaml has no stack `jax`. Stacks: pytorch",
        ),
        # tiers
        (
            MATRIX,
            "{tier: core, about: PyTorch}",
            "{tier: peripheral, about: PyTorch}",
            (
                "matrix.yaml:15:12  pipelines.torch_cpu.stack: a core pipeline cannot "
                "depend on the "
                "peripheral stack `pytorch`"
            ),
        ),
        (
            MATRIX,
            "[intel-cpu, amd-cpu]",
            "[intel-cpu, amd-cpu, arm-cpu]",
            (
                "matrix.yaml:17:33  pipelines.torch_cpu.pools[2]: a core pipeline cannot depend on "
                "the peripheral pool `arm-cpu`"
            ),
        ),
        (
            TORCH,
            "tier: core",
            "tier: peripheral",
            (
                "matrix.yaml:16:13  pipelines.torch_cpu.recipe: a core pipeline cannot depend on "
                "the peripheral recipe `torch_cpu`"
            ),
        ),
        # expectations
        (
            MATRIX,
            "cells: torch_cpu.mlp.f16@*",
            "cells: torch_cpu.mpl.f16@*",
            (
                "matrix.yaml:27:12  expectations[0].cells: `torch_cpu.mpl.f16@*` matches no cell. "
                "Did you mean `torch_cpu.mlp.f16@amd-cpu`? A cell is "
                "`pipeline.workload.variant@pool`"
            ),
        ),
        (
            MATRIX,
            'match: "failed to legalize"',
            'match: "fail("',
            (
                "matrix.yaml:29:12  expectations[0].match: not a regular expression: "
                "missing ), unterminated subpattern at position 4"
            ),
        ),
        (
            MATRIX,
            "phase: lower:to-llvm",
            "phase: lower:to-lvm",
            (
                "matrix.yaml:28:12  expectations[0].phase: no phase `lower:to-lvm`. Did you mean "
                "`lower:to-llvm`? Phases: build, codegen, compare, execute, ingress, lower:tile, "
                "lower:tile-2, lower:to-llvm, perf"
            ),
        ),
        # tolerances
        (
            TOLERANCES,
            "torch_cpu.*.f16@*",
            "torch_gpu.*.f16@*",
            (
                "golden/tolerances.yaml:6:13  overrides[0].cells: `torch_gpu.*.f16@*` matches no "
                "cell. Did you mean `torch_cpu.mlp.f16@amd-cpu`? "
                "A cell is `pipeline.workload.variant@pool`"
            ),
        ),
    ],
)
def test_one_slip(tree: Tree, file: str, old: str, new: str, said: str) -> None:
    tree.edit(file, old, new)
    assert tree.problems(goldens=False) == said.splitlines()


def test_no_dockerfile(tree: Tree) -> None:
    (tree.root / "images/pytorch/Dockerfile").unlink()
    assert tree.problems() == [
        "matrix.yaml:10:3  stacks.pytorch: images/pytorch/Dockerfile is missing"
    ]


def test_peripheral_pipelines_may_depend_on_anything(tree: Tree) -> None:
    tree.edit(
        MATRIX, "tier: core\n    about: PyTorch to", "tier: peripheral\n    about: PyTorch to"
    )
    tree.edit(MATRIX, "[intel-cpu, amd-cpu]", "[intel-cpu, amd-cpu, arm-cpu]")
    tree.edit(TORCH, "tier: core", "tier: peripheral")
    assert tree.problems() == []


def test_only_a_caller_who_knows_the_day_hears_of_expiry(tree: Tree) -> None:
    assert tree.problems() == []
    assert tree.problems(today=dt.date(2027, 1, 31)) == []
    assert tree.problems(today=dt.date(2027, 2, 1)) == [
        (
            "matrix.yaml:32:14  expectations[0].expires: expired. Fix tracked elsewhere, "
            "or look again and set a later day"
        )
    ]


def test_expectations_are_not_judged_by_a_matrix_with_holes(tree: Tree) -> None:
    tree.edit(MATRIX, "without: [odd]", "without: 3")
    assert tree.problems() == [
        (
            "matrix.yaml:21:18  pipelines.torch_cpu.runs[0].without: expected a list, "
            "got the number 3"
        )
    ]


def test_frontends_of_the_package_serve_where_the_repository_has_none(tree: Tree) -> None:
    for name in ("torch_mlir", "base", "__init__"):
        (tree.root / f"orchestrator/harness/ingress/{name}.py").unlink()
    (tree.root / "orchestrator/harness/ingress").rmdir()
    tree.edit(TORCH, "frontend: torch_mlir", "frontend: base")
    (said,) = tree.problems()
    assert said.startswith(f"{TORCH}:4:13  ingress.frontend: no ingress module `base`. ")


def test_a_workload_in_another_frontends_convention(tree: Tree) -> None:
    frontend = "orchestrator/harness/ingress/torch_mlir.py"
    tree.write(frontend, 'import torch\n\nNEEDS = ("Model", "get_inputs")\n')
    tree.edit(MATRIX, "without: [odd]", "without: [sum]")
    tree.record("odd", "f32")
    (said,) = tree.problems()
    assert said.partition("  ")[2] == (
        "pipelines.torch_cpu.runs[0].workloads: `odd` defines `model`; "
        "the frontend torch_mlir takes `Model`"
    )


def test_a_cell_is_expected_to_fail_in_one_way(tree: Tree) -> None:
    again = """\
  - cells: torch_cpu.*.f16@amd-cpu
    phase: codegen
    match: other
    reason: another
    issue: tracked elsewhere
    expires: 2027-01-31
    owner: maintainers
    since: 2026-11-20
"""
    text = (tree.root / "matrix.yaml").read_text()
    tree.write("matrix.yaml", text + again)
    (told,) = tree.problems()
    assert told.endswith(
        "expectations[1].cells: torch_cpu.mlp.f16@amd-cpu is expected to fail by "
        "`torch_cpu.mlp.f16@*` already: a cell fails in one way"
    )
