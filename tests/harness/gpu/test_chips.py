"""Which chips there are, and what fits on them."""

from __future__ import annotations

import pytest

from orchestrator.harness.gpu.chips import fits, wrong_chip
from orchestrator.job import Driver


@pytest.mark.parametrize(
    ("name", "driver", "said"),
    [
        ("sm_90", "cuda", ""),
        ("gfx942", "hip", ""),
        ("spirv", "vulkan", ""),
        ("spir", "opencl", ""),
        ("pvc", "opencl", ""),
        ("pvc", "vulkan", "chip `pvc` is not of driver `vulkan`. Its chips: spirv"),
        ("sm_91", "cuda", "no chip `sm_91` is known. Did you mean `sm_90`?"),
        ("gfx942", "cuda", "chip `gfx942` is not of driver `cuda`. Its chips: sm_70"),
        ("spir", "vulkan", "chip `spir` is not of driver `vulkan`. Its chips: spirv"),
    ],
)
def test_a_chip_and_its_driver(name: str, driver: Driver, said: str) -> None:
    wrong = wrong_chip(name, driver)
    assert wrong.startswith(said)
    assert bool(wrong) == bool(said)


def test_what_a_block_may_have() -> None:
    assert fits("sm_90", 227 * 1024) == ""
    assert fits("gfx942", 64 * 1024) == ""
    assert fits("spirv", 1 << 30) == ""  # the device says
    assert fits("gfx942", 64 * 1024 + 1) == (
        "wants 65,537 bytes of shared memory for a block, and gfx942 has 65,536: use smaller "
        "tiles, or another chip"
    )
