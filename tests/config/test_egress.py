"""Egresses to GPUs: what a recipe declares, what pools ask for, what is told when they differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orchestrator.host import Gpu
from orchestrator.job import Contract, Target
from orchestrator.plan import plan_cells
from tests.config.tree import Tree, make_tree
from tests.test_plan import AMD

TORCH = "recipes/pipelines/torch_cpu.yaml"
KERNELS = "recipes/schedules/to-kernels.yaml"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The sample repository with a second pipeline, to GPUs."""
    tree = make_tree(tmp_path)
    tree.edit(
        "matrix.yaml",
        "stacks:\n",
        """\
  real: {tier: core, about: GPUs, gpu: {driver: cuda, device: nvidia}}
  soft: {tier: core, about: In software, gpu: {driver: vulkan, device: software}}
  cross: {tier: core, about: Any, gpu: {driver: cuda, device: none, chips: [sm_80, sm_90]}}
stacks:
""",
    )
    tree.edit(
        "matrix.yaml",
        "workloads:\n  mlp: {memory",
        """\
  torch_gpu:
    tier: core
    about: PyTorch to GPU code
    stack: pytorch
    recipe: torch_gpu
    pools: [real, soft, cross]
    runs:
      - workloads: [sum]
      - workloads: [mlp]
        variants: [f16]
        pools: [cross]
workloads:
  mlp: {memory""",
    )
    tree.write(
        "recipes/pipelines/torch_gpu.yaml",
        """\
about: From torch to kernels, for tests.
tier: core
ingress: {frontend: torch_mlir}
params:
  threads: {type: int, default: 32}
steps:
  - recipe: tile
    params: {size: "${threads}"}
egress:
  cuda:
    kernels:
      - recipe: to-kernels
        params: {chip: "${chip}"}
    host:
      - recipe: to-llvm
  vulkan:
    kernels:
      - recipe: to-kernels
        params: {chip: all}
    host:
      - recipe: to-llvm
""",
    )
    tree.write(
        KERNELS,
        """\
about: Kernels for a chip, for tests.
tier: core
params:
  chip: {type: str}
contract:
  present: [gpu.func]
check: to-kernels.check
steps:
  - pass: attach{chip=${chip}}
""",
    )
    tree.write("recipes/schedules/to-kernels.check", 'CHECK: chip = "${chip}"\n')
    return tree


def targets(tree: Tree, pool: str, host: object = AMD) -> tuple[Target, ...]:
    """Of the cell of `sum` on a pool."""
    cells = plan_cells(tree.load(), host)  # type: ignore[arg-type]
    (cell,) = [p.cell for p in cells if p.cell.id == f"torch_gpu.sum.f32@{pool}"]
    return cell.targets


def test_every_chip_of_a_cross_pool_is_a_target(tree: Tree) -> None:
    made = targets(tree, "cross")
    assert [(t.driver, t.chip) for t in made] == [("cuda", "sm_80"), ("cuda", "sm_90")]
    kernels = made[1].kernels[0]
    assert kernels.name == "to-kernels"
    assert [step.passes for step in kernels.steps] == ["attach{chip=sm_90}"]
    assert kernels.contract == Contract(present=("gpu.func",))
    assert kernels.check == 'CHECK: chip = "sm_90"\n'
    assert [recipe.name for recipe in made[1].host] == ["to-llvm"]


def test_a_pool_may_ask_for_another_egress_than_its_drivers(tree: Tree) -> None:
    tree.edit("matrix.yaml", "driver: vulkan", "driver: opencl, egress: xevm, chips: [pvc, bmg]")
    tree.edit("recipes/pipelines/torch_gpu.yaml", "  vulkan:", "  xevm:")
    made = targets(tree, "soft")
    assert [(t.driver, t.chip) for t in made] == [("opencl", "pvc"), ("opencl", "bmg")]
    assert [step.passes for step in made[0].kernels[0].steps] == ["attach{chip=all}"]


def test_nothing_is_executed_on_a_cross_pool_alone(tree: Tree) -> None:
    cells = plan_cells(tree.load(), AMD)
    executed = {p.cell.pool: p.cell.execute for p in cells}
    assert executed == {
        "amd-cpu": True,
        "intel-cpu": True,
        "real": True,
        "soft": True,
        "cross": False,
    }


def test_a_driver_that_compiles_by_itself_has_one_target(tree: Tree) -> None:
    (made,) = targets(tree, "soft")
    assert (made.driver, made.chip) == ("vulkan", "spirv")


def test_the_chip_of_a_device_is_the_one_that_is_there(tree: Tree) -> None:
    gpus = (
        Gpu(vendor="amd", name="Radeon", chip="gfx1100"),
        Gpu(vendor="nvidia", name="A10", chip="sm_86"),
        Gpu(vendor="nvidia", name="T4", chip="sm_75"),
    )
    (made,) = targets(tree, "real", dataclasses.replace(AMD, gpus=gpus))
    assert made.chip == "sm_86"


def test_without_a_device_its_cells_say_so(tree: Tree) -> None:
    cells = plan_cells(tree.load(), AMD)
    assert {(p.cell.pool, p.runnable) for p in cells if p.cell.pipeline == "torch_gpu"} == {
        ("real", False),
        ("soft", True),
        ("cross", True),
    }
    (reason,) = {p.reason for p in cells if p.cell.pool == "real"}
    assert "NVIDIA GPU" in reason


def test_a_device_with_a_problem_says_which(tree: Tree) -> None:
    gpu = Gpu(vendor="nvidia", name="A10", problem="/dev/nvidia0: permission denied")
    cells = plan_cells(tree.load(), dataclasses.replace(AMD, gpus=(gpu,)))
    assert {(p.runnable, p.reason) for p in cells if p.cell.pool == "real"} == {
        (False, "/dev/nvidia0: permission denied")
    }


def test_a_selection_may_be_for_some_pools_only(tree: Tree) -> None:
    ids = [p.cell.id for p in plan_cells(tree.load(goldens=False), AMD)]
    assert [i for i in ids if i.startswith("torch_gpu.mlp")] == ["torch_gpu.mlp.f16@cross"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "matrix.yaml",
            "pools: [real, soft, cross]",
            "pools: [real, amd-cpu, cross]",
            "recipe `torch_gpu` makes GPU code, and `amd-cpu` is a pool of CPUs",
        ),
        (
            "matrix.yaml",
            "pools: [intel-cpu, amd-cpu]",
            "pools: [intel-cpu, soft]",
            "recipe `torch_cpu` has no egress `vulkan` for it. It has: none",
        ),
        (
            "matrix.yaml",
            "driver: vulkan",
            "driver: hip",
            "recipe `torch_gpu` has no egress `hip` for it. It has: cuda, vulkan",
        ),
        (
            "matrix.yaml",
            "driver: vulkan",
            "driver: vulkan, egress: xevm",
            "egress `xevm` makes code for driver `opencl`, not for `vulkan`",
        ),
        (
            "matrix.yaml",
            "driver: vulkan",
            "driver: vulkan, egress: cuda",
            "egress `cuda` makes code for driver `cuda`, not for `vulkan`",
        ),
        (
            "matrix.yaml",
            "driver: vulkan",
            "driver: opencl, egress: xevm",
            "egress `xevm` needs `chips` to make code for",
        ),
        (
            "matrix.yaml",
            "driver: vulkan",
            "driver: opencl, egress: xevm, chips: [pvc]",
            "recipe `torch_gpu` has no egress `xevm` for it. It has: cuda, vulkan",
        ),
        (
            "matrix.yaml",
            "        pools: [cross]",
            "        pools: [corss]",
            "the pipeline has no pool `corss`. Did you mean `cross`?",
        ),
        (
            "recipes/pipelines/torch_gpu.yaml",
            '"${chip}"',
            '"${ship}"',
            "recipe `torch_gpu` has no parameter `ship`. Did you mean `chip`?",
        ),
        (
            "recipes/pipelines/torch_gpu.yaml",
            "  cuda:",
            "  kuda:",
            "egress.kuda: unknown key. Keys here: cuda, hip, opencl, vulkan, xevm",
        ),
        (KERNELS, "to-kernels.check", "none.check", "no check recipes/schedules/none.check"),
        (
            "recipes/schedules/to-kernels.check",
            "${chip}",
            "${cip}",
            "recipe `to-kernels` has no parameter `cip`. Did you mean `chip`?",
        ),
        (
            "recipes/schedules/to-kernels.check",
            "CHECK: ",
            "",
            "has no CHECK directive: it would accept anything",
        ),
        (
            "recipes/pipelines/torch_cpu.yaml",
            "  - recipe: to-llvm",
            '  - recipe: to-llvm\n    params: {x: "${chip}"}',
            "recipe `torch_cpu` has no parameter `chip`",
        ),
    ],
)
def test_one_slip_is_told(tree: Tree, file: str, old: str, new: str, said: str) -> None:
    tree.edit(file, old, new)
    assert any(said in problem for problem in tree.problems()), tree.problems()


def test_the_phases_of_an_egress_can_be_expected_to_fail(tree: Tree) -> None:
    tree.edit("matrix.yaml", "cells: torch_cpu.mlp.f16@*", "cells: torch_gpu.sum.f32@cross")
    tree.edit("matrix.yaml", "phase: lower:to-llvm", "phase: lower:to-kernels")
    assert tree.problems() == []
    tree.edit("matrix.yaml", "phase: lower:to-kernels", "phase: lower:to-kernel")
    assert any("lower:to-kernels" in problem for problem in tree.problems())
