"""The CUDA shim under real host code, against a driver that checks how it is called."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from tests.harness.gpu import shims
from tests.harness.gpu.shims import Bench

pytestmark = pytest.mark.stack

NAMES = ("libcuda.so.1", "libcuda.so")
TWICE_PLUS_ONE = [2.0 * i + 1 for i in range(1, 101)]


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """PTX for sm_90, and a fake driver for it."""
    return shims.bench("cuda", NAMES, tmp_path_factory.mktemp("cuda"))


def test_a_good_run_is_right_and_gives_everything_back(cuda: Bench) -> None:
    answer = cuda.drive("forward")
    said = answer.said
    assert said["out"] == TWICE_PLUS_ONE
    assert said["modules"] == 2
    assert said["ns"] == 2 * 4 * 1500
    assert said["ns_cleared"] == 0
    assert said["aligned"] == [0, 0]
    assert said["live"] == [2, 0]
    assert answer.breaches == []
    assert answer.calls.count("cuModuleUnload") == 2
    assert answer.calls.count("cuLaunchKernel") == 2
    assert answer.calls.count("cuEventCreate") == answer.calls.count("cuEventDestroy_v2") == 2


def test_the_device_is_described(cuda: Bench) -> None:
    assert cuda.drive("forward").said["device"] == {
        "driver": "cuda",
        "driver_version": "12.4",
        "library": str(cuda.library.resolve()),
        "device": 'Fake "0"',
        "chip": "sm_90",
        "memory_bytes": 1 << 30,
        "shared_memory_bytes": 227 << 10,
        "clock_khz": 1980000,
        "multiprocessors": 132,
    }


def test_another_device_is_chosen_by_its_number(cuda: Bench) -> None:
    answer = cuda.drive("forward", FAKE_GPU_DEVICES="3", LH_GPU_DEVICE="2")
    assert answer.said["device"]["device"] == 'Fake "2"'
    assert answer.breaches == []


@pytest.mark.parametrize("number", ["3", "-1", "0x", "first"])
def test_a_device_that_is_not_there_is_refused(cuda: Bench, number: str) -> None:
    kind, message = cuda.drive("forward", FAKE_GPU_DEVICES="3", LH_GPU_DEVICE=number).fault
    assert kind == "MachineFault"
    assert f"LH_GPU_DEVICE is '{number}', but devices are numbered 0 to 2 here" in message


def test_no_driver_is_a_machine_without_one(cuda: Bench, tmp_path: Path) -> None:
    shims.skip_beside_a_real(NAMES)
    kind, message = cuda.beside(tmp_path / "none.so").drive("forward").fault
    assert kind == "MachineFault"
    assert "libcuda.so.1 cannot be loaded: install NVIDIA's driver" in message
    assert "libcuda.so.1: cannot open shared object file" in message


def test_the_driver_is_found_below_another_root(cuda: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    folder.mkdir(parents=True)
    (folder / NAMES[0]).write_bytes(cuda.library.read_bytes())
    answer = cuda.beside(tmp_path / "none.so").drive("forward", LH_SYSROOT=str(tmp_path))
    assert answer.said["device"]["library"] == str((folder / NAMES[0]).resolve())


def test_a_driver_without_a_call_that_we_need_is_too_old(cuda: Bench, tmp_path: Path) -> None:
    library = shims.fake("cuda", tmp_path / NAMES[0], "cuMemAllocManaged=cuMemAllocOther")
    kind, message = cuda.beside(library).drive("forward").fault
    assert kind == "MachineFault"
    assert "the driver has no cuMemAllocManaged: it is too old, update it" in message


def test_a_driver_that_does_not_count_parameters_will_do(cuda: Bench, tmp_path: Path) -> None:
    library = shims.fake("cuda", tmp_path / NAMES[0], "FAKE_CUDA_OLD")
    answer = cuda.beside(library).drive("forward")
    assert answer.said["out"] == TWICE_PLUS_ONE
    assert answer.breaches == []


@pytest.mark.parametrize("answer", ["FAKE_GPU_FAIL=cuInit:100", "FAKE_GPU_DEVICES=0"])
def test_a_driver_without_a_device_says_what_hides_it(
    cuda: Bench, tmp_path: Path, answer: str
) -> None:
    present = tmp_path / "node"
    present.touch()
    node = f'-DLH_DEVICE_NODE="{present}"'
    built = Bench(
        shared_object=shims.host("cuda", tmp_path, node), library=cuda.library, scratch=tmp_path
    )
    name, _, value = answer.partition("=")
    kind, message = built.drive("forward", CUDA_VISIBLE_DEVICES="", **{name: value}).fault
    assert kind == "MachineFault"
    assert message.endswith("CUDA_ERROR_NO_DEVICE (100): CUDA_VISIBLE_DEVICES is ''")
    present.unlink()
    kind, message = built.drive("forward", **{name: value}).fault
    assert kind == "MachineFault"
    assert message.endswith(
        f"CUDA_ERROR_NO_DEVICE (100): there is no {present} here: load the kernel's driver; "
        "a container must be handed the device"
    )


def test_ptx_that_the_driver_does_not_know_is_the_drivers_age(cuda: Bench) -> None:
    answer = cuda.drive("refused", FAKE_CUDA_PTX="70")
    kind, message = answer.fault
    assert kind == "MachineFault"
    assert message == (
        "loading the kernels: cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): the "
        "driver is too old for this PTX: update it or pick an older PTX version: ptxas application "
        "ptx input, line 5; fatal   : Unsupported .version 7.8; current version is '7.0'"
    )
    launched = answer.said["launched"]
    assert launched["fault"] == "MachineFault"
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in launched["message"]
    assert answer.said["modules"] == 0
    assert answer.said["out"] == [0.0] * 100


def test_a_driver_that_starts_late_has_no_kernels(cuda: Bench) -> None:
    answer = cuda.drive("refused", FAKE_GPU_FAIL="cuInit:999:1")
    assert answer.fault[0] == "MachineFault"
    assert answer.fault[1].startswith("loading the kernels: cuInit: CUDA_ERROR_UNKNOWN (999)")
    assert answer.said["launched"]["message"].startswith("running forward: cuInit: CUDA_ERROR_UNK")
    assert answer.said["out"] == [0.0] * 100


FAILURES = {
    "cuInit:803": ("MachineFault", "the driver's library does not fit its kernel module"),
    "cuInit:999": ("MachineFault", "cuInit: CUDA_ERROR_UNKNOWN (999)"),
    "cuDevicePrimaryCtxRetain:46": ("MachineFault", "another process holds the device"),
    "cuModuleLoadDataEx:209": ("CompilerFault", "the code is for another chip"),
    "cuModuleLoadDataEx:221": ("MachineFault", "install libnvidia-ptxjitcompiler"),
    "cuModuleGetFunction:500": ("CompilerFault", "CUDA_ERROR_NOT_FOUND (500): twice"),
    "cuMemAllocManaged:2": ("CompilerFault", "out of device memory: cuMemAllocManaged"),
    "cuLaunchKernel:701": ("CompilerFault", "cuLaunchKernel: unknown error (701), kernel twice"),
    "cuStreamSynchronize:700": ("CompilerFault", "CUDA_ERROR_ILLEGAL_ADDRESS (700), kernel twice"),
    "cuStreamSynchronize:702": ("MachineFault", "the driver's watchdog ended a kernel"),
    "cuStreamSynchronize:214": ("MachineFault", "memory that ECC could not correct"),
    "cuStreamSynchronize:719:2": ("MachineFault", "kernel plus_one: a fault on the device, or"),
    "cuStreamSynchronize:4711": ("MachineFault", "cuStreamSynchronize: unknown error (4711)"),
}


@pytest.mark.parametrize(("failure", "expected"), FAILURES.items(), ids=FAILURES.keys())
def test_every_code_has_its_class(cuda: Bench, failure: str, expected: tuple[str, str]) -> None:
    answer = cuda.drive("forward", FAKE_GPU_FAIL=failure)
    kind, message = answer.fault
    assert kind == expected[0]
    assert expected[1] in message
    assert answer.breaches == []


def test_an_illegal_address_is_the_codes_fault(cuda: Bench) -> None:
    answer = cuda.drive("on_host_memory")
    kind, message = answer.fault
    assert kind == "CompilerFault"
    assert message == (
        "running forward: cuEventRecord: CUDA_ERROR_ILLEGAL_ADDRESS (700), kernel twice"
    )
    assert any("is not memory" in breach for breach in answer.breaches)


def test_memory_that_is_full_can_be_used_again(cuda: Bench) -> None:
    answer = cuda.drive("full", FAKE_GPU_MEMORY="1000000")
    kind, message = answer.fault
    assert kind == "CompilerFault"
    assert message == (
        "allocating 4,194,304 bytes: out of device memory: cuMemAllocManaged: "
        "CUDA_ERROR_OUT_OF_MEMORY (2): 4194304 bytes wanted"
    )
    assert answer.said["live"] == 0
    assert answer.breaches == []


def test_an_error_stays_until_it_is_cleared(cuda: Bench) -> None:
    answer = cuda.drive("sticky", FAKE_GPU_FAIL="cuStreamCreate:999:1")
    assert answer.fault[0] == "MachineFault"
    assert answer.said["again"] == answer.fault[1]
    assert answer.said["out"] == [0.0] * 100
    assert answer.said["live"] == [2, 0]
    assert answer.said["out_cleared"] == TWICE_PLUS_ONE
    assert answer.calls.count("cuStreamCreate") == 3
    assert answer.breaches == []


def test_launches_that_no_device_takes_are_refused_in_words(cuda: Bench) -> None:
    launches = [[1, 32, 0], [1, 32, 200 << 10], [1, 32, 228 << 10], [1, 2048, 0], [0, 32, 0]]
    launches += [[1 << 31, 32, 0], [4, 32, 0]]
    answer = cuda.drive("launches", LAUNCHES=json.dumps(launches))
    start = "running launch: kernel twice"
    much_shared = (
        "wants 233472 bytes of shared memory for a block (0 static, 233472 dynamic); "
        "this device allows 232448"
    )
    many_threads = (
        "a block of 2048 x 1 x 1 threads; this device takes 1024 x 1024 x 64 and 1024 in all"
    )
    assert answer.said["said"] == [
        ["", 32],
        ["", 32],
        [f"{start} {much_shared}", 0],
        [f"{start}: {many_threads}", 0],
        ["", 0],
        [
            f"{start}: 2147483648 x 1 x 1 blocks; this device takes 2147483647 x 65535 x 65535",
            0,
        ],
        ["", 100],
    ]
    assert answer.said["live"] == 0
    assert answer.calls.count("cuFuncSetAttribute") == 1
    assert answer.calls.count("cuLaunchKernel") == 3
    assert answer.breaches == []


def test_what_is_lost_is_counted_and_what_is_freed_twice_refused(cuda: Bench) -> None:
    answer = cuda.drive("leak")
    kind, message = answer.fault
    assert kind == "CompilerFault"
    assert "was not allocated here, or is free already" in message
    assert answer.said["live"] == 1


@pytest.mark.parametrize("managed", ["1", "0"])
def test_memory_is_set_copied_and_given_back(cuda: Bench, managed: str) -> None:
    answer = cuda.drive("memory", FAKE_CUDA_MANAGED=managed)
    assert answer.said["back"] == [0x01020304] * 8 + [0x05060506] * 8
    assert answer.said["live"] == [3, 0]
    assert answer.said["page"] == 0
    assert ("cuMemHostAlloc" in answer.calls) == (managed == "0")
    assert answer.breaches == []


def test_any_thread_may_call(cuda: Bench) -> None:
    answer = cuda.drive("in_a_thread")
    assert answer.said["out"] == TWICE_PLUS_ONE
    assert answer.breaches == []


def test_host_code_can_be_unloaded_and_loaded_again(cuda: Bench) -> None:
    answer = cuda.drive("unloaded")
    assert answer.said == {"equal": True}
    assert answer.calls.count("cuInit") == 2
    assert answer.calls.count("cuModuleUnload") == 4
    assert answer.breaches == []


def test_launches_that_nobody_waits_for_are_timed(cuda: Bench) -> None:
    answer = cuda.drive("idle")
    assert answer.said == {"ns": 100 * 1500, "modules": 3}
    assert answer.breaches == []


def test_launches_of_two_streams_are_each_counted_once(cuda: Bench) -> None:
    answer = cuda.drive("side_by_side")
    assert answer.said == {"ns": 1111 * 1500}
    assert answer.breaches == []


def test_what_the_drivers_compiler_says_is_told(cuda: Bench) -> None:
    answer = cuda.drive("mistaken")
    compiler = (
        "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): ptxas application ptx input, line 7; "
        "error   : Parsing error ptxas fatal   : Ptx assembly aborted due to errors"
    )
    assert answer.said["code"] == ["CompilerFault", f"loading a kernel: {compiler}"]
    assert answer.said["launch"] == ["CompilerFault", f"running a kernel: {compiler}"]
    assert answer.said["name"] == [
        "CompilerFault",
        "finding kernel busy: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): busy",
    ]
    assert answer.said["params"] == [
        "CompilerFault",
        "running a kernel: kernel idle takes 1 parameters; the host code passes 2",
    ]
    assert answer.said["right"] == []
    assert answer.breaches == ["cuModuleGetFunction: no .entry busy"]
