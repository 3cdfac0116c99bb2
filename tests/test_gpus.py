"""GPUs as kernels and tools show them, in sample trees; no process is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.gpus import detect_gpus, gfx_name

SMI = "NVIDIA H100 PCIe, 9.0, 550.54.15, 81559, 00000000:65:00.0, 96.00.74.00.01, 1980, 2619\n"


def write(root: Path, file: str, text: str = "") -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def nobody(argv: Sequence[str]) -> str:
    raise AssertionError(f"nothing should be started: {argv}")


def says(text: str, asked: list[Sequence[str]] | None = None) -> object:
    def run(argv: Sequence[str]) -> str:
        if asked is not None:
            asked.append(argv)
        return text

    return run


def test_without_a_trace_of_a_gpu_nothing_is_started(tmp_path: Path) -> None:
    assert detect_gpus(tmp_path, nobody) == ()


def test_an_nvidia_gpu(tmp_path: Path) -> None:
    write(tmp_path, "dev/nvidia0")
    write(tmp_path, "proc/driver/nvidia/version", "NVRM version: 550.54.15")
    (gpu,) = detect_gpus(tmp_path, says(SMI))  # type: ignore[arg-type]
    assert (gpu.vendor, gpu.name, gpu.chip) == ("nvidia", "NVIDIA H100 PCIe", "sm_90")
    assert (gpu.driver_version, gpu.firmware) == ("550.54.15", "96.00.74.00.01")
    assert gpu.memory_bytes == 81559 << 20
    assert gpu.clocks == "1980/2619 MHz"
    assert gpu.problem == ""


@pytest.mark.parametrize(
    ("said", "node", "problem"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", True, "reboot, or reload"),
        ("", True, "did not answer"),
        ("No devices were found", True, "nvidia-smi: No devices were found"),
        (SMI.replace("9.0", "[N/A]"), False, "there is no /dev/nvidia0: run nvidia-modprobe"),
    ],
)
def test_an_nvidia_driver_that_shows_no_gpu(
    tmp_path: Path, said: str, node: bool, problem: str
) -> None:
    write(tmp_path, "proc/driver/nvidia/version", "NVRM version: 550.54.15")
    if node:
        write(tmp_path, "dev/nvidia0")
    (gpu,) = detect_gpus(tmp_path, says(said))  # type: ignore[arg-type]
    assert problem in gpu.problem


def amd(root: Path, version: int = 90402) -> None:
    node = "sys/class/kfd/kfd/topology/nodes"
    write(root, f"{node}/0/properties", "cpu_cores_count 8\ngfx_target_version 0\n")
    write(root, f"{node}/1/properties", f"simd_count 304\ngfx_target_version {version}\n")
    write(root, f"{node}/1/name", "aqua_vanjaram\n")
    write(root, "sys/module/amdgpu/version", "6.10.5\n")
    write(root, "sys/class/drm/renderD128/device/vendor", "0x1002\n")


def test_an_amd_gpu(tmp_path: Path) -> None:
    amd(tmp_path)
    write(tmp_path, "dev/kfd")
    write(tmp_path, "dev/dri/renderD128")
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert (gpu.vendor, gpu.name, gpu.chip) == ("amd", "aqua_vanjaram", "gfx942")
    assert (gpu.driver_version, gpu.problem) == ("6.10.5", "")
    assert [Path(node).name for node in gpu.nodes] == ["kfd", "renderD128"]


DPM = {"sclk": "0: 500Mhz\n1: 2100Mhz *\n", "mclk": "0: 900Mhz *\n1: 1300Mhz\n"}


def test_what_the_kernel_says_of_an_amd_gpu(tmp_path: Path) -> None:
    amd(tmp_path)
    node, device = "sys/class/kfd/kfd/topology/nodes/1", "sys/class/drm/renderD129/device"
    properties = "simd_count 304\ngfx_target_version 90402\ndrm_render_minor 129\n"
    write(tmp_path, f"{node}/properties", properties)
    write(tmp_path, f"{device}/product_name", "AMD Instinct MI300X OAM\n")
    write(tmp_path, f"{device}/vbios_version", "113-M3000100-102\n")
    write(tmp_path, f"{device}/mem_info_vram_total", "206141652992\n")
    write(tmp_path, f"{device}/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:05:00.0\n")
    for domain, levels in DPM.items():
        write(tmp_path, f"{device}/pp_dpm_{domain}", levels)
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert (gpu.name, gpu.firmware) == ("AMD Instinct MI300X OAM", "113-M3000100-102")
    assert (gpu.clocks, gpu.memory_bytes) == ("2100/900 MHz", 206141652992)
    assert gpu.pci == "0000:05:00.0"


def test_clocks_that_an_amd_driver_does_not_tell(tmp_path: Path) -> None:
    amd(tmp_path)
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert (gpu.clocks, gpu.memory_bytes, gpu.pci) == ("", 0, "")
    device = "sys/class/drm/renderD128/device"
    node = "sys/class/kfd/kfd/topology/nodes/1/properties"
    write(tmp_path, node, "gfx_target_version 90402\ndrm_render_minor 128\n")
    write(tmp_path, f"{device}/pp_dpm_sclk", "S: 19Mhz *\n0: 500Mhz\n1: 3000Mhz\n")  # asleep
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert gpu.clocks == "19/? MHz"


def test_a_driver_of_the_kernels_own_has_the_kernels_version(tmp_path: Path) -> None:
    amd(tmp_path)
    (tmp_path / "sys/module/amdgpu/version").unlink()
    write(tmp_path, "proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert gpu.driver_version == "Linux 6.8.0-45-generic"


def test_a_missing_device_node_is_named(tmp_path: Path) -> None:
    amd(tmp_path)
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert gpu.problem.startswith(f"{tmp_path}/dev/kfd is missing")


def test_permission_denied_names_node_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amd(tmp_path)
    write(tmp_path, "dev/kfd")
    write(tmp_path, "dev/dri/renderD128")
    # root may open anything, so the answer is given for it
    monkeypatch.setattr("orchestrator.gpus.os.access", lambda *_: False)
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert gpu.problem == (
        f"{tmp_path}/dev/kfd: permission denied (this user is not in the groups render and "
        "video): ask the machine's owner for access"
    )


def test_an_intel_gpu(tmp_path: Path) -> None:
    write(tmp_path, "sys/class/drm/renderD129/device/vendor", "0x8086\n")
    write(tmp_path, "dev/dri/renderD129")
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert (gpu.vendor, gpu.problem) == ("intel", "")


@pytest.mark.parametrize(
    ("driver", "file"),
    [
        ("i915", "drm/card1/gt/gt0/rps_cur_freq_mhz"),
        ("i915", "drm/card1/gt_cur_freq_mhz"),
        ("xe", "tile0/gt0/freq0/cur_freq"),
    ],
)
def test_what_the_kernel_says_of_an_intel_gpu(tmp_path: Path, driver: str, file: str) -> None:
    device = "sys/class/drm/renderD129/device"
    write(tmp_path, f"{device}/vendor", "0x8086\n")
    write(tmp_path, f"{device}/device", "0x0bd5\n")
    write(tmp_path, f"{device}/uevent", f"DRIVER={driver}\nPCI_SLOT_NAME=0000:3a:00.0\n")
    write(tmp_path, f"{device}/{file}", "1550\n")
    write(tmp_path, f"sys/bus/pci/drivers/{driver}/bind")
    (tmp_path / device / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers" / driver)
    write(tmp_path, "proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    (gpu,) = detect_gpus(tmp_path, nobody)
    assert (gpu.name, gpu.pci) == ("Intel GPU 0x0bd5", "0000:3a:00.0")
    assert gpu.driver_version == f"{driver} Linux 6.8.0-45-generic"
    assert gpu.clocks == "1550 MHz"


@pytest.mark.parametrize(
    ("version", "name"),
    [(90010, "gfx90a"), (90402, "gfx942"), (90008, "gfx908"), (110000, "gfx1100"),
     (120001, "gfx1201"), (100300, "gfx1030")],
)  # fmt: skip
def test_names_of_amd_chips(version: int, name: str) -> None:
    assert gfx_name(version) == name
