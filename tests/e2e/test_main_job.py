"""The main job for real: pinned frontends, real MLIR, both engines. Few, and worth their time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENGINES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("venv", marks=pytest.mark.stack),
]

WORKLOAD = """
import ctypes, os, sys, time
import torch

BATCH = 4

class Model(torch.nn.Module):
    def forward(self, x):
        return {forward}

def get_inputs():
    {before}
    return [torch.randn(BATCH, 4)]
"""

# by name: what forward returns, what runs before the inputs are made, the phase and the message
BAD: Mapping[str, tuple[str, str, str, str]] = {
    "raises": ("x", "raise ValueError('no such layer')", "ingress", "ValueError: no such layer"),
    "returns_nan": ("x * float('nan')", "pass", "ingress", "output 0 is NaN in 16 of 16 elements"),
    "exits": ("x", "os._exit(0)", "ingress", "ended with exit code 0 and no verdict"),
    "segfaults": ("x", "ctypes.string_at(0)", "ingress", "died of SIGSEGV"),
    "loops": ("x", "time.sleep(3600)", "ingress", "killed at its deadline"),
    "eats_memory": ("x", "torch.ones(1 << 33)", "ingress", "out of memory (limit 4 GiB)"),
    "no_tensor": ("1.0", "pass", "ingress", "is float, not a tensor"),
}


def lh_ci(*words: str, code: int = 0, **environment: str) -> str:
    """Standard output of the command, which must end with `code`."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "-C", str(ROOT), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run(*words: str, code: int = 0, **environment: str) -> dict[str, dict[str, Any]]:
    """Result documents by workload."""
    document = json.loads(lh_ci("run", *words, "--json", code=code, **environment))
    folder = ROOT / document["folder"] / "results"
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {result["cell"].split(".")[1]: result for result in results}


def write(folder: Path, name: str, forward: str = "x", before: str = "pass") -> list[str]:
    """The words that run a new workload by its path."""
    path = folder / f"{name}.py"
    path.write_text(WORKLOAD.format(forward=forward, before=before))
    return ["--workload", str(path)]


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_workloads_are_errors_of_their_own_and_touch_no_other(
    engine: str, tmp_path: Path
) -> None:
    words = write(tmp_path, "fine", "torch.relu(x) + 1")
    words += write(tmp_path, "floods", "x + 1", "print('x' * (100 << 20))")
    for name, (forward, before, _, _) in BAD.items():
        words += write(tmp_path, name, forward, before)
    found = run("pytorch_cpu", *words, "--engine", engine, "--timeout", "8s", code=3)
    assert found["fine"]["status"] == "pass"
    assert found["floods"]["status"] == "pass"
    assert found["floods"]["dropped_bytes"] > 99 << 20
    for name, (_, _, phase, message) in BAD.items():
        result = found[name]
        assert (result["status"], result["phase"]) == ("error", phase), name
        assert message in result["message"], name


@pytest.mark.parametrize("engine", ENGINES)
def test_both_toolchains_agree_on_a_real_network(engine: str) -> None:
    names = ("conv_bn_relu_pool", "transformer_encoder_layer", "dynamic_batch")
    words = [word for name in names for word in ("--workload", name)]
    for toolchain in ("release", "bindings"):
        found = run("pytorch_cpu", *words, "--engine", engine, "--toolchain", toolchain)
        assert set(found) == set(names)
        for result in found.values():
            assert result["status"] == "pass"
            assert result["toolchain"] == toolchain
            assert result["golden"] == "recorded"
            assert max(error["max_abs"] for error in result["errors"]) < 1e-4


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_says_how_well_it_was_contained(engine: str) -> None:
    result = run("jax_cpu", "--workload", "jax_mlp_grad", "--engine", engine)["jax_mlp_grad"]
    assert result["engine"] == engine
    assert result["isolation"]["contained"] is (engine == "docker")
    assert result["versions"]["mlir-opt"] or result["toolchain"] == "bindings"
    assert len(result["errors"]) == 4  # a gradient for each parameter


@pytest.mark.stack
def test_a_constant_can_be_set_from_the_command_line(tmp_path: Path) -> None:
    words = write(tmp_path, "scaled", "2 * x")
    found = run("pytorch_cpu", *words, "--set", "BATCH=7", "--engine", "venv")
    assert found["scaled"]["errors"][0]["shape"] == [7, 4]


@pytest.mark.stack
def test_same_run_same_fingerprint_other_number_other_fingerprint(tmp_path: Path) -> None:
    words = [*write(tmp_path, "scaled", "2 * x"), "--engine", "venv"]
    prints = [
        run("pytorch_cpu", *words, "--set", f"BATCH={n}")["scaled"]["fingerprint"]
        for n in (7, 7, 8)
    ]
    assert prints[0] == prints[1]
    assert prints[1] != prints[2]


@pytest.mark.stack
def test_repro_leaves_every_stage_and_all_numbers(tmp_path: Path) -> None:
    cell = run("pytorch_cpu", "--workload", "softmax", "--variant", "f32", "--engine", "venv")
    folder = tmp_path / "repro"
    lh_ci("repro", cell["softmax"]["cell"], "--out", str(folder), "--engine", "venv")
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    stages = {name for name in kept if name.startswith("ir/")}
    assert stages == {
        "ir/00-ingress.mlir",
        "ir/01-fuse-elementwise.mlir",
        "ir/02-bufferize.mlir",
        "ir/03-linalg-to-loops.mlir",
        "ir/04-lower-to-llvm.mlir",
    }
    assert {"inputs.npz", "outputs.npz", "golden.npz", "job.json", "result.json"} <= kept
    assert '"linalg.' in (folder / "ir/00-ingress.mlir").read_text()
    assert '"llvm.func"' in (folder / "ir/04-lower-to-llvm.mlir").read_text()


@pytest.mark.docker
def test_a_full_scratch_is_nobodys_failure() -> None:
    found = run(
        "pytorch_cpu", "--cell", "*.mlp.f32@*", "--engine", "docker", code=4, LH_SCRATCH="128KiB"
    )
    assert found["mlp"]["status"] == "miss"
    assert "no space left" in found["mlp"]["message"].lower()
