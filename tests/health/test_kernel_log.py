"""What is read out of kernel logs, in lines as machines have written them."""

from __future__ import annotations

import pytest

from orchestrator.health.evidence import Evidence, Vendor
from orchestrator.health.kernel_log import read
from orchestrator.health.xids import about


def only(line: str, vendor: Vendor) -> Evidence:
    (piece,) = read([line], vendor)
    return piece


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            (
                "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, "
                "GPU has fallen off the bus."
            ),
            ("lost", "device", "0000:05:00", "79"),
        ),
        (
            (
                "[112.1] NVRM: Xid (PCI:0000:3b:00): 119, pid=1346198, name=nvidia-smi, Timeout "
                "waiting for RPC from GSP! Expected function 103 (GSP_RM_ALLOC) (0x80 0x38)."
            ),
            ("xid", "device", "0000:3b:00", "119"),
        ),
        (
            "NVRM: Xid (PCI:0000:5e:00 GPU-I:05): 94, pid=7194, name=python3, Ch 0000001b",
            ("xid", "device", "0000:5e:00", "94"),
        ),
        (
            (
                "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for "
                "remapping, reset gpu to activate."
            ),
            ("xid", "device", "0000:10:1c", "63"),
        ),
        (
            (
                "NVRM: Xid (PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp "
                "Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address"
            ),
            ("xid", "program", "0000:b5:00", "13"),
        ),
        (
            (
                "NVRM: Xid (PCI:0000:65:00): 31, pid=4242, name=python3, Ch 00000008, intr 0. "
                "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_00000000. Fault is of "
                "type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
            ),
            ("xid", "program", "0000:65:00", "31"),
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 43, pid=3188489, name=trigger_xid, channel 0x0b00000a",
            ("aftermath", "program", "0009:01:00", "43"),
        ),
        (
            "NVRM: Xid (PCI:0000:61:00): 45, pid=1496200, name=python3, Ch 0000000a",
            ("aftermath", "program", "0000:61:00", "45"),
        ),
        (
            (
                "NVRM: Xid (0000:01:00): 109, pid=77, name=python3, Ch 00000008, errorString CTX "
                "SWITCH TIMEOUT, Info 0x4c006"
            ),
            ("xid", "unclear", "0000:01:00", "109"),
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 999, something new",
            ("xid", "unclear", "0000:65:00", "999"),
        ),
        (
            (
                "NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None) to "
                "0x1 (GPU Reset Required)"
            ),
            ("xid", "device", "0000:65:00", "154"),
        ),
        (
            (
                "NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
                "Required) to 0x0 (None)"
            ),
            ("xid", "nobody", "0000:65:00", "154"),
        ),
        (
            (
                "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this "
                "system has\nNVRM: fallen off the bus and is not responding to commands."
            ),
            ("lost", "device", "0000:b3:00.0", ""),
        ),
        (
            (
                "NVRM: API mismatch: the client has the version 515.48.07, but\nNVRM: this kernel "
                "module has the version 510.73.05.  Please"
            ),
            ("driver", "device", "", ""),
        ),
    ],
)
def test_nvidia(line: str, expected: tuple[str, str, str, str]) -> None:
    piece = only(line, "nvidia")
    assert (piece.kind, piece.blame, piece.gpu, piece.code) == expected
    assert "\n" not in piece.text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "amdgpu 0000:03:00.0: amdgpu: ring comp_1.1.0 timeout, signaled seq=7, emitted seq=9",
            ("hang", "unclear", "0000:03:00.0", "comp_1.1.0"),
        ),
        (
            (
                "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled "
                "seq=5000163, emitted seq=5000165"
            ),
            ("hang", "unclear", "", "gfx_0.0.0"),
        ),
        (
            "amdgpu 0000:28:00.0: GPU reset begin!. Source:  1",
            ("reset", "unclear", "0000:28:00.0", ""),
        ),
        ("amdgpu 0000:28:00.0: GPU Recovery Failed: -19", ("lost", "device", "0000:28:00.0", "")),
        (
            "amdgpu 0000:28:00.0: amdgpu: device lost from bus!",
            ("lost", "device", "0000:28:00.0", ""),
        ),
        (
            (
                "amdgpu 0000:2b:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:7 "
                "pasid:32771, for process python3 pid 5044 thread python3 pid 5072)"
            ),
            ("fault", "program", "0000:2b:00.0", ""),
        ),
        (
            "amdgpu 0000:2b:00.0: [gfxhub0] no-retry page fault (src_id:0 ring:0 vmid:3)",
            ("fault", "program", "0000:2b:00.0", ""),
        ),
        (
            "amdgpu 0000:0d:00.0: GCVM_L2_PROTECTION_FAULT_STATUS:0x00401031",
            ("fault", "program", "0000:0d:00.0", ""),
        ),
        (
            (
                "amdgpu 0000:c1:00.0: amdgpu: {17} socket: 0, die: 0, 2 new uncorrectable hardware "
                "errors detected in umc block"
            ),
            ("ecc", "device", "0000:c1:00.0", "umc"),
        ),
    ],
)
def test_amd(line: str, expected: tuple[str, str, str, str]) -> None:
    piece = only(line, "amd")
    assert (piece.kind, piece.blame, piece.gpu, piece.code) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85def5fb, in python3 [1538400]",
            ("hang", "unclear", "0000:00:02.0", "12:1:85def5fb"),
        ),
        (
            "i915 0000:00:02.0: [drm] Resetting chip for stopped heartbeat on rcs0",
            ("reset", "unclear", "0000:00:02.0", ""),
        ),
        (
            (
                "xe 0000:09:00.0: [drm] GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, "
                "guc_id=2"
            ),
            ("hang", "unclear", "0000:09:00.0", "ccs"),
        ),
        (
            "xe 0000:00:02.0: [drm] Tile0: GT0: reset started",
            ("reset", "unclear", "0000:00:02.0", ""),
        ),
        (
            "xe 0000:00:02.0: [drm] *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)",
            ("lost", "device", "0000:00:02.0", ""),
        ),
        (
            (
                "xe 0000:00:02.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:00:02.0 as "
                "wedged.\nIOCTLs and executions are blocked."
            ),
            ("lost", "device", "0000:00:02.0", ""),
        ),
        (
            "xe 0000:03:00.0: [drm] Tile0: GT0: Fault response: Unsuccessful -EINVAL",
            ("fault", "program", "0000:03:00.0", ""),
        ),
    ],
)
def test_intel(line: str, expected: tuple[str, str, str, str]) -> None:
    piece = only(line, "intel")
    assert (piece.kind, piece.blame, piece.gpu, piece.code) == expected


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "intel"])
def test_memory_that_ran_out_is_everybodys_business(vendor: Vendor) -> None:
    group = only(
        "Memory cgroup out of memory: Killed process 23793 (python3) total-vm:2623712kB, "
        "anon-rss:506500kB",
        vendor,
    )
    machine = only("Out of memory: Killed process 1234 (python3) total-vm:1kB", vendor)
    assert (group.blame, group.code) == ("program", "23793")
    assert (machine.blame, machine.code) == ("unclear", "1234")


@pytest.mark.parametrize(
    ("line", "vendor"),
    [
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01", "nvidia"),
        ("NVRM: Xid error: xyz, invalid data", "nvidia"),
        ("NVRM: GPU at PCI:0000:01:00: GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e", "nvidia"),
        (
            "amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
            "amd",
        ),
        # repeated whenever a tool reads the counters, with what was there since boot
        ("amdgpu 0000:0b:00.0: 1048560 uncorrectable hardware errors detected in umc block", "amd"),
        ("amdgpu 0000:0b:00.0: 3 new correctable hardware errors detected in umc block", "amd"),
        ("amdgpu 0000:2b:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00000000", "amd"),
        ("amdgpu 0000:03:00.0: [drm] device wedged, but recovered through reset", "amd"),
        ("amdgpu 0000:28:00.0: GPU reset succeeded, trying to resume", "amd"),
        ("i915 0000:00:02.0: [drm] GT0: GUC: submission enabled", "intel"),
        ("xe 0000:00:02.0: [drm] Tile0: GT0: reset done", "intel"),
        ("usb 1-1: new high-speed USB device number 2 using xhci_hcd", "intel"),
        ("oom_reaper: reaped process 23793 (python3), now anon-rss:0kB", "nvidia"),
    ],
)
def test_what_means_nothing(line: str, vendor: Vendor) -> None:
    assert read([line], vendor) == ()


def test_other_vendors_gpus_are_not_this_jobs() -> None:
    lines = [
        "amdgpu 0000:28:00.0: amdgpu: device lost from bus!",
        "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.",
        "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85def5fb, in Xorg [996]",
    ]
    for index, vendor in enumerate(("amd", "nvidia", "intel")):
        (piece,) = read(lines, vendor)  # type: ignore[arg-type]
        assert piece.text.startswith(lines[index][:20])


def test_a_line_is_explained_unless_it_explains_itself() -> None:
    said = only("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", "nvidia")
    assert said.text == "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus."
    bare = only("[ 9.1] NVRM: Xid (PCI:0000:05:00): 62, 0096(1c54) 00000000 00000000", "nvidia")
    assert bare.text == (
        "NVRM: Xid (PCI:0000:05:00): 62, 0096(1c54) 00000000 00000000 "
        "(internal micro-controller halt)"
    )


def test_a_long_line_is_cut() -> None:
    piece = only(f"NVRM: Xid (PCI:0000:05:00): 48, {'x' * 5000}", "nvidia")
    assert len(piece.text) < 350


@pytest.mark.parametrize("number", [48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143])
def test_xids_that_speak_against_the_device(number: int) -> None:
    assert about(number)[0] == "device"


@pytest.mark.parametrize("number", [13, 31, 43, 45, 69])
def test_xids_that_speak_against_the_program(number: int) -> None:
    assert about(number)[0] == "program"
