"""Configuration to plan."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.load import Config
from orchestrator.errors import UsageError
from orchestrator.host import Host
from orchestrator.job import Golden, Tolerance, Workload
from orchestrator.plan import (
    AdhocWorkload,
    PlannedCell,
    Selector,
    adhoc_cells,
    make_jobs,
    plan_cells,
    select,
)
from tests.config.tree import Tree, make_tree

AMD = Host(
    arch="x86_64",
    cpu_vendor="AuthenticAMD",
    cpu_model="AMD EPYC",
    cpu_flags="avx2",
    cpus=2,
    memory_bytes=8 << 30,
    kernel="Linux 6.1",
)

ALL = [
    f"torch_cpu.{stem}@{pool}"
    for stem in ("mlp.f32", "mlp.f16", "sum.f32")
    for pool in ("intel-cpu", "amd-cpu")
]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The sample repository."""
    return make_tree(tmp_path)


@pytest.fixture
def config(tree: Tree) -> Config:
    """The sample repository, loaded."""
    return tree.load()


@pytest.fixture
def cells(config: Config) -> tuple[PlannedCell, ...]:
    """Its cells on a machine by AMD."""
    return plan_cells(config, AMD)


def ids(cells: tuple[PlannedCell, ...]) -> list[str]:
    return [planned.cell.id for planned in cells]


def by_id(cells: tuple[PlannedCell, ...], cell_id: str) -> PlannedCell:
    (found,) = [planned for planned in cells if planned.cell.id == cell_id]
    return found


# --- the matrix -------------------------------------------------------------------------------


def test_every_cell_once_in_a_stable_order(cells: tuple[PlannedCell, ...]) -> None:
    assert ids(cells) == ALL


def test_planning_is_pure(tree: Tree) -> None:
    first, second = tree.load(), tree.load()
    assert first == second
    assert plan_cells(first, AMD) == plan_cells(first, AMD) == plan_cells(second, AMD)


def test_a_cell_has_all_that_the_harness_needs(
    config: Config, cells: tuple[PlannedCell, ...]
) -> None:
    planned = by_id(cells, "torch_cpu.mlp.f16@amd-cpu")
    assert (planned.stack, planned.tier) == ("pytorch", "core")
    cell = planned.cell
    assert cell.workload == Workload(
        name="mlp", file="workloads/mlp.py", sha256=config.workloads["mlp"].sha256
    )
    assert cell.ingress == "torch_mlir"
    assert cell.ingress_options == {"output": "linalg-on-tensors"}
    assert cell.recipes == config.runs["torch_cpu"]
    record = config.goldens["mlp", "f16"].record
    assert cell.golden == Golden(
        file="golden/mlp/f16.npz",
        sha256=record.sha256,
        size=record.size,
        inputs_sha256=record.inputs_sha256,
    )


def test_pools_that_this_machine_does_not_serve(cells: tuple[PlannedCell, ...]) -> None:
    assert by_id(cells, "torch_cpu.sum.f32@amd-cpu").runnable
    assert by_id(cells, "torch_cpu.sum.f32@amd-cpu").reason == ""
    elsewhere = by_id(cells, "torch_cpu.sum.f32@intel-cpu")
    assert not elsewhere.runnable
    assert elsewhere.reason == (
        "pool intel-cpu is Intel x86_64; this machine is AMD x86_64 (AMD EPYC)"
    )


def test_a_pool_of_any_vendor(tree: Tree) -> None:
    tree.edit("matrix.yaml", ", cpu_vendor: AuthenticAMD", "")
    cells = plan_cells(tree.load(), dataclasses.replace(AMD, cpu_vendor="Hygon"))
    assert by_id(cells, "torch_cpu.sum.f32@amd-cpu").runnable
    arm = plan_cells(tree.load(), dataclasses.replace(AMD, cpu_vendor="", arch="aarch64"))
    assert {planned.reason for planned in arm} == {
        "pool intel-cpu is Intel x86_64; this machine is aarch64 (AMD EPYC)",
        "pool amd-cpu is x86_64; this machine is aarch64 (AMD EPYC)",
    }


def test_the_last_tolerance_that_matches_wins(cells: tuple[PlannedCell, ...]) -> None:
    table = {
        "f16": Tolerance(rtol=1e-3, atol=1e-5, reason="table"),
        "f32": Tolerance(rtol=1.3e-6, atol=1e-5, reason="table"),
    }
    half = Tolerance(rtol=0.01, atol=0.0, reason="half")
    amd = Tolerance(rtol=0.02, atol=0.0, reason="AMD")
    found = {planned.cell.id: planned.cell.tolerance for planned in cells}
    assert found["torch_cpu.sum.f32@intel-cpu"] == table
    assert found["torch_cpu.mlp.f16@intel-cpu"] == {**table, "f16": half}
    assert found["torch_cpu.mlp.f16@amd-cpu"] == {**table, "f16": amd}
    assert found["torch_cpu.sum.f32@amd-cpu"] == {**table, "f16": amd}


@pytest.mark.parametrize(
    ("pipeline", "workload", "seconds", "size"),
    [
        ("", "{}", 60.0, 4 << 30),
        ("timeout: 90s", "{}", 90.0, 4 << 30),
        ("timeout: 90s", "{timeout: 2min, memory: 512MiB}", 120.0, 512 << 20),
        ("memory: 1GiB", "{timeout: 0.5h}", 1800.0, 1 << 30),
    ],
)
def test_limits_of_the_workload_then_the_pipeline_then_the_default(
    tree: Tree, pipeline: str, workload: str, seconds: float, size: int
) -> None:
    tree.edit("matrix.yaml", "    timeout: 90s", f"    {pipeline}")
    tree.edit("matrix.yaml", "  mlp: {memory: 512MiB}", f"  mlp: {workload}")
    cell = by_id(plan_cells(tree.load(), AMD), "torch_cpu.mlp.f32@amd-cpu").cell
    assert (cell.timeout_s, cell.memory_bytes) == (seconds, size)


def test_a_workload_that_makes_its_own_inputs(tree: Tree) -> None:
    tree.edit("matrix.yaml", "  mlp: {memory: 512MiB}", "  mlp: {inputs: module}")
    cells = plan_cells(tree.load(), AMD)
    assert {p.cell.workload.name: p.cell.workload.inputs for p in cells} == {
        "mlp": "module",
        "sum": "signed",
    }


def test_selections_that_overlap_make_one_cell(tree: Tree) -> None:
    tree.edit("matrix.yaml", "variants: [f16]", "variants: [f16, f32, f16]")
    tree.edit("matrix.yaml", "[intel-cpu, amd-cpu]", "[intel-cpu, amd-cpu, amd-cpu]")
    assert ids(plan_cells(tree.load(), AMD)) == ALL


def test_cells_without_goldens_when_loaded_so(tree: Tree) -> None:
    assert {p.cell.golden for p in plan_cells(tree.load(goldens=False), AMD)} == {None}


# --- selecting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ALL),
        ({"patterns": ("torch_cpu",)}, ALL),
        ({"patterns": ("torch_cpu.mlp",)}, ALL[:4]),
        ({"patterns": ("torch_cpu.mlp.f16",)}, ALL[2:4]),
        ({"patterns": ("torch_cpu.mlp.f16@amd-cpu",)}, ALL[3:4]),
        ({"patterns": ("*.f16@*", "*.sum.*")}, ALL[2:]),
        ({"patterns": ("*@amd-cpu",)}, ALL[1::2]),
        ({"pipelines": ("torch_*",)}, ALL),
        ({"workloads": ("sum",)}, ALL[4:]),
        ({"workloads": ("s*", "mlp"), "variants": ("f32",)}, [*ALL[:2], *ALL[4:]]),
        ({"pools": ("intel-cpu",), "variants": ("f16",)}, ALL[2:3]),
        ({"tiers": ("core",)}, ALL),
    ],
)
def test_select(
    cells: tuple[PlannedCell, ...], chosen: dict[str, tuple[str, ...]], expected: list[str]
) -> None:
    assert ids(select(cells, Selector(**chosen))) == expected


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (
            {"patterns": ("torhc_cpu",)},
            "no cell matches `torhc_cpu`. Did you mean `torch_cpu`? Pipelines: torch_cpu",
        ),
        (
            {"patterns": ("torch_cpu", "torch_cpu.mpl.f32@amd-cpu")},
            (
                "no cell matches `torch_cpu.mpl.f32@amd-cpu`. "
                "Did you mean `torch_cpu.mlp.f32@amd-cpu`? Pipelines: torch_cpu"
            ),
        ),
        ({"patterns": ("x",)}, "no cell matches `x`. Pipelines: torch_cpu"),
        (
            {"workloads": ("summ",)},
            "no workload `summ`. Did you mean `sum`? Workloads: mlp, sum",
        ),
        ({"pools": ("gpu",)}, "no pool `gpu`. Pools: amd-cpu, intel-cpu"),
        ({"tiers": ("cor",)}, "no tier `cor`. Did you mean `core`? Tiers: core"),
        ({"variants": ("f64",)}, "no variant `f64`. Did you mean `f16`? Variants: f16, f32"),
        (
            {"pipelines": ("jax_cpu",)},
            "no pipeline `jax_cpu`. Pipelines: torch_cpu",
        ),
        (
            {"workloads": ("sum",), "variants": ("f16", "f16")},
            "no cell agrees with all of: workloads sum; variants f16 f16",
        ),
    ],
)
def test_select_nothing(
    cells: tuple[PlannedCell, ...], chosen: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        select(cells, Selector(**chosen))
    assert str(raised.value) == said


def test_select_of_no_cells() -> None:
    with pytest.raises(UsageError, match="the matrix has no cells"):
        select((), Selector())


# --- workloads given by their path ------------------------------------------------------------


def adhoc(config: Config, path: Path, **options: Any) -> tuple[PlannedCell, ...]:
    file = AdhocWorkload(name=path.stem, path=path, sha256="5" * 64)
    host = options.pop("host", AMD)
    constants = options.pop("constants", {})
    pipelines = options.pop("pipelines", ["torch_cpu"])
    return adhoc_cells(config, host, pipelines, file, constants, **options)


def test_a_file_from_anywhere(config: Config) -> None:
    (planned,) = adhoc(config, Path("/elsewhere/mlp.py"), constants={"batch": 4})
    assert planned.runnable
    assert planned.cell.id == "torch_cpu.mlp.native@amd-cpu"
    assert planned.cell.golden is None
    assert planned.cell.workload == Workload(
        name="mlp",
        file="workloads/mlp.py",
        sha256="5" * 64,
        constants={"batch": 4},
        inputs="module",
    )


def test_a_file_in_another_frontends_convention_is_refused(config: Config) -> None:
    strict = dataclasses.replace(config, frontends={"torch_mlir": "model"})
    with pytest.raises(
        UsageError, match=r"mlp\.py defines `Model`, and torch_cpu takes .* `model`"
    ):
        adhoc(strict, Path("/elsewhere/mlp.py"))


def test_pools_of_other_machines_are_there_when_asked_for(config: Config) -> None:
    pools = config.matrix.pipelines["torch_cpu"].pools
    found = adhoc(config, Path("/elsewhere/mlp.py"), pools="all")
    assert [planned.cell.pool for planned in found] == list(pools)
    assert [p.cell.pool for p in found if p.runnable] == ["amd-cpu"]
    assert all(p.reason for p in found if not p.runnable)


def test_a_file_of_the_repository_is_the_registered_workload(config: Config) -> None:
    path = config.workloads["mlp"].path
    found = adhoc(config, path)
    assert found == tuple(
        p for p in plan_cells(config, AMD) if p.cell.workload.name == "mlp" and p.runnable
    )


def test_overridden_constants_leave_the_golden_behind(config: Config) -> None:
    path = config.workloads["mlp"].path
    (planned,) = adhoc(config, path, constants={"batch": 4}, variant="f32")
    assert planned.cell.golden is None
    assert planned.cell.workload.inputs == "signed"
    assert planned.cell.workload.constants == {"batch": 4}


def test_a_variant_that_the_matrix_does_not_run(config: Config) -> None:
    (planned,) = adhoc(config, config.workloads["mlp"].path, variant="f64")
    assert planned.cell.id == "torch_cpu.mlp.f64@amd-cpu"
    assert planned.cell.golden is None


def test_a_registered_workload_that_the_pipeline_does_not_run(config: Config) -> None:
    (planned,) = adhoc(config, config.workloads["odd"].path)
    assert planned.cell.id == "torch_cpu.odd.native@amd-cpu"


def test_a_machine_that_serves_no_pool_of_the_pipeline(config: Config) -> None:
    found = adhoc(config, Path("/x.py"), host=dataclasses.replace(AMD, arch="riscv64"))
    assert ids(found) == ["torch_cpu.x.native@intel-cpu", "torch_cpu.x.native@amd-cpu"]
    assert all(planned.reason and not planned.runnable for planned in found)


def test_no_such_pipeline(config: Config) -> None:
    with pytest.raises(UsageError, match=r"no pipeline `torch_cup`\. Did you mean `torch_cpu`\?"):
        adhoc(config, Path("/x.py"), pipelines=["torch_cpu", "torch_cup"])


# --- jobs -------------------------------------------------------------------------------------


def jobs_of(cells: tuple[PlannedCell, ...], workers: int = 2) -> Any:
    return make_jobs(
        cells, workers=workers, toolchain="release", keep="always", mode="run", run="r1"
    )


def test_one_job_for_each_stack_and_pool(cells: tuple[PlannedCell, ...]) -> None:
    everywhere = tuple(dataclasses.replace(planned, runnable=True) for planned in cells)
    jobs = jobs_of(everywhere)
    assert [(job.id, job.stack, job.pool) for job in jobs] == [
        ("r1.pytorch.intel-cpu", "pytorch", "intel-cpu"),
        ("r1.pytorch.amd-cpu", "pytorch", "amd-cpu"),
    ]
    assert [cell.id for cell in jobs[0].cells] == ALL[::2]
    assert {cell.keep for job in jobs for cell in job.cells} == {"always"}
    assert {(job.toolchain, job.mode, job.workers) for job in jobs} == {("release", "run", 2)}


def test_only_runnable_cells_become_jobs(cells: tuple[PlannedCell, ...]) -> None:
    (job,) = jobs_of(cells)
    assert [cell.id for cell in job.cells] == ALL[1::2]


@pytest.mark.parametrize(("workers", "used"), [(0, 1), (1, 1), (2, 2), (16, 3)])
def test_no_more_workers_than_cells(
    cells: tuple[PlannedCell, ...], workers: int, used: int
) -> None:
    (job,) = jobs_of(cells, workers)
    assert job.workers == used


def test_stacks_have_their_own_jobs(cells: tuple[PlannedCell, ...]) -> None:
    here = tuple(planned for planned in cells if planned.runnable)
    other = dataclasses.replace(here[0], stack="jax")
    jobs = jobs_of((*here, other))
    assert [job.stack for job in jobs] == ["pytorch", "jax"]


def test_no_cells_no_jobs() -> None:
    assert jobs_of(()) == ()
