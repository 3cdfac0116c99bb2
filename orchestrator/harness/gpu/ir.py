"""What no upstream pass does between kernels and host code, on IR in generic form.

The printer puts each operation of the top level on a line that begins with two blanks, and ends
those with regions on a line that begins with `  })`. Nothing else is taken for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from orchestrator.harness.blame import CompilerFault

Form = Literal["assembly", "bin", "offload", "fatbin"]
"""How an object was made, as `#gpu.object` prints it; `fatbin` is printed as nothing."""

_KERNEL_MODULE = re.compile(r'^  "gpu\.module"\(.*?sym_name = "([^"]+)"')
_SPIRV_MODULE = re.compile(r'^  "spirv\.module"\(.*?sym_name = "__spv__([^"]+)"')
_BLOCK_SIZE = re.compile(r"known_block_size = array<i32: (\d+, \d+, \d+)>")
_BINARY = re.compile(r'^  "gpu\.binary"\(.*?sym_name = "([^"]+)"')
_OBJECT = re.compile(r'(?:(assembly|bin|offload) = )?"((?:[^"\\]|\\.)*)">\]')
_CONTAINER_END = "}) {gpu.container_module} : () -> ()\n"
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")


@dataclass(frozen=True, kw_only=True)
class Binary:
    """The translated kernels of one `gpu.module`."""

    module: str
    form: Form
    data: bytes


def with_block_sizes(ir: str) -> str:
    """The module, each kernel's block size told in the attribute that SPIR-V is made from.

    SPIR-V kernels have their size built in; launches of another size are wrong.

    Raises:
        CompilerFault: a kernel's size is not known, or it launches in different sizes.
    """
    lines = ir.split("\n")
    size: str | None = None
    for i, line in enumerate(lines):
        if '"gpu.func"()' in line:
            found = _BLOCK_SIZE.search(line)
            if found is None:
                raise CompilerFault("a kernel has no constant block size, which SPIR-V needs")
            size = found[1]
        elif size is not None and line.startswith("    })") and "gpu.kernel" in line:
            attribute = f"#spirv.entry_point_abi<workgroup_size = [{size}]>"
            lines[i] = line.replace(
                "gpu.kernel", f"gpu.kernel, spirv.entry_point_abi = {attribute}", 1
            )
            size = None
    return "\n".join(lines)


def with_spirv_nested(ir: str) -> str:
    """The module, each top-level `spirv.module` moved into the `gpu.module` that it was made from.

    For shaders `convert-gpu-to-spirv` leaves it beside, where `gpu-module-to-binary` does not look.
    """
    spirv: dict[str, list[str]] = {}
    kept: list[tuple[str, list[str]]] = []
    for block in _blocks(ir):
        if found := _SPIRV_MODULE.match(block[0]):
            spirv[found[1]] = block
        else:
            kernels = _KERNEL_MODULE.match(block[0])
            kept.append((kernels[1] if kernels else "", block))
    lines: list[str] = []
    for name, block in kept:
        inner = [f"  {line}" for line in spirv.pop(name, ())]
        lines += [block[0], *inner, *block[1:]]
    if spirv:
        raise CompilerFault(f"no gpu.module of the name {min(spirv)} for its spirv.module")
    return "\n".join(lines)


def for_xevm(ir: str) -> bool:
    """Whether kernels are to be serialized by LLVM's SPIR-V backend."""
    return "#xevm.target<" in ir


def with_kernels_apart(ir: str, to_binary: Callable[[str], str]) -> str:
    """The module, each `gpu.module` replaced by the `gpu.binary` that is made of it alone.

    LLVM 22's SPIR-V backend keeps numbers from one module to the next: several modules in one
    process give invalid SPIR-V now and then (https://github.com/llvm/llvm-project/issues/160613).

    Raises:
        CompilerFault: what was made has no binary.
    """
    head, _, rest = ir.partition('"builtin.module"')
    opening = rest.partition("\n")[0]
    lines: list[str] = []
    for block in _blocks(ir):
        found = _KERNEL_MODULE.match(block[0])
        if found is None:
            lines += block
            continue
        alone = "\n".join([f'{head}"builtin.module"{opening}', *block, _CONTAINER_END])
        made = [line for line in to_binary(alone).split("\n") if _BINARY.match(line)]
        if len(made) != 1:
            raise CompilerFault(f"gpu.module @{found[1]} was not made a binary")
        lines += made
    return "\n".join(lines)


def binaries(ir: str) -> list[Binary]:
    """What `gpu-module-to-binary` left, in the module's order.

    Raises:
        CompilerFault: an operation that does not look like one binary with one object.
    """
    found = []
    for line in ir.split("\n"):
        if match := _BINARY.match(line):
            objects = _OBJECT.findall(line)
            if len(objects) != 1:
                raise CompilerFault(f"gpu.binary @{match[1]} holds {len(objects)} objects, not one")
            form, text = objects[0]
            found.append(Binary(module=match[1], form=form or "fatbin", data=_unescaped(text)))
    return found


def with_binaries(ir: str, binaries: dict[str, Binary]) -> str:
    """The module with other objects in the binaries of those names."""
    lines = ir.split("\n")
    for i, line in enumerate(lines):
        match = _BINARY.match(line)
        if match is None or match[1] not in binaries:
            continue
        new = binaries[match[1]]
        key = "" if new.form == "fatbin" else f"{new.form} = "
        text = f'{key}"{_escaped(new.data)}">]'
        lines[i] = _OBJECT.sub(lambda _, text=text: text, line, count=1)  # type: ignore[misc]
    return "\n".join(lines)


def _blocks(ir: str) -> Iterator[list[str]]:
    """The lines of each top-level operation; other lines by themselves."""
    block: list[str] = []
    for line in ir.split("\n"):
        if block:
            block.append(line)
            if line.startswith("  })"):
                yield block
                block = []
        elif (_KERNEL_MODULE.match(line) or _SPIRV_MODULE.match(line)) and line.endswith("{"):
            block = [line]
        else:
            yield [line]
    if block:
        yield block


def _unescaped(text: str) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[1] == b"\\" else bytes([int(match[1], 16)])

    return _ESCAPE.sub(byte, text.encode("latin-1", "strict"))


def _escaped(data: bytes) -> str:
    plain = frozenset(range(0x20, 0x7F)) - {0x22, 0x5C}
    return "".join(chr(b) if b in plain else f"\\{b:02X}" for b in data)
