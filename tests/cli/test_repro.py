"""`lh-ci repro`: one cell again, with everything that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator import records
from orchestrator.harness.arrays import npz
from orchestrator.job import Job
from orchestrator.results.schema import Result
from tests.cli.conftest import MLP, SUM, Lab
from tests.fakes import Play, fail

ARRAY = npz({"output_0": np.ones(1)})
FILES = {
    "ir/00-ingress.mlir": b"module {}",
    "ir/01-tile.mlir": b"module { tiled }",
    "inputs.npz": ARRAY,
    "outputs.npz": ARRAY,
}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """One whose cells leave files; `sum` fails."""
    lab.engine.script = Play({SUM: [fail("8 of 24 elements off")]}, files=FILES)
    return lab


def test_it_prints_the_command_and_writes_the_story(lab: Lab) -> None:
    done = lab("repro", SUM)
    assert done.exit_code == 1, done.output
    assert done.stdout.splitlines()[0] == f"nox -s torch_cpu -- --cell {SUM}"
    assert done.stdout.splitlines()[-1] == f"fail      written to repro/{SUM}"
    folder = lab.tree.root / "repro" / SUM
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert found == {*FILES, "golden.npz", "job.json", "result.json", "README.txt", "sum.py"}
    golden = (lab.tree.root / "golden/sum/f32.npz").read_bytes()
    assert (folder / "golden.npz").read_bytes() == golden
    assert (folder / "ir/01-tile.mlir").read_bytes() == b"module { tiled }"
    job = records.decode(Job, json.loads((folder / "job.json").read_text()))
    assert [(c.id, c.keep) for c in job.cells] == [(SUM, "always")]
    result = records.decode(Result, json.loads((folder / "result.json").read_text()))
    assert (result.cell, result.status) == (SUM, "fail")
    readme = (folder / "README.txt").read_text()
    assert readme.startswith(f"{SUM}: fail compare\n8 of 24 elements off\n")
    assert f"  nox -s torch_cpu -- --cell {SUM}\n" in readme
    for name in ("ir", "inputs.npz", "outputs.npz", "golden.npz", "job.json", "result.json"):
        assert f"\n{name} " in readme


def test_only_that_cell_runs_and_a_miss_is_not_tried_again(lab: Lab) -> None:
    lab("repro", MLP)
    assert [[c.id for c in job.cells] for job in lab.engine.jobs] == [[MLP]]


def test_its_own_folder_is_written_again_and_no_other(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert lab("repro", MLP, "--out", str(out)).exit_code == 0
    (out / "ir" / "99-stale.mlir").write_text("old")
    assert lab("repro", MLP, "--out", str(out)).exit_code == 0
    assert not (out / "ir" / "99-stale.mlir").exists()
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("years of work")
    done = lab("repro", MLP, "--out", str(other))
    assert done.exit_code == 2
    assert "was not written by lh-ci repro" in done.stderr
    assert [p.name for p in other.iterdir()] == ["chapter1.tex"]


def test_a_cell_of_a_run_is_rerun_as_it_was(lab: Lab) -> None:
    lab("run", SUM, "--toolchain", "bindings", "--timeout", "7s", "--engine", "venv")
    name = lab.last.name
    done = lab("repro", SUM, "--run", name)
    assert "--engine venv --toolchain bindings --timeout 7s" in done.stdout.splitlines()[0]
    job = lab.engine.jobs[-1]
    assert (job.toolchain, job.cells[0].timeout_s) == ("bindings", 7.0)
    assert lab.asked_for == ["venv", "venv"]


def test_a_workload_given_by_its_path_is_found_in_its_run(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("BATCH = 1\nclass Model: ...\ndef get_inputs(): ...\n")
    lab("run", "torch_cpu", "--workload", str(path), "--set", "BATCH=2")
    lab("run", MLP)
    done = lab("repro", "torch_cpu.net.native@intel-cpu")
    assert done.exit_code == 0, done.output
    assert f"--workload {path} --variant native --set BATCH=2" in done.stdout.splitlines()[0]
    assert lab.engine.jobs[-1].cells[0].workload.constants == {"BATCH": 2}
    folder = lab.tree.root / "repro" / "torch_cpu.net.native@intel-cpu"
    assert (folder / "net.py").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torch_cpu.sun.f32@intel-cpu"], "Did you mean `torch_cpu.sum.f32@intel-cpu`?"),
        (["torch_cpu.mlp"], "`torch_cpu.mlp` fits 4 cells"),
        (["torch_cpu.sum.f32@amd-cpu"], "nothing to run on this machine. 1 cell: pool amd-cpu"),
        ([MLP, "--run", "last"], f"that run has no cell `{MLP}`"),
        (["torch_cpu.sum.f32@amd-cpu", "--run", "last"], "cannot run here: pool amd-cpu"),
    ],
)
def test_what_cannot_be_reproduced(lab: Lab, words: list[str], message: str) -> None:
    lab("run", "torch_cpu.sum")
    done = lab("repro", *words)
    assert done.exit_code == 2
    assert message in done.stderr
