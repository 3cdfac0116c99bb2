"""Translated kernels through the vendor's or LLVM's assembler, and what that says of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.harness.blame import CompilerFault, MachineFault, killed_from_outside
from orchestrator.harness.gpu import ocloc
from orchestrator.harness.gpu.ir import Binary
from orchestrator.harness.gpu.spirv import entry_points, without_null_numbers
from orchestrator.harness.tools import tool
from orchestrator.job import SPIRV, KernelFacts, Target

_UNRESOLVED = re.compile(r"^\.extern \.func .*?(\w+)\s*$", re.MULTILINE)
_SPIRV_1_0 = b"\0\0\1\0"
"""The header's second word, as little-endian machines write it (SPIR-V specification, 2.3)."""


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """One module's kernels, as far as they go without a device."""

    module: str
    embedded: Binary
    """What the host code carries."""
    files: dict[str, bytes]
    """Name to content: what was assembled, and from what."""
    facts: tuple[KernelFacts, ...]


def assemble(target: Target, binary: Binary, llvm: Path, scratch: Path) -> Assembled:
    """Assembles and validates the kernels of one module.

    Args:
        target: whose kernels they are.
        binary: PTX or AMDGCN assembly, or SPIR-V.
        llvm: the LLVM release's `bin` folder.
        scratch: for files.

    Raises:
        CompilerFault: it is refused.
        MachineFault: an assembler cannot be run.
    """
    match target.driver:
        case "cuda":
            return _ptx(target, binary, scratch)
        case "hip":
            return _amdgcn(target, binary, llvm, scratch)
        case "opencl" | "vulkan":
            return _spirv(target, binary, scratch)


# --- NVIDIA -----------------------------------------------------------------------------------


def _ptx(target: Target, binary: Binary, scratch: Path) -> Assembled:
    text = binary.data.rstrip(b"\0").decode()
    if missing := _UNRESOLVED.search(text):
        raise CompilerFault(
            f"{target.chip}: {binary.module} calls {missing[1]}, which nothing defines: "
            "libdevice was not linked"
        )
    source, cubin = scratch / f"{binary.module}.ptx", scratch / f"{binary.module}.cubin"
    source.write_text(text)
    said = _run([tool("ptxas"), f"-arch={target.chip}", "-v", source, "-o", cubin], target)
    facts = ptxas_facts(said, target, binary.module, cubin.stat().st_size)
    files = {source.name: source.read_bytes(), cubin.name: cubin.read_bytes()}
    return Assembled(module=binary.module, embedded=binary, files=files, facts=facts)


def ptxas_facts(said: str, target: Target, module: str, code_bytes: int) -> tuple[KernelFacts, ...]:
    """From `ptxas -v`: a paragraph for each entry function."""
    facts = []
    for part in re.split(r"(?=Compiling entry function)", said)[1:]:
        name = _first(r"entry function '(\w+)'", part)
        spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", part)
        registers = _first(r"Used (\d+) registers", part)
        facts.append(
            KernelFacts(
                chip=target.chip,
                kernel=f"{module}::{name}",
                form="cubin",
                code_bytes=code_bytes,
                registers=int(registers) if registers else None,
                spilled_bytes=max(map(int, spills)) if spills else None,
                shared_bytes=int(_first(r"(\d+) bytes smem", part) or 0),
            )
        )
    return tuple(facts)


# --- AMD --------------------------------------------------------------------------------------


def _amdgcn(target: Target, binary: Binary, llvm: Path, scratch: Path) -> Assembled:
    source = scratch / f"{binary.module}.s"
    source.write_bytes(binary.data.rstrip(b"\0"))
    part, hsaco = source.with_suffix(".o"), source.with_suffix(".hsaco")
    machine = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={target.chip}"]
    _run([llvm / "clang", "-x", "assembler", *machine, "-c", source, "-o", part], target)
    _run([llvm / "ld.lld", "-shared", part, "-o", hsaco], target)
    data = hsaco.read_bytes()
    return Assembled(
        module=binary.module,
        embedded=Binary(module=binary.module, form="bin", data=data),
        files={source.name: source.read_bytes(), hsaco.name: data},
        facts=amdgcn_facts(source.read_text(), target, binary.module, len(data)),
    )


def amdgcn_facts(
    text: str, target: Target, module: str, code_bytes: int
) -> tuple[KernelFacts, ...]:
    """From the code object's metadata in the assembly (LLVM's AMDGPUUsage, "Code Object V5")."""
    metadata = text.partition(".amdgpu_metadata")[2].partition(".end_amdgpu_metadata")[0]
    facts = []
    for kernel in re.split(r"^  - (?=\.a)", metadata, flags=re.MULTILINE)[1:]:

        def number(key: str, kernel: str = kernel) -> int:
            return int(_first(rf"^ +\.{key}:\s+(\d+)", kernel) or 0)

        name = _first(r"^ +\.name:\s+(\S+)", _kernel_part(kernel))
        facts.append(
            KernelFacts(
                chip=target.chip,
                kernel=f"{module}::{name}",
                form="hsaco",
                code_bytes=code_bytes,
                registers=number("vgpr_count"),
                # registers spilled, four bytes each
                spilled_bytes=4 * (number("vgpr_spill_count") + number("sgpr_spill_count")),
                shared_bytes=number("group_segment_fixed_size"),
            )
        )
    return tuple(facts)


def _kernel_part(kernel: str) -> str:
    """Less its arguments, which may have names of their own."""
    return "\n".join(line for line in kernel.splitlines() if re.match(r" {4}\.", line))


# --- SPIR-V -----------------------------------------------------------------------------------


def _spirv(target: Target, binary: Binary, scratch: Path) -> Assembled:
    source = scratch / f"{binary.module}.spv"
    source.write_bytes(binary.data)
    _run([tool("spirv-val"), "--target-env", _environment(target, binary.data), source], target)
    files = {source.name: binary.data}
    embedded = binary
    if target.chip == "spir":
        bitcode = source.with_suffix(".bc")
        plain = source.with_suffix(".plain.spv")
        plain.write_bytes(without_null_numbers(binary.data))
        _run([tool("llvm-spirv-15"), "-r", plain, "-o", bitcode], target)
        embedded = Binary(module=binary.module, form="bin", data=bitcode.read_bytes())
        files[bitcode.name] = embedded.data
    native = _native(target, source, scratch)
    if native is not None:
        files[native.name] = native.read_bytes()
        if facts := ocloc.facts(files[native.name], target, binary.module):
            return Assembled(module=binary.module, embedded=embedded, files=files, facts=facts)
    facts = tuple(
        KernelFacts(
            chip=target.chip,
            kernel=f"{binary.module}::{name}",
            form="spirv",
            code_bytes=len(binary.data),
        )
        for name in entry_points(binary.data)
    )
    return Assembled(module=binary.module, embedded=embedded, files=files, facts=facts)


def _native(target: Target, source: Path, scratch: Path) -> Path | None:
    """A chip's code by Intel's compiler; None where the stack has none, or one that is older."""
    if target.chip in (SPIRV, "spir"):
        return None
    try:
        compiler = tool("ocloc")
    except MachineFault:  # only x86-64 has one
        return None
    made = source.with_suffix(".zebin")
    argv = [str(compiler), *ocloc.options(target, str(source), made.name, str(scratch))]
    try:
        _run(argv, target)
    except CompilerFault as fault:
        if ocloc.UNKNOWN_CHIP in fault.message:
            return None
        raise
    return made


def _environment(target: Target, spirv: bytes) -> str:
    """Whose rules a module has to keep: of the oldest OpenCL that takes its version of SPIR-V."""
    if target.driver == "vulkan":
        return "vulkan1.1"
    return "opencl1.2" if spirv[4:8] == _SPIRV_1_0 else "opencl2.2"


# --- tools ------------------------------------------------------------------------------------


def _run(argv: Sequence[str | Path], target: Target) -> str:
    """What a tool said, on both of its streams."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
        )
    except OSError as error:
        raise MachineFault(f"{argv[0]} could not be run: {error}") from error
    if done.returncode == 0:
        return done.stdout
    print(done.stdout, file=sys.stderr)  # the cell's last words
    if "No space left on device" in done.stdout:
        raise MachineFault(f"{name}: no space left on the device")
    if outside := killed_from_outside(-done.returncode):
        raise MachineFault(f"{name} was {outside}")
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|fatal", line, re.IGNORECASE)] or lines
    end = "\n".join(telling[:3]) or f"it ended with exit code {done.returncode}"
    raise CompilerFault(f"{target.chip}: refused by {name}: {end}")


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""
