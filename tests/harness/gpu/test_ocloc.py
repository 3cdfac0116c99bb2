"""What Intel's offline compiler says of kernels, as a real one said it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.gpu import assemble as assembling
from orchestrator.harness.gpu import ocloc
from orchestrator.harness.gpu.ir import Binary
from orchestrator.job import KernelFacts, Target

PVC = Target(driver="opencl", chip="pvc")
ZE_INFO = """\
---
version:         '1.20'
kernels:
  - name:            loc
    execution_env:
      barrier_count:   1
      grf_count:       128
      simd_size:       32
      slm_size:        1216
    payload_arguments:
      - arg_type:        global_id_offset
        offset:          0
        size:            12
  - name:            spill
    user_attributes:
      intel_reqd_sub_group_size: 32
    execution_env:
      grf_count:       256
      simd_size:       32
    per_thread_memory_buffers:
      - type:            scratch
        usage:           single_space
        size:            131072
      - type:            global
        usage:           private_space
        size:            12000
kernels_misc_info:
  - name:            spill
    args_info:
      - index:           0
        name:            a
...
"""


def elf(text: str) -> bytes:
    """A 64-bit ELF file with `.ze_info` and the table of names, as the compiler orders them."""
    names = b"\0.shstrtab\0.ze_info\0"
    body = text.encode() + names
    header = bytearray(b"\x7fELF" + bytes(60))
    struct.pack_into("<Q", header, 0x28, 64 + len(body))
    struct.pack_into("<HHH", header, 0x3A, 64, 3, 2)
    sections = [
        (0, 0, 0, 0, 0, 0),
        (names.index(b".ze_info"), 0, 0, 0, 64, len(text)),
        (names.index(b".shstrtab"), 3, 0, 0, 64 + len(text), len(names)),
    ]
    table = b"".join(struct.pack("<IIQQQQ", *each) + bytes(24) for each in sections)
    return bytes(header) + body + table


def test_each_kernel_has_its_registers_spills_and_shared_memory() -> None:
    code = elf(ZE_INFO)

    def fact(kernel: str, registers: int, spilled: int, shared: int) -> KernelFacts:
        return KernelFacts(
            chip="pvc",
            kernel=kernel,
            form="zebin",
            code_bytes=len(code),
            registers=registers,
            spilled_bytes=spilled,
            shared_bytes=shared,
        )

    assert ocloc.facts(code, PVC, "m") == (
        fact("m::loc", 128, 0, 1216),
        fact("m::spill", 256, 131072 // 32, 0),
    )


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), elf("")])
def test_what_is_no_zebin_says_nothing(code: bytes) -> None:
    assert ocloc.facts(code, PVC, "m") == ()


SPIRV = b"\x03\x02\x23\x07" + bytes([0, 0, 1, 0]) + bytes(12)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tools that are all there is; a validator that takes everything."""
    folder = tmp_path / "tools"
    folder.mkdir()
    program(folder / "spirv-val", "exit 0")
    monkeypatch.setattr("orchestrator.harness.tools._folders", lambda: iter([folder]))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def assembled(tmp_path: Path, chip: str) -> assembling.Assembled:
    binary = Binary(module="m", form="bin", data=SPIRV)
    return assembling.assemble(Target(driver="opencl", chip=chip), binary, tmp_path, tmp_path)


def test_a_chips_code_is_made_beside_the_spirv_that_is_embedded(
    tools: Path, tmp_path: Path
) -> None:
    (tmp_path / "code").write_bytes(elf(ZE_INFO))
    program(
        tools / "ocloc",
        f'/bin/cat {tmp_path}/code > "${{12}}/${{10}}"; echo "$@" > {tmp_path}/told',
    )
    made = assembled(tmp_path, "pvc")
    assert made.embedded.data == SPIRV
    assert set(made.files) == {"m.spv", "m.zebin"}
    assert [fact.form for fact in made.facts] == ["zebin", "zebin"]
    assert "-device pvc" in (tmp_path / "told").read_text()


def test_a_refusal_is_the_codes_fault_and_an_unknown_chip_is_not(
    tools: Path, tmp_path: Path
) -> None:
    program(tools / "ocloc", "echo 'error: undefined reference'; exit 1")
    with pytest.raises(CompilerFault, match="pvc: refused by ocloc: error: undefined reference"):
        assembled(tmp_path, "pvc")
    program(tools / "ocloc", "echo 'Error: Cannot get HW Info for device bmg.'; exit 223")
    assert set(assembled(tmp_path, "bmg").files) == {"m.spv"}
    assert set(assembled(tmp_path, "spirv").files) == {"m.spv"}  # no chip to compile for


def test_a_stack_without_the_compiler_validates(tools: Path, tmp_path: Path) -> None:
    assert tools.is_dir()
    assert set(assembled(tmp_path, "pvc").files) == {"m.spv"}
