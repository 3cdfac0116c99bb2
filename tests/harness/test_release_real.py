"""A real LLVM release says what the fakes of `test_release` say, and compiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.harness.blame import Blamed, CompilerFault, DefinitionFault, MachineFault
from orchestrator.harness.toolchains.base import call
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Step
from tests.harness import llvm

pytestmark = pytest.mark.stack


@pytest.fixture
def release() -> ReleaseToolchain:
    """An LLVM release that has all tools."""
    prefix = llvm.tool("mlir-opt").parent.parent
    toolchain = ReleaseToolchain(prefix, None)
    try:
        toolchain.versions()
    except MachineFault as error:
        pytest.skip(error.message)
    return toolchain


MODULE = """
module {
  func.func @f(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = linalg.copy ins(%a: tensor<?x4xf32>) outs(%b: tensor<?x4xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
"""


def schedule(body: str) -> str:
    """A library whose entry does something to all copies."""
    return f"""module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%m: !transform.any_op {{transform.readonly}}) {{
    %0 = transform.structured.match ops{{["linalg.copy"]}} in %m
      : (!transform.any_op) -> !transform.any_op
    {body}
    transform.yield
  }}
}}"""


REAL: dict[str, tuple[str, str | None, type[Blamed], str]] = {
    "name": ("ces", None, DefinitionFault, "s.yaml:1: error: 'ces' does not refer to a registered"),
    "parentheses": ("func.func(cse", None, DefinitionFault, "unbalanced parentheses"),
    "option": ("canonicalize{bogus=1}", None, DefinitionFault, "no such option bogus"),
    "value": ("canonicalize{top-down=3}", None, DefinitionFault, "'3' is invalid value"),
    "nesting": ("func.func(one-shot-bufferize)", None, DefinitionFault, "did you intend to nest"),
    "schedule": ("", schedule("transform.bogus"), DefinitionFault, "schedule:5:5: error: "),
    "entry": ("", "module {}", DefinitionFault, "could not find a nested named sequence"),
    "payload": (
        "",
        schedule("transform.structured.vectorize %0 : !transform.any_op"),
        CompilerFault,
        "^error: Attempted to vectorize, but failed",
    ),
}


@pytest.mark.parametrize(("passes", "library", "kind", "message"), REAL.values(), ids=REAL.keys())
def test_a_real_release_is_blamed_alike(
    release: ReleaseToolchain, passes: str, library: str | None, kind: type[Blamed], message: str
) -> None:
    step = Step(tool="mlir-opt", passes=passes, library=library, source="s.yaml:1")
    with pytest.raises(Blamed, match=message) as caught:
        release.apply(step, MODULE)
    assert type(caught.value) is kind


def test_a_real_release_compiles_code_that_is_called(
    release: ReleaseToolchain, tmp_path: Path
) -> None:
    module = """
    func.func @halve(%in: memref<4xf32>, %out: memref<4xf16>) attributes {llvm.emit_c_interface} {
      affine.for %i = 0 to 4 {
        %wide = affine.load %in[%i] : memref<4xf32>
        %narrow = arith.truncf %wide : f32 to f16
        affine.store %narrow, %out[%i] : memref<4xf16>
      }
      return
    }
    """
    passes = (
        "lower-affine,convert-scf-to-cf,convert-arith-to-llvm,finalize-memref-to-llvm,"
        "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
    )
    lowered = release.apply(Step(tool="mlir-opt", passes=passes), module)
    kernel = release.compile(lowered, "halve", tmp_path)
    source = np.array([1.0, -0.1, 65520.0, 6e-8], np.float32)
    target = np.zeros(4, np.float16)
    call(kernel, [source, target])
    with np.errstate(over="ignore"):
        assert target.tobytes() == source.astype(np.float16).tobytes()
