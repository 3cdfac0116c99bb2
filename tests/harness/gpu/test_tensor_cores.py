"""Matrix products on NVIDIA's tensor cores: through the project's recipes to PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from orchestrator.config.load import load
from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.context import Context, Stage
from orchestrator.harness.gpu import ir
from orchestrator.harness.stages import Lowering
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.host import detect
from orchestrator.job import Cell, Step
from orchestrator.plan import plan_cells
from tests.harness import llvm
from tests.harness.incell import Frontend, Surroundings

pytestmark = pytest.mark.stack

PROGRAM = """
func.func @forward(%a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %product = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
      outs(%start : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %product : tensor<{m}x{n}xf32>
}}
"""
Lower = Callable[[int, int, int], tuple[str, ReleaseToolchain]]


@cache
def _planned() -> Cell:
    cells = plan_cells(load(llvm.ROOT, goldens=False), detect())
    wanted = ("pytorch_tensor_cores", "cross-nvidia")
    return next(p.cell for p in cells if (p.cell.pipeline, p.cell.pool) == wanted)


@pytest.fixture
def lower(context: Surroundings) -> Lower:
    """Lowers a product of an m by k and a k by n matrix, kernels to the NVVM dialect for sm_80."""
    toolchain = ReleaseToolchain(llvm.tool("mlir-opt").parent.parent, None)
    stage = Stage(
        Context(
            folder=context.folder,
            scratch=context.scratch,
            marks=context.marks,
            ingress=Frontend("", None, None),
            toolchain=toolchain,
        )
    )

    def through(m: int, k: int, n: int) -> tuple[str, ReleaseToolchain]:
        planned = _planned()
        generic = toolchain.apply(Step(tool="mlir-opt", passes=""), PROGRAM.format(m=m, k=k, n=n))
        module = Lowering(stage, "ir").through(planned.recipes, generic)
        return Lowering(stage, "ir").through(planned.targets[0].kernels, module), toolchain

    return through


@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 128), (16, 16, 8), (32, 48, 8)])
def test_kernels_have_the_instruction(lower: Lower, m: int, k: int, n: int) -> None:
    module, toolchain = lower(m, k, n)
    step = Step(tool="mlir-opt", passes="gpu-module-to-binary{format=isa}")
    found = [binary.data.decode() for binary in ir.binaries(toolchain.apply(step, module))]
    (text,) = [ptx for ptx in found if "mma.sync" in ptx]
    products = set(re.findall(r"\bmma\.sync\S+", text))
    assert products == {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}
    assert ".target sm_80" in text
    assert re.search(r"\.reqntid 32|\.maxntid 32", text), "a block is one warp"


def test_sizes_that_no_tile_divides_are_refused(lower: Lower) -> None:
    with pytest.raises(CompilerFault, match="Attempted to vectorize, but failed"):
        lower(60, 33, 50)
