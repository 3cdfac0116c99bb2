"""A small repository to break in one place at a time."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.config.load import Config, load
from orchestrator.errors import DefinitionError

FILES = {
    "matrix.yaml": """\
schema: 1
defaults:
  timeout: 60s
  memory: 4GiB
pools:
  intel-cpu: {tier: core, about: Intel, arch: x86_64, cpu_vendor: GenuineIntel}
  amd-cpu: {tier: core, about: AMD, arch: x86_64, cpu_vendor: AuthenticAMD}
  arm-cpu: {tier: peripheral, about: ARM, arch: aarch64}
stacks:
  pytorch: {tier: core, about: PyTorch}
pipelines:
  torch_cpu:
    tier: core
    about: PyTorch to CPU code
    stack: pytorch
    recipe: torch_cpu
    pools: [intel-cpu, amd-cpu]
    timeout: 90s
    runs:
      - workloads: ["*"]
        without: [odd]
      - workloads: [mlp]
        variants: [f16]
workloads:
  mlp: {memory: 512MiB}
expectations:
  - cells: torch_cpu.mlp.f16@*
    phase: lower:to-llvm
    match: "failed to legalize"
    reason: f16 is not there yet
    issue: tracked elsewhere
    expires: 2027-01-31
    owner: maintainers
    since: 2026-11-20
""",
    "images/pins.yaml": """\
schema: 1
base: debian:bookworm-slim
base_suite: bookworm
llvm:
  version: 22.1.8
  packages: {mlir-22-tools: 1:22.1.8-1}
stacks:
  pytorch:
    proven: 2026-11-20
    python: ["3.11"]
    packages: {torch: 2.13.0+cpu}
""",
    "images/pytorch/Dockerfile": "FROM scratch\n",
    "golden/tolerances.yaml": """\
schema: 1
dtypes:
  f16: {rtol: 1.0e-3, atol: 1.0e-5, reason: table}
  f32: {rtol: 1.3e-6, atol: 1.0e-5, reason: table}
overrides:
  - {cells: "torch_cpu.*.f16@*", dtype: f16, rtol: 0.01, atol: 0, reason: half}
  - {cells: "*@amd-cpu", dtype: f16, rtol: 0.02, atol: 0, reason: AMD}
""",
    "recipes/pipelines/torch_cpu.yaml": """\
about: From torch to LLVM, for tests.
tier: core
ingress:
  frontend: torch_mlir
  options: {output: linalg-on-tensors}
params:
  width: {type: int, default: 8}
steps:
  - recipe: tile
    params: {size: "${width}"}
  - recipe: to-llvm
  - recipe: tile
    params: {size: 4}
""",
    "recipes/schedules/tile.yaml": """\
about: Tiles and cleans up, for tests.
tier: core
params:
  size: {type: int}
  fast: {type: bool, default: true}
contract:
  requires: [linalg]
  absent: [tosa]
  must_change: true
steps:
  - pass: |
      canonicalize,
      tile{size=${size}}
  - schedule: tile.mlir
  - recipe: clean-up
    params: {rate: "${size}"}
""",
    "recipes/schedules/tile.mlir": """\
transform.named_sequence @__transform_main() {
  // ${size} and ${fast}
}
""",
    "recipes/schedules/clean-up.yaml": """\
about: Cleans up, for tests.
tier: core
params:
  rate: {type: float, default: 1.0e-6}
steps:
  - pass: cse{rate=${rate}}
    tool: frontend-opt
""",
    "recipes/schedules/to-llvm.yaml": """\
about: Lowers to LLVM, for tests.
tier: core
steps:
  - pass: convert-to-llvm
""",
    "recipes/workloads/mlp.py": (
        '"""Two layers.\n\nMore."""\n\nclass Model: ...\n\ndef get_inputs(): ...\n'
    ),
    "recipes/workloads/odd.py": "def model(): ...\n\nget_inputs = list\n",
    "recipes/workloads/sum.py": "class Model: ...\n\ndef get_inputs(): ...\n",
    "recipes/workloads/_shared.py": "not even Python\n",
    "orchestrator/harness/ingress/__init__.py": "",
    "orchestrator/harness/ingress/base.py": "",
    "orchestrator/harness/ingress/torch_mlir.py": "",
}

GOLDENS = (("mlp", "f32"), ("mlp", "f16"), ("sum", "f32"))


@dataclass(frozen=True)
class Tree:
    """A repository in a temporary folder."""

    root: Path

    def write(self, file: str, text: str) -> None:
        """Writes a file, and the folders above it."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        """Replaces a text that is in a file exactly once."""
        text = (self.root / file).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
        self.write(file, text.replace(old, new))

    def record(
        self,
        workload: str,
        variant: str,
        content: bytes | None = None,
        changed: Mapping[str, object] | None = None,
    ) -> Path:
        """Writes a golden and its record; `content` and `changed` replace what is in them."""
        folder = self.root / "golden" / workload
        folder.mkdir(parents=True, exist_ok=True)
        content = npz(output_0=np.ones((2, 3))) if content is None else content
        path = folder / f"{variant}.npz"
        path.write_bytes(content)
        source = self.root / "recipes/workloads" / f"{workload}.py"
        program = source.read_bytes() if source.exists() else b""
        record = {
            "schema": 1,
            "workload": workload,
            "variant": variant,
            "source": "eager@f64",
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "inputs_sha256": "0" * 64,
            "workload_sha256": hashlib.sha256(program).hexdigest(),
            "versions": {"torch": "2.13.0"},
            "command": "lh-ci golden update",
            "recorded": "2026-11-20",
            **(changed or {}),
        }
        path.with_suffix(".json").write_text(json.dumps(record), encoding="utf-8")
        return path

    def load(self, **options: Any) -> Config:
        """What `load` makes of it."""
        return load(self.root, **options)

    def problems(self, **options: Any) -> list[str]:
        """What `load` tells about it, a line each; empty when it loads."""
        try:
            self.load(**options)
        except DefinitionError as e:
            return [str(problem) for problem in e.problems]
        return []


def npz(**arrays: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an `.npz` file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


def make_tree(root: Path) -> Tree:
    """A repository that loads without a problem."""
    tree = Tree(root)
    for file, text in FILES.items():
        tree.write(file, text)
    for workload, variant in GOLDENS:
        tree.record(workload, variant)
    return tree
