"""What is refused before a device is asked."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.gpu.targets import check_fit
from orchestrator.job import KernelFacts

KERNEL = KernelFacts(
    chip="gfx942", kernel="tiled::work", form="hsaco", code_bytes=4096, shared_bytes=64 * 1024
)


def test_kernels_that_fit_are_not_refused() -> None:
    check_fit([KERNEL, dataclasses.replace(KERNEL, shared_bytes=None)])


def test_a_kernel_that_wants_more_than_the_chip_has_is_named() -> None:
    greedy = dataclasses.replace(KERNEL, shared_bytes=65 * 1024)
    with pytest.raises(
        CompilerFault, match=r"tiled::work: wants 66,560 bytes .* gfx942 has 65,536"
    ):
        check_fit([KERNEL, greedy])
