"""Which of OpenCL's devices a shim takes: no cell may pass on another device than its pool's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.gpu import shims
from tests.harness.gpu.shims import Bench

pytestmark = pytest.mark.stack

POCL = "Portable Computing Language|The pocl project|0|1"
POCL_ON_A_GPU = "Portable Computing Language|The pocl project|1|1"
INTEL = "Intel(R) OpenCL HD Graphics|Intel(R) Corporation|2|0"
INTEL_WITHOUT = "Intel(R) OpenCL HD Graphics|Intel(R) Corporation|0|0"
INTEL_CPU = "Intel(R) OpenCL|Intel(R) Corporation|0|1"
OTHER = "Clover|Mesa|1|0"


@pytest.fixture(scope="module")
def opencl(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A shim, no host code, and a fake loader."""
    folder = tmp_path_factory.mktemp("opencl")
    library = shims.fake("opencl", folder / "driver" / "libOpenCL.so.1")
    node = f'-DLH_DEVICE_NODE="{folder / "renderD128"}"'
    return Bench(shared_object=shims.alone("opencl", folder, node), library=library, scratch=folder)


@pytest.mark.parametrize(
    ("vendor", "platforms", "device"),
    [
        ("intel", [POCL, INTEL], "Intel(R) OpenCL HD Graphics gpu 0"),
        ("intel", [OTHER, INTEL_CPU, INTEL], "Intel(R) OpenCL HD Graphics gpu 0"),
        ("software", [INTEL, POCL], "Portable Computing Language cpu 0"),
        ("software", [INTEL_CPU, POCL_ON_A_GPU], "Portable Computing Language cpu 0"),
        ("", [POCL, INTEL], "Intel(R) OpenCL HD Graphics gpu 0"),
        ("", [INTEL_WITHOUT, POCL], "Portable Computing Language cpu 0"),
    ],
)
def test_the_device_is_of_the_pools_platform(
    opencl: Bench, vendor: str, platforms: list[str], device: str
) -> None:
    said = told(opencl, vendor, *platforms).said
    assert said["device"]["device"] == device
    assert said["device"]["clock_khz"] == 1_500_000
    assert said["device"]["multiprocessors"] == 512


def test_the_second_gpu_of_a_vendor_is_counted_among_its_own(opencl: Bench) -> None:
    answer = told(opencl, "intel", OTHER, INTEL, LH_GPU_DEVICE="1")
    assert answer.said["device"]["device"] == "Intel(R) OpenCL HD Graphics gpu 1"
    answer = told(opencl, "intel", OTHER, INTEL, LH_GPU_DEVICE="2")
    assert "LH_GPU_DEVICE is '2', but devices are numbered 0 to 1 here" in answer.fault[1]


@pytest.mark.parametrize(
    ("vendor", "platforms", "words"),
    [
        (
            "intel",
            [INTEL_WITHOUT, POCL],
            (
                "OpenCL shows no GPU of Intel's here: its driver (intel-opencl-icd) shows none "
                "(platforms: Intel(R) OpenCL HD Graphics, Portable Computing Language); "
                "there is no"
            ),
        ),
        ("software", [INTEL], "OpenCL has no PoCL here, which executes on CPUs"),
        ("", [], "OpenCL has no device here: no driver (ICD) shows one (platforms: none)"),
    ],
)
def test_without_such_a_device_no_other_is_taken(
    opencl: Bench, vendor: str, platforms: list[str], words: str
) -> None:
    kind, message = told(opencl, vendor, *platforms).fault
    assert kind == "MachineFault"
    assert message.startswith(f"opening the device: {words}")


def test_a_node_that_may_not_be_opened_is_told(opencl: Bench, tmp_path: Path) -> None:
    node = opencl.scratch / "renderD128"
    node.touch()
    try:
        forbidding = shims.forbid(tmp_path / "forbid.so", node)
        answer = told(opencl, "intel", INTEL_WITHOUT, LD_PRELOAD=str(forbidding))
    finally:
        node.unlink()
    assert answer.fault[1].endswith(
        f"permission denied on {node}: be a member of the group that owns it (render)"
    )


def told(opencl: Bench, vendor: str, *platforms: str, **environ: str) -> shims.Answer:
    lines = "".join(f"{line}\n" for line in platforms)
    return opencl.drive("described", FAKE_CL=lines, LH_GPU_VENDOR=vendor, **environ)
