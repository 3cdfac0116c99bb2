"""SPIR-V modules in binary form, instruction by instruction.

https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html, 2.3 for the form, 3.52 for the
instructions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from orchestrator.harness.blame import CompilerFault

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_ENTRY_POINT, _TYPE_BOOL, _TYPE_INT, _TYPE_FLOAT = 15, 20, 21, 22
_CONSTANT_FALSE, _CONSTANT, _CONSTANT_NULL = 42, 43, 46


def entry_points(spirv: bytes) -> list[str]:
    """Names of the entry points of a SPIR-V module in its own byte order.

    Raises:
        CompilerFault: it is none.
    """
    return [
        words[3:].tobytes().partition(b"\0")[0].decode()
        for words in _instructions(_words(spirv))
        if words[0] & 0xFFFF == _ENTRY_POINT
    ]


def without_null_numbers(spirv: bytes) -> bytes:
    """The module, each number that is `OpConstantNull` written out as `OpConstant`.

    They mean the same. LLVM's SPIR-V backend writes the first, and llvm-spirv 15 ends on it with
    an assertion (`SPIRVConstantNull::validate`).

    Raises:
        CompilerFault: it is no SPIR-V module.
    """
    words = _words(spirv)
    made = words[:_HEADER_WORDS]
    zeros: dict[int, int] = {}  # words of a zero, by type
    for each in _instructions(words):
        operation = each[0] & 0xFFFF
        if operation == _TYPE_BOOL:
            zeros[each[1]] = 0
        elif operation in (_TYPE_INT, _TYPE_FLOAT):
            zeros[each[1]] = (each[2] + 31) // 32
        if operation == _CONSTANT_NULL and each[1] in zeros:
            width = zeros[each[1]]
            plain = _CONSTANT if width else _CONSTANT_FALSE
            made += array("I", [(3 + width) << 16 | plain, each[1], each[2], *[0] * width])
        else:
            made += each
    return made.tobytes()


def _words(spirv: bytes) -> array[int]:
    words = array("I", spirv[: len(spirv) // 4 * 4])
    if len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise CompilerFault("what was translated is no SPIR-V module")
    return words


def _instructions(words: array[int]) -> Iterator[array[int]]:
    position = _HEADER_WORDS
    while position < len(words):
        length = max(words[position] >> 16, 1)
        yield words[position : position + length]
        position += length
