"""What the kernel says about a machine."""

from __future__ import annotations

import platform

import pytest

from orchestrator.host import Host, detect, parse

INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) CPU @ 2.00GHz
flags\t\t: sse2 fpu avx512f avx2
bugs\t\t:

processor\t: 1
vendor_id\t: GenuineIntel
model name\t: another
flags\t\t: fpu
"""

ARM = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd40
"""

MEMORY = "MemTotal:       16384 kB\nMemFree:          100 kB\n"


def test_x86() -> None:
    assert parse(arch="AMD64", kernel="Linux 6.1", cpus=2, cpuinfo=INTEL, meminfo=MEMORY) == Host(
        arch="x86_64",
        cpu_vendor="GenuineIntel",
        cpu_model="Intel(R) Xeon(R) CPU @ 2.00GHz",
        cpu_flags="avx2 avx512f fpu sse2",
        cpus=2,
        memory_bytes=16 << 20,
        kernel="Linux 6.1",
    )


def test_arm_names_no_model() -> None:
    host = parse(arch="arm64", kernel="Linux 6.1", cpus=4, cpuinfo=ARM, meminfo=MEMORY)
    assert (host.arch, host.cpu_vendor, host.cpu_model) == ("aarch64", "ARM", "CPU part 0xd40")
    assert host.cpu_flags == "asimd fp sve"


@pytest.mark.parametrize(("code", "vendor"), [("0xc0", "Ampere"), ("0x99", "0x99")])
def test_arm_implementers(code: str, vendor: str) -> None:
    text = ARM.replace("0x41", code)
    assert parse(arch="aarch64", kernel="", cpus=1, cpuinfo=text, meminfo="").cpu_vendor == vendor


@pytest.mark.parametrize("meminfo", ["", "MemTotal:", "MemTotal: many kB", "MemFree: 1 kB"])
def test_where_there_is_no_proc(meminfo: str) -> None:
    host = parse(arch="riscv64", kernel="Other", cpus=0, cpuinfo="", meminfo=meminfo)
    assert host == Host(
        arch="riscv64",
        cpu_vendor="",
        cpu_model="unknown CPU",
        cpu_flags="",
        cpus=1,
        memory_bytes=0,
        kernel="Other",
    )


def test_this_machine() -> None:
    host = detect()
    assert host.cpus >= 1
    assert platform.release() in host.kernel
    assert host == detect()
