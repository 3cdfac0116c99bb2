"""Host code that MLIR generates, a shim, and a fake driver: built, then driven in a process."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orchestrator.harness.blame import MachineFault
from orchestrator.harness.gpu.runtime import SHIM_FLAGS, shim_source
from orchestrator.harness.toolchains.release import ReleaseToolchain
from orchestrator.job import Driver, Step
from tests.harness import llvm

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

_HOST = (
    "func.func(llvm-request-c-wrappers),convert-scf-to-cf,expand-strided-metadata,lower-affine,"
    "convert-vector-to-llvm,convert-math-to-llvm,convert-math-to-libm,"
    "finalize-memref-to-llvm{use-generic-functions},gpu-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-index-to-llvm,convert-ub-to-llvm,convert-func-to-llvm,"
    "reconcile-unrealized-casts"
)
_KERNELS = {
    "cuda": (
        "nvvm-attach-target{chip=sm_90 O=3},gpu.module(strip-debuginfo,convert-scf-to-cf,"
        "convert-gpu-to-nvvm,canonicalize,cse,reconcile-unrealized-casts),"
        "gpu-module-to-binary{format=isa}"
    ),
    "hip": (
        "rocdl-attach-target{chip=gfx942 O=3},gpu.module(strip-debuginfo,convert-scf-to-cf,"
        "convert-gpu-to-rocdl{chipset=gfx942 runtime=HIP},canonicalize,cse,"
        "reconcile-unrealized-casts),gpu-module-to-binary{format=bin toolkit=TOOLKIT}"
    ),
}

_WARNINGS = ("-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a scenario of `driven` said, and what the fake driver saw."""

    said: dict[str, Any]
    breaches: list[str]
    calls: list[str]

    @property
    def fault(self) -> tuple[str, str]:
        """Kind and message of what it ended with."""
        return self.said["fault"], self.said["message"]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A shared object of host code, and the folder of the fake driver that it finds."""

    shared_object: Path
    library: Path
    """The fake driver's."""
    scratch: Path

    def beside(self, library: Path) -> Bench:
        """The same host code, but a driver that is or is not in another folder."""
        return replace(self, library=library)

    def drive(self, scenario: str, **environ: str) -> Answer:
        """Runs a scenario of `driven` in a process of its own, under more variables."""
        log, trace = self.scratch / f"{scenario}.log", self.scratch / f"{scenario}.trace"
        for path in (log, trace):
            path.unlink(missing_ok=True)
            path.touch()
        hidden = ("LH_", "FAKE_", "CUDA_", "HIP_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        environment |= {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "PYTHONPATH": str(ROOT),
            "FAKE_GPU_LOG": str(log),
            "FAKE_GPU_TRACE": str(trace),
            **environ,
        }
        argv = [sys.executable, "-m", "tests.harness.gpu.driven", scenario, str(self.shared_object)]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return Answer(
            said=json.loads(done.stdout),
            breaches=log.read_text().splitlines(),
            calls=trace.read_text().splitlines(),
        )


def bench(driver: Driver, names: Sequence[str], folder: Path) -> Bench:
    """Builds `toy.mlir` and a fake driver under the first of these names; skips without LLVM."""
    library = fake(driver, folder / "driver" / names[0])
    return Bench(shared_object=host(driver, folder), library=library, scratch=folder)


def host(driver: Driver, folder: Path, *flags: str) -> Path:
    """Builds `toy.mlir` and a shim; `flags` go to clang."""
    kernels = _KERNELS[driver].replace("TOOLKIT", str(_toolkit(folder)))
    step = Step(tool="mlir-opt", passes=f"{kernels},{_HOST}")
    lowered = _toolchain().apply(step, (HERE / "toy.mlir").read_text())
    code = _toolchain().translate(lowered, folder / "toy.ll")
    sources = (code, shim_source(driver))
    every = (*SHIM_FLAGS, *_WARNINGS, *flags)
    return _toolchain().link(sources, folder / "host.so", every)


def alone(driver: Driver, folder: Path, *flags: str) -> Path:
    """Builds a shim without host code; `flags` go to clang."""
    every = (*SHIM_FLAGS, *_WARNINGS, *flags)
    return _toolchain().link((shim_source(driver),), folder / "alone.so", every)


def fake(driver: Driver, target: Path, *defines: str) -> Path:
    """Builds a fake driver, with macros defined."""
    return _library(HERE / f"fake_{driver}.c", target, *(f"-D{name}" for name in defines))


def forbid(target: Path, node: Path) -> Path:
    """A library to preload: nobody may read and write this file, not even root."""
    source = target.with_suffix(".c")
    source.write_text(
        "int strcmp(const char *, const char *);\n"
        "int access(const char *path, int wanted) {\n"
        f'    return wanted == 6 && strcmp(path, "{node}") == 0 ? -1 : 0;\n'
        "}\n"
    )
    return _library(source, target)


def skip_beside_a_real(names: Sequence[str]) -> None:
    """A machine with a driver cannot tell what happens without one."""
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        pytest.skip(f"this machine has {name}")


def _library(source: Path, target: Path, *flags: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    headers = f"-I{shim_source('cuda').parent}"
    every = ("-std=c17", "-ffreestanding", *_WARNINGS, headers, *flags)
    return _toolchain().link((source,), target, every)


@cache
def _toolchain() -> ReleaseToolchain:
    """An LLVM release that has all tools."""
    toolchain = ReleaseToolchain(llvm.tool("mlir-opt").parent.parent, None)
    try:
        toolchain.versions()
    except MachineFault as error:
        pytest.skip(error.message)
    return toolchain


def _toolkit(folder: Path) -> Path:
    """A ROCm folder as `gpu-module-to-binary` wants it: our linker, no device libraries."""
    toolkit = folder / "toolkit"
    (toolkit / "amdgcn" / "bitcode").mkdir(parents=True, exist_ok=True)
    linker = toolkit / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True, exist_ok=True)
    linker.write_text(f'#!/bin/sh\nexec "{llvm.tool("ld.lld")}" "$@"\n')
    linker.chmod(0o755)
    return toolkit
