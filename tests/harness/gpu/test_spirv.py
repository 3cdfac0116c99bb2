"""Reading SPIR-V word by word, and writing zeros as llvm-spirv takes them."""

from __future__ import annotations

from array import array

import pytest

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.gpu.spirv import entry_points, without_null_numbers

HEADER = [0x07230203, 0x00010200, 0, 100, 0]
BOOL, I64, F32, POINTER = [20, 1], [21, 2, 64, 0], [22, 3, 32], [32, 4, 5, 3]


def module(*instructions: list[int]) -> bytes:
    """A module of instructions, each an operation and its operands."""
    words = list(HEADER)
    for operation, *operands in instructions:
        words += [(1 + len(operands)) << 16 | operation, *operands]
    return array("I", words).tobytes()


def text(name: str) -> list[int]:
    """A literal string: zero-terminated, in whole words."""
    return list(array("I", name.encode() + b"\0" * (4 - len(name) % 4)))


def test_entry_points_are_named_in_order() -> None:
    spirv = module([15, 6, 10, *text("work"), 7, 8], I64, [15, 6, 11, *text("a_longer_name")])
    assert entry_points(spirv) == ["work", "a_longer_name"]


@pytest.mark.parametrize(
    ("null", "plain"),
    [
        ([46, 2, 9], [43, 2, 9, 0, 0]),
        ([46, 3, 9], [43, 3, 9, 0]),
        ([46, 1, 9], [42, 1, 9]),
        ([46, 4, 9], [46, 4, 9]),  # a pointer has no other zero
        ([43, 3, 9, 46], [43, 3, 9, 46]),  # no null, whatever its value
    ],
)
def test_numbers_that_are_null_are_written_out(null: list[int], plain: list[int]) -> None:
    types = (BOOL, I64, F32, POINTER)
    after = [44, 6, 12, 9]
    assert without_null_numbers(module(*types, null, after)) == module(*types, plain, after)


@pytest.mark.parametrize("data", [b"", b"\x03\x02#\x07", b"BC\xc0\xde" * 8])
def test_what_is_no_module_is_refused(data: bytes) -> None:
    with pytest.raises(CompilerFault, match="no SPIR-V module"):
        entry_points(data)
    with pytest.raises(CompilerFault, match="no SPIR-V module"):
        without_null_numbers(data)
