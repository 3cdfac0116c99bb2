"""Which of several codes a device is given."""

from __future__ import annotations

import pytest

from orchestrator.harness.gpu.fitting import RULES, fitting, ordered
from orchestrator.job import Driver

NVIDIA = ("sm_100", "sm_80", "sm_90")


@pytest.mark.parametrize(
    ("chips", "device", "chosen"),
    [
        (NVIDIA, "sm_90", "sm_90"),
        (NVIDIA, "sm_89", "sm_80"),
        (NVIDIA, "sm_103", "sm_100"),
        (NVIDIA, "sm_120", "sm_100"),
        (NVIDIA, "sm_75", None),
        (NVIDIA, "", None),
        (("sm_80", "sm_90a"), "sm_90", "sm_90a"),
        (("sm_90", "sm_90a"), "sm_90", "sm_90a"),
        (("sm_80", "sm_90a"), "sm_100", "sm_80"),
        (("sm_90a",), "sm_100", None),
        (("sm_100f", "sm_90"), "sm_103", "sm_100f"),
        (("sm_100f", "sm_90"), "sm_120", "sm_90"),
        (("sm_100", "sm_100f", "sm_100a"), "sm_100", "sm_100a"),
        (("spirv",), "sm_90", None),
    ],
)
def test_nvidia_takes_the_newest_that_is_not_too_new(
    chips: tuple[str, ...], device: str, chosen: str | None
) -> None:
    assert fitting("cuda", chips, device) == chosen


@pytest.mark.parametrize(
    ("device", "chosen"),
    [
        ("sm_80", "sm_80"),
        ("sm_89", "sm_86"),
        ("sm_90", "sm_90"),
        ("sm_100", "sm_100"),
        ("sm_103", None),
        ("sm_120", None),
        ("sm_75", None),
        ("", None),
    ],
)
def test_a_cubin_is_for_its_chip_and_below_hopper_for_its_generation(
    device: str, chosen: str | None
) -> None:
    assert fitting("cuda", ("sm_80", "sm_86", "sm_90", "sm_100"), device, cubins=True) == chosen


@pytest.mark.parametrize(
    ("device", "chosen"),
    [
        ("gfx942", "gfx942"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
        ("gfx941", None),
        ("gfx1100", None),
        ("", None),
    ],
)
def test_amd_takes_its_own_alone(device: str, chosen: str | None) -> None:
    assert fitting("hip", ("gfx942", "gfx90a"), device) == chosen


@pytest.mark.parametrize("driver", ["opencl", "vulkan"])
def test_spirv_is_for_any_device(driver: Driver) -> None:
    assert fitting(driver, ("spirv",), "") == "spirv"


def test_a_driver_may_name_what_it_takes() -> None:
    assert fitting("opencl", ("spir", "spirv"), "spir") == "spir"
    assert fitting("opencl", ("spirv",), "spir") is None


def test_older_chips_come_first() -> None:
    assert ordered(NVIDIA) == ["sm_80", "sm_90", "sm_100"]
    assert ordered({"gfx1100", "gfx942", "gfx90a"}) == ["gfx90a", "gfx942", "gfx1100"]


def test_every_driver_has_a_rule_in_words() -> None:
    assert set(RULES) == {"cuda", "hip", "opencl", "vulkan"}
