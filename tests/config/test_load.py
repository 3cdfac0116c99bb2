"""A right repository: what comes out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.config.load import find_root, load
from orchestrator.errors import DefinitionError, ExitCode, UsageError
from orchestrator.job import Contract, Step
from tests.config.tree import Tree

REPOSITORY = Path(__file__).parents[2]


def test_right_tree_loads(tree: Tree) -> None:
    assert tree.problems() == []


def test_the_definitions_of_this_repository_are_right() -> None:
    config = load(REPOSITORY, goldens=False)
    assert {"pytorch_cpu", "pytorch_stablehlo_cpu", "jax_cpu"} <= set(config.matrix.pipelines)
    assert len(config.workloads) >= 30


def test_the_goldens_of_this_repository_are_right() -> None:
    assert load(REPOSITORY).goldens


def test_pipeline_expands_to_one_run_for_each_step(tree: Tree) -> None:
    runs = tree.load().runs["torch_cpu"]
    assert [run.name for run in runs] == ["tile", "to-llvm", "tile-2"]
    assert runs[0].contract == Contract(requires=("linalg",), absent=("tosa",), must_change=True)
    assert runs[0].steps == (
        Step(
            tool="mlir-opt",
            passes="canonicalize, tile{size=8}",
            source="recipes/schedules/tile.yaml:11",
        ),
        Step(
            tool="mlir-opt",
            passes="",
            library="transform.named_sequence @__transform_main() {\n  // 8 and true\n}\n",
            source="recipes/schedules/tile.yaml:14",
        ),
        Step(
            tool="frontend-opt",
            passes="cse{rate=8.0}",
            source="recipes/schedules/clean-up.yaml:6",
        ),
    )
    assert runs[2].steps[0].passes == "canonicalize, tile{size=4}"


def test_default_of_a_float_parameter_is_a_literal_that_mlir_reads(tree: Tree) -> None:
    tree.edit("recipes/schedules/tile.yaml", '\n    params: {rate: "${size}"}', "")
    assert tree.load().runs["torch_cpu"][0].steps[2].passes == "cse{rate=1.0e-06}"


def test_workloads_are_described_and_shared_files_are_none(tree: Tree) -> None:
    workloads = tree.load().workloads
    assert sorted(workloads) == ["mlp", "odd", "sum"]
    assert (workloads["mlp"].about, workloads["mlp"].entry) == ("Two layers.", "Model")
    assert (workloads["odd"].about, workloads["odd"].entry) == ("", "model")


def test_workloads_are_never_run(tree: Tree) -> None:
    marker = tree.root / "ran"
    text = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    tree.write("recipes/workloads/odd.py", f"{text}def model(): ...\ndef get_inputs(): ...\n")
    tree.load()
    assert not marker.exists()


def test_goldens_are_loaded_with_their_records(tree: Tree) -> None:
    goldens = tree.load().goldens
    assert set(goldens) == {("mlp", "f32"), ("mlp", "f16"), ("sum", "f32")}
    assert goldens["sum", "f32"].path == tree.root / "golden/sum/f32.npz"
    assert goldens["sum", "f32"].record.source == "eager@f64"


def test_without_goldens_nothing_of_them_matters(tree: Tree) -> None:
    (tree.root / "golden/mlp/f32.npz").write_bytes(b"")
    (tree.root / "golden/sum/f32.npz").unlink()
    tree.record("gone", "f32")
    assert tree.load(goldens=False).goldens == {}


def test_all_problems_of_all_files_come_at_once(tree: Tree) -> None:
    tree.edit("matrix.yaml", "    timeout: 90s", "    timout: 90s")
    tree.edit("matrix.yaml", "[intel-cpu, amd-cpu]", "[intel-cpu, inter-cpu]")
    tree.edit("images/pins.yaml", "22.1.8\n", "22\n")
    tree.edit("recipes/schedules/to-llvm.yaml", "tier: core", "tier: cor")
    (tree.root / "golden/sum/f32.npz").unlink()
    with pytest.raises(DefinitionError) as raised:
        tree.load()
    assert raised.value.exit_code == ExitCode.DEFINITIONS
    assert str(raised.value).splitlines() == [
        (
            "golden/sum/f32.npz  the record is there, the array file is missing. "
            "Record it again: lh-ci golden update sum"
        ),
        (
            "images/pins.yaml:5:12  llvm.version: expected text, got the number 22. "
            'Put it in quotes: "22"'
        ),
        (
            "matrix.yaml:17:24  pipelines.torch_cpu.pools[1]: no pool `inter-cpu`. "
            "Did you mean `intel-cpu`? Pools: amd-cpu, arm-cpu, intel-cpu"
        ),
        "matrix.yaml:18:5  pipelines.torch_cpu.timout: unknown key. Did you mean `timeout`?",
        (
            "recipes/schedules/to-llvm.yaml:2:7  tier: expected one of `core`, `peripheral`, "
            "got the text `cor`. Did you mean `core`?"
        ),
    ]


@pytest.mark.parametrize("file", ["matrix.yaml", "images/pins.yaml", "golden/tolerances.yaml"])
def test_missing_file(tree: Tree, file: str) -> None:
    (tree.root / file).unlink()
    assert f"{file}  the file is missing" in tree.problems(goldens=False)


def test_file_that_is_no_text(tree: Tree) -> None:
    (tree.root / "images/pins.yaml").write_bytes(b"schema: \xff")
    assert tree.problems() == ["images/pins.yaml  not UTF-8: byte 8"]


def test_root_is_found_from_below(tree: Tree) -> None:
    assert find_root(tree.root / "recipes/workloads") == tree.root
    assert find_root(tree.root) == tree.root


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no matrix\.yaml in .* or any folder above it"):
        find_root(tmp_path)
