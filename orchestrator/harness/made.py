"""What came of a program, however it was compiled and wherever it ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.harness.ingress.base import Array, Port
from orchestrator.job import KernelFacts


@dataclass(frozen=True, kw_only=True)
class Made:
    """A program that was compiled, and executed where that was asked for."""

    results: tuple[Port, ...]
    """Types of the outputs."""
    outputs: Sequence[Array] | None
    """None: it was not to be executed."""
    kernels: tuple[KernelFacts, ...] = ()
    device: Mapping[str, str | int] = field(default_factory=dict)
    """The GPU that executed it; empty for CPUs."""
    kernel_ns: tuple[int, ...] = ()
    """Nanoseconds that the kernels took on the device, for each call."""
