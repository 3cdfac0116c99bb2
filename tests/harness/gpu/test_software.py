"""From linalg through the project's own recipes to a bundle, executed on a GPU in software."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from orchestrator import records
from orchestrator.config.load import load
from orchestrator.harness.arrays import npz
from orchestrator.harness.blame import MachineFault
from orchestrator.harness.context import Context, Stage
from orchestrator.harness.elements import Array
from orchestrator.harness.formula import for_input
from orchestrator.harness.gpu.runner import Report
from orchestrator.harness.gpu.targets import Built, build
from orchestrator.harness.stages import Lowering
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.host import detect
from orchestrator.job import Cell, Outcome, Step, Tolerance
from orchestrator.plan import plan_cells
from tests.harness import llvm
from tests.harness.gpu import bundles
from tests.harness.incell import Frontend, Surroundings

pytestmark = pytest.mark.stack

POOLS = ("software-gpu", "software-gpu-opencl", "software-gpu-xevm")
SHAPES = ((60, 33), (33, 50))
# sizes that no tile divides; exp besides, which each driver has its own way to
PROGRAM = """
#map = affine_map<(i, j) -> (i, j)>
func.func @forward(%a: tensor<60x33xf32>, %b: tensor<33x50xf32>) -> tensor<60x50xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<60x50xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<60x50xf32>) -> tensor<60x50xf32>
  %product = linalg.matmul ins(%a, %b : tensor<60x33xf32>, tensor<33x50xf32>)
      outs(%start : tensor<60x50xf32>) -> tensor<60x50xf32>
  %result = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}
      ins(%product : tensor<60x50xf32>) outs(%empty : tensor<60x50xf32>) {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    linalg.yield %e : f32
  } -> tensor<60x50xf32>
  return %result : tensor<60x50xf32>
}
"""


@cache
def _planned(pool: str) -> Cell:
    """Any cell of the pool: its recipes are the same for all programs."""
    cells = plan_cells(load(llvm.ROOT, goldens=False), detect())
    return next(p.cell for p in cells if p.cell.pool == pool and p.cell.variant == "f32")


@pytest.fixture(params=POOLS)
def planned(request: pytest.FixtureRequest) -> Cell:
    """A cell of each pool of GPUs in software."""
    return _planned(request.param)


@pytest.fixture
def built(planned: Cell, context: Surroundings) -> Built:
    """The program for that pool; skips where the stack's tools are missing."""
    return _built(planned, context)


def _built(planned: Cell, context: Surroundings) -> Built:
    prefix = llvm.tool("mlir-opt").parent.parent
    toolchain = ReleaseToolchain(prefix, None)
    stage = Stage(
        Context(
            folder=context.folder,
            scratch=context.scratch,
            marks=context.marks,
            ingress=Frontend("", None, None),
            toolchain=toolchain,
        )
    )
    generic = toolchain.apply(Step(tool="mlir-opt", passes=""), PROGRAM)
    try:
        module = Lowering(stage, "ir").through(planned.recipes, generic)
        return build(planned.targets[0], module, stage, one_of_several=False)
    except MachineFault as fault:
        pytest.skip(fault.message)


@pytest.fixture
def arguments() -> tuple[Array, ...]:
    """Two matrices by formula."""
    return tuple(for_input(i).numbers(shape).astype(np.float32) for i, shape in enumerate(SHAPES))


def executed(folder: Path, *words: str) -> tuple[int, Outcome]:
    """Exit code and outcome of a bundle, in a process of its own; skips without a device."""
    argv = [sys.executable, str(folder), "--json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    outcome = records.decode(Report, json.loads(done.stdout)).outcome
    if outcome.status == "miss":
        pytest.skip(outcome.message)
    return done.returncode, outcome


def test_it_computes_what_it_should(
    built: Built, arguments: tuple[Array, ...], tmp_path: Path
) -> None:
    a, b = (array.astype(np.float64) for array in arguments)
    golden = np.exp(a @ b)
    bundles.write(
        tmp_path / "b",
        built,
        loaded=bundles.loaded(
            *(("f32", array) for array in arguments), formulas=[for_input(0), for_input(1)]
        ),
        results=[("f32", (60, 50))],
        golden=[golden],
        cell={"tolerance": {"f32": Tolerance(rtol=1e-4, atol=1e-5, reason="exp")}},
    )
    code, outcome = executed(tmp_path / "b", "--repeat", "3")
    assert outcome.message == ""
    assert (code, outcome.status) == (0, "pass")
    assert outcome.device["driver"] == built.target.driver
    assert len(outcome.kernel_ns) == 3
    assert all(outcome.kernel_ns)  # each driver has a clock

    golden[59, 49] += 1
    bundles.replace(tmp_path / "b", "golden.npz", npz({"output_0": golden}))
    code, outcome = executed(tmp_path / "b")
    assert (code, outcome.status, outcome.phase) == (1, "fail", "compare")
    assert "output 0: 1 of 3,000 elements off, worst 1 at [59,49]" in outcome.message


def test_xevm_kernels_are_valid_for_opencl(context: Surroundings) -> None:
    planned = _planned("cross-intel-xevm")
    built = _built(planned, context)
    assert (built.target.driver, built.target.chip) == ("opencl", "pvc")
    assert {fact.form for fact in built.facts} == {"spirv"}
    assert len({fact.kernel for fact in built.facts}) == len(built.files) >= 2
    for name, data in built.files.items():
        assert data[4:8] == bytes([0, 2, 1, 0]), f"{name} is not SPIR-V 1.2"
