"""The HIP shim under real host code, against a runtime that checks how it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.gpu import shims
from tests.harness.gpu.shims import Bench

pytestmark = pytest.mark.stack

NAMES = ("libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so.5", "libamdhip64.so")
TWICE_PLUS_ONE = [2.0 * i + 1 for i in range(1, 101)]


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """HSACO for gfx942, and a fake runtime for it."""
    return shims.bench("hip", NAMES, tmp_path_factory.mktemp("hip"))


def test_a_good_run_is_right_and_gives_everything_back(hip: Bench) -> None:
    answer = hip.drive("forward")
    said = answer.said
    assert said["out"] == TWICE_PLUS_ONE
    assert said["modules"] == 2
    assert said["ns"] == 2 * 4 * 1500
    assert said["live"] == [2, 0]
    assert answer.breaches == []
    assert answer.calls.count("hipModuleUnload") == 2
    assert answer.calls.count("hipModuleLaunchKernel") == 2
    assert answer.calls.count("hipEventDestroy") == 2


@pytest.mark.parametrize(("name", "defines"), [(NAMES[1], ()), (NAMES[2], ("FAKE_HIP_5",))])
def test_the_device_is_described_by_any_release(
    hip: Bench, tmp_path: Path, name: str, defines: tuple[str, ...]
) -> None:
    library = shims.fake("hip", tmp_path / name, *defines)
    answer = hip.beside(library).drive("forward")
    assert answer.said["device"] == {
        "driver": "hip",
        "driver_version": "6.1.40091",
        "library": str(library.resolve()),
        "device": 'Fake "0"',
        "chip": "gfx942",
        "memory_bytes": 1 << 30,
        "shared_memory_bytes": 64 << 10,
        "clock_khz": 2100000,
        "multiprocessors": 304,
    }
    assert answer.breaches == []


def test_no_runtime_is_a_machine_without_one(hip: Bench, tmp_path: Path) -> None:
    shims.skip_beside_a_real(NAMES)
    kind, message = hip.beside(tmp_path / "none.so").drive("forward").fault
    assert kind == "MachineFault"
    assert "libamdhip64.so cannot be loaded: install ROCm's HIP runtime" in message


def test_a_missing_node_and_a_forbidden_one_are_told_apart(hip: Bench, tmp_path: Path) -> None:
    node = tmp_path / "kfd"
    macro = f'-DLH_DEVICE_NODE="{node}"'
    built = Bench(
        shared_object=shims.host("hip", tmp_path, macro), library=hip.library, scratch=tmp_path
    )
    start = "loading the kernels: hipInit: hipErrorNoDevice (100): "
    kind, message = built.drive("forward", FAKE_GPU_FAIL="hipInit:100").fault
    assert kind == "MachineFault"
    assert message.startswith(f"{start}there is no {node} here")
    node.touch()
    forbidding = shims.forbid(tmp_path / "forbid.so", node)
    kind, message = built.drive(
        "forward", FAKE_GPU_FAIL="hipInit:100", LD_PRELOAD=str(forbidding)
    ).fault
    assert kind == "MachineFault"
    assert message == (
        f"{start}permission denied on {node}: be a member of the groups that own /dev/kfd and "
        "/dev/dri (render, video)"
    )


def test_what_rocm_5_says_without_a_device_is_understood(hip: Bench, tmp_path: Path) -> None:
    macro = f'-DLH_DEVICE_NODE="{tmp_path / "kfd"}"'
    built = Bench(
        shared_object=shims.host("hip", tmp_path, macro), library=hip.library, scratch=tmp_path
    )
    kind, message = built.drive("forward", FAKE_GPU_FAIL="hipInit:101").fault
    assert kind == "MachineFault"
    assert "hipInit: hipErrorNoDevice (100): there is no " in message


def test_the_rocm_that_is_named_is_taken_and_no_other(hip: Bench, tmp_path: Path) -> None:
    rocm = tmp_path / "rocm"
    library = shims.fake("hip", rocm / "lib" / NAMES[2], "FAKE_HIP_5")
    said = hip.drive("forward", LH_ROCM=str(rocm)).said
    assert said["device"]["library"] == str(library.resolve())
    assert said["out"] == TWICE_PLUS_ONE

    library.write_text("not a library")
    kind, message = hip.drive("forward", LH_ROCM=str(rocm)).fault
    assert kind == "MachineFault"
    assert "name its folder in LH_ROCM" in message
    assert f"{library}: " in message  # why that very file cannot be loaded
    library.unlink()
    assert f"{rocm} has no lib/libamdhip64.so" in hip.drive("forward", LH_ROCM=str(rocm)).fault[1]


FAILURES = {
    "hipGetDeviceCount:35": ("MachineFault", "the driver is too old: update it"),
    "hipModuleLoadDataEx:209": (
        "CompilerFault",
        "209): the code is for another chip: this device is gfx942:sramecc+:xnack-",
    ),
    "hipMallocManaged:2": ("CompilerFault", "out of device memory: hipMallocManaged"),
    "hipStreamSynchronize:700": ("CompilerFault", "hipErrorIllegalAddress (700), kernel twice"),
    "hipStreamSynchronize:719": ("MachineFault", "hipErrorLaunchFailure (719), kernel twice"),
    "hipStreamSynchronize:1053": ("MachineFault", "hipStreamSynchronize: hipErrorUnknown (1053)"),
}


@pytest.mark.parametrize(("failure", "expected"), FAILURES.items(), ids=FAILURES.keys())
def test_every_code_has_its_class(hip: Bench, failure: str, expected: tuple[str, str]) -> None:
    answer = hip.drive("forward", FAKE_GPU_FAIL=failure)
    kind, message = answer.fault
    assert kind == expected[0]
    assert expected[1] in message
    assert answer.breaches == []


def test_an_illegal_address_is_the_codes_fault(hip: Bench) -> None:
    kind, message = hip.drive("on_host_memory").fault
    assert kind == "CompilerFault"
    assert message.endswith("hipErrorIllegalAddress (700), kernel twice")


def test_memory_that_is_full_can_be_used_again(hip: Bench) -> None:
    answer = hip.drive("full", FAKE_GPU_MEMORY="1000000")
    assert answer.fault[0] == "CompilerFault"
    assert "out of device memory: hipMallocManaged: hipErrorOutOfMemory (2)" in answer.fault[1]
    assert answer.said["live"] == 0
    assert answer.breaches == []


def test_an_error_stays_until_it_is_cleared(hip: Bench) -> None:
    answer = hip.drive("sticky", FAKE_GPU_FAIL="hipStreamCreateWithFlags:999:1")
    assert answer.fault[0] == "MachineFault"
    assert answer.said["again"] == answer.fault[1]
    assert answer.said["live"] == [2, 0]
    assert answer.said["out_cleared"] == TWICE_PLUS_ONE


def test_launches_that_no_device_takes_are_refused_in_words(hip: Bench) -> None:
    answer = hip.drive("launches", LAUNCHES=json.dumps([[1, 32, 40 << 10], [1, 32, 65 << 10]]))
    refusal = (
        "running launch: kernel twice wants 66560 bytes of shared memory for a block (0 static, "
        "66560 dynamic); this device allows 65536"
    )
    assert answer.said["said"] == [["", 32], [refusal, 0]]
    assert answer.breaches == []


def test_memory_is_set_copied_and_given_back(hip: Bench) -> None:
    answer = hip.drive("memory")
    assert answer.said["back"] == [0x01020304] * 8 + [0x05060506] * 8
    assert answer.said["live"] == [3, 0]
    assert answer.breaches == []


def test_any_thread_may_call(hip: Bench) -> None:
    answer = hip.drive("in_a_thread")
    assert answer.said["out"] == TWICE_PLUS_ONE
    assert answer.breaches == []


def test_text_is_no_code_that_it_loads(hip: Bench) -> None:
    assert hip.drive("text").fault == (
        "CompilerFault",
        "loading a kernel: mgpuModuleLoadJIT: HIP loads assembled code (HSACO) only",
    )
