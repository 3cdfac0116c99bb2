"""Moving kernels about in generic IR."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.harness.blame import CompilerFault
from orchestrator.harness.gpu.ir import (
    Binary,
    binaries,
    for_xevm,
    with_binaries,
    with_block_sizes,
    with_kernels_apart,
    with_spirv_nested,
)

OUTLINED = """\
"builtin.module"() ({
  "func.func"() <{function_type = () -> (), sym_name = "forward"}> ({
    "gpu.launch_func"(%0) <{kernel = @first::@work}> : (index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
  "gpu.module"() <{sym_name = "first"}> ({
    "gpu.func"() <{function_type = () -> (), known_block_size = array<i32: 64, 1, 1>}> ({
      "gpu.return"() : () -> ()
    }) {gpu.kernel, sym_name = "work", workgroup_attributions = 0 : i64} : () -> ()
  }) : () -> ()
  "gpu.module"() <{sym_name = "second"}> ({
    "gpu.func"() <{function_type = () -> (), known_block_size = array<i32: 7, 3, 1>}> ({
      "gpu.return"() : () -> ()
    }) {gpu.kernel, sym_name = "work", workgroup_attributions = 0 : i64} : () -> ()
  }) : () -> ()
}) {gpu.container_module} : () -> ()
"""


def spirv(name: str) -> str:
    return (
        f'  "spirv.module"() <{{sym_name = "__spv__{name}"}}> ({{\n'
        '    "spirv.func"() : () -> ()\n'
        "  }) : () -> ()\n"
    )


def test_every_kernel_gets_its_own_block_size() -> None:
    lines = with_block_sizes(OUTLINED).split("\n")
    kernels = [line for line in lines if "gpu.kernel" in line]
    assert [line.count("#spirv.entry_point_abi<workgroup_size = [") for line in kernels] == [1, 1]
    assert "[64, 1, 1]" in kernels[0]
    assert "[7, 3, 1]" in kernels[1]
    assert with_block_sizes(OUTLINED).count("\n") == OUTLINED.count("\n")


def test_a_kernel_without_a_constant_block_size_is_refused() -> None:
    text = OUTLINED.replace(", known_block_size = array<i32: 7, 3, 1>", "")
    with pytest.raises(CompilerFault, match="no constant block size"):
        with_block_sizes(text)


def test_shaders_move_into_the_modules_that_they_were_made_from() -> None:
    second = '  "gpu.module"() <{sym_name = "second"'
    beside = OUTLINED.replace(second, spirv("first") + second)
    beside = beside.replace("}) {gpu.container", spirv("second") + "}) {gpu.container")
    nested = with_spirv_nested(beside)
    first, _, second = nested.partition('"gpu.module"() <{sym_name = "second"')
    assert first.count('    "spirv.module"() <{sym_name = "__spv__first"') == 1
    assert second.count('    "spirv.module"() <{sym_name = "__spv__second"') == 1
    assert '\n  "spirv.module"' not in nested
    assert nested.count('"gpu.func"') == 2  # launches still name them
    assert sorted(line.strip() for line in nested.split("\n")) == sorted(
        line.strip() for line in beside.split("\n")
    )


def test_each_kernel_module_becomes_a_binary_by_itself() -> None:
    seen: list[str] = []

    def to_binary(alone: str) -> str:
        seen.append(alone)
        name = "first" if '"first"' in alone else "second"
        return binary_text('bin = "x"').replace("kernels", name)

    made = with_kernels_apart("#alias = 1\n" + OUTLINED, to_binary)
    assert [b.module for b in binaries(made)] == ["first", "second"]
    assert "gpu.module" not in made
    assert made.split("\n")[:6] == ["#alias = 1", *OUTLINED.split("\n")[:5]]
    assert made.endswith("\n}) {gpu.container_module} : () -> ()\n")
    for alone, name in zip(seen, ("first", "second"), strict=True):
        assert alone.startswith('#alias = 1\n"builtin.module"() ({\n  "gpu.module"')
        assert alone.count('"gpu.module"') == 1
        assert f'sym_name = "{name}"' in alone
        assert "func.func" not in alone  # its launches would name modules that are not there


def test_kernels_of_which_no_binary_is_made_are_named() -> None:
    with pytest.raises(CompilerFault, match="@first was not made a binary"):
        with_kernels_apart(OUTLINED, lambda alone: alone)


def test_who_serializes_kernels_is_told_by_their_target() -> None:
    attached = 'sym_name = "first", targets = [#xevm.target<O = 3>]'
    assert for_xevm(OUTLINED.replace('sym_name = "first"', attached))
    assert not for_xevm(OUTLINED)


def test_a_shader_of_no_module_is_refused() -> None:
    stray = OUTLINED.replace("}) {gpu.container", spirv("third") + "}) {gpu.container")
    with pytest.raises(CompilerFault, match="third"):
        with_spirv_nested(stray)


def binary_text(body: str) -> str:
    return (
        '"builtin.module"() ({\n  "gpu.binary"() <{objects = [#gpu.object<#nvvm.target<O = 3, '
        f'chip = "sm_90">, properties = {{O = 3 : i32}}, {body}>], sym_name = "kernels"}}> : '
        "() -> ()\n}) : () -> ()\n"
    )


@pytest.mark.parametrize(
    ("body", "form", "data"),
    [
        (r'assembly = "// \22x\22\0A\09.version 8.0\5C"', "assembly", b'// "x"\n\t.version 8.0\\'),
        (r'bin = "\7FELF\00\FF@"', "bin", b"\x7fELF\x00\xff@"),
        (r'"\03\02#\07"', "fatbin", b"\x03\x02#\x07"),
        (r'"a\\b"', "fatbin", b"a\\b"),
    ],
)
def test_objects_are_read_as_they_are_printed(body: str, form: str, data: bytes) -> None:
    (found,) = binaries(binary_text(body))
    assert (found.module, found.form, found.data) == ("kernels", form, data)


@given(data=st.binary(max_size=200), form=st.sampled_from(["assembly", "bin", "fatbin"]))
def test_an_object_put_in_is_the_object_read_out(data: bytes, form: str) -> None:
    new = Binary(module="kernels", form=form, data=data)  # type: ignore[arg-type]
    text = with_binaries(binary_text('assembly = "old"'), {"kernels": new})
    assert binaries(text) == [new]
    assert text.isascii()
    assert 'sym_name = "kernels"' in text


def test_a_binary_with_two_objects_is_refused() -> None:
    text = binary_text('assembly = "x"').replace('"x">]', '"x">, #gpu.object<#a, bin = "y">]')
    text = text.replace('assembly = "x">, #gpu.object<#a, bin = "y">]', "no object]")
    with pytest.raises(CompilerFault, match="0 objects"):
        binaries(text)


def test_binaries_of_other_names_stay() -> None:
    text = binary_text('bin = "old"')
    assert with_binaries(text, {"others": Binary(module="others", form="bin", data=b"x")}) == text
