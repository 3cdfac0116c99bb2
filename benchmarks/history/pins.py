"""Versions of stacks, and how they go up."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np

from orchestrator.results.declared import Declared

_FIRST = {
    "LLVM": "22.1.0",
    "torch": "2.11.0+cpu",
    "torch-mlir": "20260105",
    "jax": "0.8.0",
    "jaxlib": "0.8.0",
    "triton": "3.6.0",
}
_ROLLED = {
    "pytorch": ("torch-mlir", "torch-mlir", "torch"),
    "pytorch-gpu": ("torch-mlir", "torch"),
    "jax": ("jax", "torch-mlir"),
    "triton": ("triton",),
}
LLVM = "LLVM"
_LLVM_TOOLS = ("clang", "ld.lld", "mlir-opt", "mlir-translate")
_TOLD = ("jax", "jaxlib", "numpy", "torch", "torch-mlir", "triton")


class Pins:
    """What each stack has, as it goes from version to version."""

    def __init__(self, declared: Declared, start: dt.date) -> None:
        """Begins with versions older than the repository's."""
        first = {**_FIRST, "torch-mlir": f"{start - dt.timedelta(days=20):%Y%m%d}"}
        self.versions = {
            name: {package: first.get(package, v) for package, v in stack.versions.items()}
            for name, stack in declared.stacks.items()
        }
        self._used = sorted(
            {pipeline.stack for pipeline in declared.pipelines.values()} & set(_ROLLED)
        )

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """A stack, empty for all of them, and what changes in it."""
        if rng.random() < 0.25:
            return "", LLVM
        stack = str(rng.choice(self._used))
        return stack, str(rng.choice(_ROLLED[stack]))

    def roll(self, stack: str, package: str, day: dt.date) -> tuple[str, str]:
        """Moves on; returns what it was and what it is."""
        some = self.versions[stack or next(iter(self.versions))]
        before = some[package]
        if package == "torch-mlir":
            after = f"{day:%Y%m%d}"
        else:
            after = bumped(before) if package == LLVM else _next_minor(before)
        apply(self.versions, stack, package, after)
        return before, after


def apply(versions: dict[str, dict[str, str]], stack: str, package: str, value: str) -> None:
    """Sets a version in a stack, or in all; JAX's two packages go together."""
    names = ("jax", "jaxlib") if package == "jax" else (package,)
    for name in [stack] if stack else list(versions):
        versions[name] |= dict.fromkeys(names, value)


def told(versions: dict[str, str]) -> dict[str, str]:
    """The versions that a harness tells of a stack."""
    tools = dict.fromkeys(_LLVM_TOOLS, versions[LLVM])
    return {**tools, **{name: versions[name] for name in _TOLD if name in versions}}


def bumped(version: str, before: str = ".") -> str:
    """With the last number behind `before` one higher."""
    numbers = list(re.finditer(rf"(?<={re.escape(before)})\d+(?![\w.])", version))
    last = numbers[-1]
    return f"{version[: last.start()]}{int(last[0]) + 1}{version[last.end() :]}"


def _next_minor(version: str) -> str:
    major, minor, *_ = version.split(".")
    suffix = f"+{version.partition('+')[2]}" if "+" in version else ""
    return f"{major}.{int(minor) + 1}.0{suffix}"
