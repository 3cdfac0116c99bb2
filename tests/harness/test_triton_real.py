"""Triton itself: every workload compiled for every chip and interpreted, and what goes wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.harness.gpu.runtime import SHIM_FLAGS, shim_source
from orchestrator.job import Driver
from tests.harness import llvm, triton_stack
from tests.harness.gpu import shims
from tests.harness.triton_stack import CHIPS, ROOT, WORKLOADS, Seen, cell, text

pytestmark = pytest.mark.stack

NAMES = ("triton_add", "triton_attention", "triton_layernorm", "triton_matmul", "triton_softmax")
RECORDED = [*((n, "f32") for n in NAMES), ("triton_attention", "f16"), ("triton_matmul", "f16")]
LIBRARIES: Mapping[Driver, str] = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.6"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Every workload for every chip, by name."""
    paths = [WORKLOADS / f"{name}.py" for name in NAMES]
    cells = [cell(path, *CHIPS, execute=False) for path in paths]
    files = {f"workloads/{path.name}": path for path in paths}
    seen = triton_stack.run(tmp_path_factory.mktemp("compiled") / "job", cells, files)
    return {each.workload.name: seen[each.id] for each in cells}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Seen]:
    """Every workload in the interpreter against its golden, by name and variant."""
    cells, files = [], {}
    for name, variant in RECORDED:
        path = WORKLOADS / f"{name}.py"
        golden = triton_stack.golden(path, variant)
        cells.append(dataclasses.replace(cell(path, variant=variant), golden=golden))
        files[f"workloads/{path.name}"] = path
        files[golden.file] = triton_stack.GOLDENS / name / f"{variant}.npz"
    seen = triton_stack.run(tmp_path_factory.mktemp("interpreted") / "job", cells, files)
    return {(each.workload.name, each.variant): seen[each.id] for each in cells}


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_compiles_for_every_chip(compiled: dict[str, Seen], name: str) -> None:
    outcome = compiled[name].outcome
    assert (outcome.status, outcome.message) == ("pass", "")
    assert [fact.chip for fact in outcome.kernels] == list(CHIPS)
    for fact in outcome.kernels:
        assert fact.form == {"cuda": "cubin", "hip": "hsaco"}[CHIPS[fact.chip]]
        assert fact.kernel == f"{name}::{name.removeprefix('triton_')}"
        assert fact.code_bytes > 1000
        assert fact.registers is not None
        assert 4 <= fact.registers <= 512
        assert fact.spilled_bytes is not None


def test_stages_are_told_as_they_begin(compiled: dict[str, Seen]) -> None:
    one = ["lower:ttir", "lower:ttgir", "lower:llir", "codegen"]
    stages = compiled["triton_add"].stages
    shorter = [new for old, new in zip(["", *stages], stages, strict=False) if new != old]
    assert shorter == ["ingress", *(one * len(CHIPS))]


@pytest.mark.parametrize(
    ("chip", "file", "holds"),
    [
        ("sm_90", "ttir.mlir", "tt.func public @matmul"),
        ("sm_90", "ttgir.mlir", '"ttg.target" = "cuda:90"|ttg.target = "cuda:90"'),
        ("sm_90", "ll", r"define ptx_kernel void @matmul"),
        ("sm_90", "ptx", r"\.target sm_90"),
        ("sm_90", "cubin", "^\x7fELF"),
        ("gfx942", "ttgir.mlir", 'ttg.target = "hip:gfx942"'),
        ("gfx942", "s", r"\.amdhsa_kernel matmul"),
        ("gfx942", "hsaco", "^\x7fELF"),
    ],
)
def test_each_stage_is_kept(compiled: dict[str, Seen], chip: str, file: str, holds: str) -> None:
    data = compiled["triton_matmul"].files[f"kernels/{chip}/00-matmul.{file}"]
    assert re.search(holds, data.decode("latin-1"))


@pytest.mark.parametrize("recorded", RECORDED, ids=".".join)
def test_a_workload_is_right_when_interpreted(
    interpreted: dict[tuple[str, str], Seen], recorded: tuple[str, str]
) -> None:
    outcome = interpreted[recorded].outcome
    assert (outcome.status, outcome.message, outcome.golden) == ("pass", "", "recorded")
    assert interpreted[recorded].stages == ["ingress", "execute", "compare"]
    assert all(error.mismatches == 0 for error in outcome.errors)
    assert outcome.errors


@pytest.mark.parametrize("name", NAMES)
def test_kernels_take_what_is_passed(compiled: dict[str, Seen], name: str) -> None:
    """Sizes of a kernel's parameters, as PTX and AMD's metadata declare them."""
    kernel = name.removeprefix("triton_")
    files = compiled[name].files
    ptx = files[f"kernels/sm_90/00-{kernel}.ptx"].decode()
    declared = re.findall(r"\.param \.[uf](\d+)", ptx.partition(")")[0])
    amdgcn = files[f"kernels/gfx942/00-{kernel}.s"].decode()
    arguments = amdgcn.partition(".args:")[2].partition(".group_segment_fixed_size")[0]
    sizes = re.findall(r"\.size: +(\d+)\s+\.value_kind: +(?!hidden)", arguments)
    assert [int(bits) // 8 for bits in declared] == [int(size) for size in sizes]
    assert declared[-2:] == ["64", "64"]  # Triton's scratch memory, and its profiler's


BAD: Mapping[str, tuple[str, str, str, str, str]] = {
    # what is wrong: the workload, the chip or none, status, phase, message
    "name": (
        text(body="value = inner(value)"),
        "sm_90",
        "fail",
        "lower:ttir",
        r"kernel: `return value \+ nowhere`: NameError\('nowhere is not defined'\)",
    ),
    "types": (
        text(body="value = value + tl.arange(0, 64)"),
        "gfx942",
        "fail",
        "lower:ttir",
        r"kernel: `value = value \+ tl\.arange\(0, 64\)`: ValueError: .*128 and 64",
    ),
    "verifier": (
        text(
            body="value = tl.inline_asm_elementwise('', '=r,=r,r,r', [value], dtype=tl.float32, "
            "is_pure=True, pack=3)"
        ),
        "sm_90",
        "fail",
        "lower:ttir",
        r"kernel: verifier\.py:\d+:\d+: error: number of input elements 128 must be a multiple",
    ),
    "assembler": (
        text(
            body="value = tl.inline_asm_elementwise('bogus $0, $1;', '=r,r', [value], "
            "dtype=tl.float32, is_pure=True, pack=1)"
        ),
        "sm_90",
        "fail",
        "codegen",
        r"error +: Not a name of any known instruction: 'bogus'",
    ),
    "amd_assembler": (
        text(
            body="value = tl.inline_asm_elementwise('bogus $0, $1', '=v,v', [value], "
            "dtype=tl.float32, is_pure=True, pack=1)"
        ),
        "gfx942",
        "fail",
        "codegen",
        r"error: invalid instruction",
    ),
    "crash": (
        text(
            body="value = tl.inline_asm_elementwise('', '=q9,r,r', [value], dtype=tl.float32, "
            "is_pure=True, pack=1)"
        ),
        "sm_90",
        "fail",
        "lower:llir",
        r"died of SIG(ABRT|SEGV)",
    ),
    "option": (
        text(launch="kernel[(1,)](x, out, SIZE, BLOCK=128, num_wraps=4)"),
        "sm_90",
        "fail",
        "lower:ttir",
        "num_wraps was specified but unrecognised",
    ),
    "cluster": (
        text(launch="kernel[(1,)](x, out, SIZE, BLOCK=128, num_ctas=2)"),
        "sm_90",
        "error",
        "codegen",
        "kernel: kernels with `num_ctas` above 1 cannot be run",
    ),
    "interpreter": (
        text(body="value = inner(value)"),
        "",
        "fail",
        "execute",
        r"kernel: interpreter\.py:\d+: NameError: name 'nowhere' is not defined",
    ),
    "wrong": (text(body="value = -value"), "", "fail", "compare", "100 of 100 elements off"),
    "partly": (
        text(body="size = size - 3"),
        "",
        "fail",
        "compare",
        r"3 of 100 elements off, worst nan at \[97\]",
    ),
    "beyond": (
        text(body="tl.store(out + place, value)"),
        "",
        "error",
        "execute",
        "memory after output 0 was written",
    ),
    "input": (
        text(body="tl.store(x + place, value + 1, mask=place < size)"),
        "",
        "error",
        "execute",
        "an input of 400 bytes was overwritten",
    ),
    "nothing": (text(launch="pass"), "", "error", "ingress", "`launch` launches no kernel"),
    "dimensions": (
        text(launch="kernel[(1, 1, 1, 1)](x, out, SIZE, BLOCK=128)"),
        "",
        "error",
        "ingress",
        "a grid of 4 dimensions, not 1 to 3",
    ),
    "arguments": (
        text(launch="kernel[(1,)](x, out)"),
        "sm_90",
        "error",
        "ingress",
        r"arguments\.py:\d+: TypeError: missing a required argument: 'size'",
    ),
    "host": (
        text(launch="kernel[(1,)](x, out, SIZE, BLOCK=128); out.zero_()"),
        "",
        "error",
        "ingress",
        "`launch` writes to a tensor that a kernel was given before",
    ),
    "result": (text(result="3"), "", "error", "ingress", "output 0 is int, not a tensor"),
    "other": (
        text(result="torch.empty(3)"),
        "",
        "error",
        "ingress",
        "output 0 was given to no kernel",
    ),
    "single": (
        text(reference="x.astype('float32')"),
        "",
        "error",
        "ingress",
        "`reference` computes output 0 in float32",
    ),
    "tuned": (
        text().replace(
            "@triton.jit\ndef kernel",
            "@triton.autotune([triton.Config({'BLOCK': b}) for b in (64, 128)], key=[])\n"
            "@triton.jit\ndef kernel",
        ),
        "sm_90",
        "error",
        "ingress",
        "kernel is tuned by measuring on a device",
    ),
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """What comes of each of `BAD`."""
    folder = tmp_path_factory.mktemp("bad")
    cells, files = {}, {}
    for name, (code, chip, *_) in BAD.items():
        path = folder / f"{name}.py"
        path.write_text(code)
        cells[name] = cell(path, *([chip] if chip else []), execute=not chip)
        files[f"workloads/{path.name}"] = path
    seen = triton_stack.run(folder / "job", list(cells.values()), files)
    return {name: seen[each.id] for name, each in cells.items()}


@pytest.mark.parametrize("name", BAD)
def test_who_is_at_fault(bad: dict[str, Seen], name: str) -> None:
    *_, status, phase, message = BAD[name]
    outcome = bad[name].outcome
    assert (outcome.status, outcome.phase) == (status, phase), outcome.message
    assert re.search(message, outcome.message)


def test_what_came_before_a_failure_is_kept(bad: dict[str, Seen]) -> None:
    kept = [Path(name).name for name in bad["assembler"].files]
    assert kept == ["00-kernel.ll", "00-kernel.ptx", "00-kernel.ttgir.mlir", "00-kernel.ttir.mlir"]


# --- launches: a driver that checks how it is called ------------------------------------------

TWO = """
import torch
import triton
import triton.language as tl

SIZE = 100

@triton.jit
def scaled(x, out, size, factor, shifted, shift, one, BLOCK: tl.constexpr):
    described = tl.make_tensor_descriptor(x, shape=[size], strides=[1], block_shape=[BLOCK])
    value = described.load([0]) * factor
    if shifted:
        value += shift.to(tl.float32) * one
    place = tl.arange(0, BLOCK)
    tl.store(out + place, value, mask=place < size)

@triton.jit
def next_of(x, out, size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, mask=place < size) + 1, mask=place < size)

def get_inputs():
    return [torch.randn(SIZE)]

def launch(x):
    between, out = torch.empty_like(x), torch.empty((2, SIZE))
    scaled[(1,)](x, between, SIZE, 0.5, True, 1 << 40, 1, BLOCK=128)
    next_of[lambda meta: (triton.cdiv(SIZE, meta["BLOCK"]),)](between, out[0], SIZE, BLOCK=32)
    next_of[(1,)](out[0], out[1], SIZE, BLOCK=128, num_warps=8)
    return out, between

def reference(x):
    between = x / 2 + 2.0**40
    return (between + [[1], [2]], between)
"""


@pytest.mark.parametrize(("driver", "chip"), [("cuda", "sm_90"), ("hip", "gfx942")])
def test_launches_are_as_a_driver_wants_them(tmp_path: Path, driver: Driver, chip: str) -> None:
    shims.skip_beside_a_real([LIBRARIES[driver]])
    workload = tmp_path / "two.py"
    workload.write_text(TWO)
    said, breaches, calls = drive(tmp_path, driver, workload, chip)
    assert breaches == []
    assert said["written"] == [0, 0]  # its kernels do nothing
    assert (said["live"], said["modules"]) == (0, 3)
    launched = {"cuda": "cuLaunchKernel", "hip": "hipModuleLaunchKernel"}[driver]
    assert calls.count(launched) == 3
    # a descriptor made by the kernel lies in scratch memory, where the chip has descriptors
    assert said["scratch"] == {"cuda": [128, 0, 0], "hip": [0, 0, 0]}[driver]


def test_more_shared_memory_than_any_kernel_gets_is_asked_for(tmp_path: Path) -> None:
    shims.skip_beside_a_real([LIBRARIES["cuda"]])
    said, breaches, calls = drive(tmp_path, "cuda", WORKLOADS / "triton_attention.py", "sm_90")
    assert breaches == []
    assert said["shared"][0] > 48 << 10
    assert calls.count("cuFuncSetAttribute") == 1


def drive(
    folder: Path, driver: Driver, workload: Path, chip: str
) -> tuple[dict[str, Any], list[str], list[str]]:
    """What `triton_driven` says, the driver's complaints, and the calls that it got."""
    library = shims.fake(driver, folder / "driver" / LIBRARIES[driver])
    toolchain = shims._toolchain()
    runtime = toolchain.link((shim_source(driver),), folder / "runtime.so", SHIM_FLAGS)
    log, trace = folder / "log", folder / "trace"
    log.touch()
    argv = [str(triton_stack.python()), "-m", "tests.harness.triton_driven"]
    done = subprocess.run(
        [*argv, str(workload), chip, str(runtime)],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "LD_LIBRARY_PATH": str(library.parent),
            "TMPDIR": str(folder),
            "FAKE_CUDA_PTX": "99",
            "FAKE_GPU_LOG": str(log),
            "FAKE_GPU_TRACE": str(trace),
        },
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir() if path.name.startswith(("triton", "tmp"))] == []
    return json.loads(done.stdout), log.read_text().splitlines(), trace.read_text().splitlines()


def test_a_whole_cell_reaches_the_driver(tmp_path: Path) -> None:
    """HSACO, loaded and launched in the cell's own process; the fake computes nothing."""
    shims.skip_beside_a_real([LIBRARIES["hip"]])
    library = shims.fake("hip", tmp_path / "driver" / LIBRARIES["hip"])
    path = WORKLOADS / "triton_add.py"
    one = cell(path, "gfx942")
    log = tmp_path / "log"
    log.touch()
    seen = triton_stack.run(
        tmp_path / "job",
        [one],
        {f"workloads/{path.name}": path},
        LD_LIBRARY_PATH=str(library.parent),
        LH_LLVM_PREFIX=str(llvm.tool("clang").parent.parent),
        FAKE_GPU_LOG=str(log),
    )[one.id]
    assert log.read_text() == ""
    assert (seen.outcome.status, seen.outcome.phase) == ("fail", "compare")
    assert "every element: a wrong computation, or an output that nobody wrote" in (
        seen.outcome.message
    )
    assert seen.outcome.device["chip"] == "gfx942"
