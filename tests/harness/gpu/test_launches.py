"""Bundles of kernels alone: launched by the runner, as a plan says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import records
from orchestrator.errors import DefinitionError
from orchestrator.harness.gpu import ir
from orchestrator.harness.gpu.opened import opened
from orchestrator.harness.gpu.runner import Report
from orchestrator.harness.gpu.targets import Built
from orchestrator.harness.triton.plan import Kernel, Launch, Memory, Plan, Scalar, Scratch, View
from orchestrator.job import Driver, Outcome, Step, Target
from tests.harness.gpu import bundles, shims

CHIPS: Mapping[Driver, str] = {"cuda": "sm_90", "hip": "gfx942"}
LIBRARIES: Mapping[Driver, str] = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.6"}
LAUNCH: Mapping[Driver, str] = {"cuda": "cuLaunchKernel", "hip": "hipModuleLaunchKernel"}
SIZE = bundles.SHAPE[0]
POISON = np.full(4 * SIZE, 0xFF, np.uint8)
OTHER = np.arange(40, dtype=np.uint8)
"""What nothing else in the bundle gives."""


def view(buffer: int) -> View:
    return View(buffer=buffer, offset=0, shape=(SIZE,), strides=(1,), element="f32")


def memref(buffer: int) -> tuple[View | Scalar, ...]:
    """As kernels of `toy.mlir` take it: allocated, aligned, offset, size, stride."""
    numbers = [Scalar(kind="i64", value=n) for n in (False, SIZE, True)]
    return (view(buffer), view(buffer), *numbers)


def plan(code: Mapping[str, bytes]) -> Plan:
    """Out = 2 * in + 1, by two kernels with a buffer between them."""
    kernels = tuple(
        Kernel(name=name, code=data, threads=32, shared_bytes=0, scratch=())
        for name, data in code.items()
    )
    return Plan(
        kernels=kernels,
        launches=(
            Launch(kernel=0, grid=(4, 1, 1), parameters=(*memref(0), *memref(1))),
            Launch(kernel=1, grid=(4, 1, 1), parameters=(*memref(1), *memref(2))),
        ),
        memory=Memory(
            buffers=(bundles.INPUT.view(np.uint8), POISON, POISON, OTHER),
            inputs=frozenset({0, 3}),
            outputs=(view(2),),
        ),
    )


def code_of(driver: Driver, folder: Path) -> dict[str, bytes]:
    """The kernels of `toy.mlir`: name to PTX or HSACO."""
    toolkit = str(shims._toolkit(folder))
    step = Step(tool="mlir-opt", passes=shims._KERNELS[driver].replace("TOOLKIT", toolkit))
    lowered = shims._toolchain().apply(step, (shims.HERE / "toy.mlir").read_text())
    names = {"first": "twice", "second": "plus_one"}
    return {names[binary.module]: binary.data for binary in ir.binaries(lowered)}


def written(folder: Path, library: Path, chip: str, driver: Driver, made: Plan) -> Path:
    files = {f"{i:02}-{k.name}.bin": k.code for i, k in enumerate(made.kernels)}
    target = Target(driver=driver, chip=chip)
    built = Built(target=target, library=library, files=files, facts=(bundles.FACTS,))
    bundles.write(folder, built, entry="launch", plans={chip: made})
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle that can be read, and not executed."""
    (tmp_path / "runtime.so").write_bytes(b"a runtime")
    made = plan({"twice": b"first", "plus_one": b"second"})
    return written(tmp_path / "b", tmp_path / "runtime.so", "sm_80", "cuda", made)


@pytest.mark.stack
@pytest.mark.parametrize("driver", ["cuda", "hip"])
def test_a_driver_is_handed_kernels_arguments_and_grid(driver: Driver, tmp_path: Path) -> None:
    shims.skip_beside_a_real([LIBRARIES[driver]])
    library = shims.fake(driver, tmp_path / "driver" / LIBRARIES[driver])
    made = plan(code_of(driver, tmp_path))
    folder = written(tmp_path / "b", shims.alone(driver, tmp_path), CHIPS[driver], driver, made)
    log, trace = tmp_path / "log", tmp_path / "trace"
    log.touch()
    outcome = executed(
        bundles.archived(folder),
        "--repeat=3",
        LD_LIBRARY_PATH=str(library.parent),
        FAKE_GPU_LOG=str(log),
        FAKE_GPU_TRACE=str(trace),
    )
    assert (outcome.status, outcome.message) == ("pass", "")
    assert outcome.device["code"] == CHIPS[driver]
    assert outcome.kernel_ns == (2 * 4 * 1500,) * 3
    assert log.read_text() == ""  # no call that a real driver would refuse
    calls = trace.read_text().splitlines()
    assert calls.count(LAUNCH[driver]) == 3 * 2
    assert sum(call.endswith("ModuleUnload") for call in calls) == 2


@pytest.mark.stack
def test_wrong_numbers_of_a_kernel_fail(tmp_path: Path) -> None:
    shims.skip_beside_a_real([LIBRARIES["cuda"]])
    library = shims.fake("cuda", tmp_path / "driver" / LIBRARIES["cuda"])
    made = plan(code_of("cuda", tmp_path))
    made = replace(made, launches=(made.launches[0], replace(made.launches[1], grid=(1, 1, 1))))
    folder = written(tmp_path / "b", shims.alone("cuda", tmp_path), "sm_90", "cuda", made)
    outcome = executed(folder, LD_LIBRARY_PATH=str(library.parent))
    assert (outcome.status, outcome.phase) == ("fail", "compare")
    assert "68 of 100 elements off" in outcome.message


def executed(path: Path, *words: str, **environ: str) -> Outcome:
    """With the program that the bundle brings, and Python's and NumPy's own files alone."""
    hidden = ("LH_", "FAKE_", "CUDA_", "HIP_", "PYTHON")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [sys.executable, str(path), "--json", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**environment, **environ},
    )
    assert done.stdout, done.stderr
    return records.decode(Report, json.loads(done.stdout)).outcome


def test_what_was_planned_is_read_again(bundle: Path) -> None:
    wanted = plan({"twice": b"first", "plus_one": b"second"})
    with opened(bundle) as found:
        program = found.bundle.program
        assert program is not None
        assert [each.argument for each in program.buffers] == [0, None, None, None]
        assert [each.fill for each in program.buffers] == [None, 0xFF, 0xFF, None]
        read = found.plan(program, "sm_80", found.arguments())
    assert (read.kernels, read.launches) == (wanted.kernels, wanted.launches)
    assert (read.memory.inputs, read.memory.outputs) == (wanted.memory.inputs, (view(2),))
    for got, contents in zip(read.memory.buffers, wanted.memory.buffers, strict=True):
        np.testing.assert_array_equal(got, contents)


def change(*path: str | int, to: Any) -> Callable[[Any], None]:
    def apply(value: Any) -> None:
        at = value["program"]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return apply


HOSTILE = [
    (change("chips", "sm_90", to={"kernels": [], "launches": []}), "for other chips than its code"),
    (change("buffers", 0, "argument", to=1), "buffer 0 is no memory that there is"),
    (change("buffers", 0, "size", to=8), "buffer 0 is no memory that there is"),
    (change("buffers", 1, "fill", to=256), "buffer 1 is no memory that there is"),
    (change("buffers", 1, "size", to=-1), "buffer 1 is no memory that there is"),
    (change("buffers", 1, "size", to=1 << 50), "bytes of buffers; at most"),
    (change("inputs", to=[4]), "an input that is no buffer"),
    (change("outputs", 0, "buffer", to=-1), "an output outside of its buffer"),
    (change("outputs", 0, "offset", to=4), "an output outside of its buffer"),
    (change("outputs", 0, "strides", to=[-1]), "an output outside of its buffer"),
    (change("outputs", to=[]), "its program has other outputs than it says"),
]
CHIP = ("chips", "sm_80")
HOSTILE += [
    (change(*CHIP, "kernels", 0, "file", to="/etc/passwd"), "'/etc/passwd' is not among its files"),
    (change(*CHIP, "kernels", 0, "threads", to=0), "has blocks of 0 threads"),
    (change(*CHIP, "kernels", 0, "shared_bytes", to=-1), "wants memory of no size"),
    (
        change(*CHIP, "kernels", 0, "scratch", to=[{"block_bytes": 8, "alignment": 0}]),
        "wants memory of no size",
    ),
    (change(*CHIP, "launches", 0, "kernel", to=2), "launch 0 is of no kernel"),
    (change(*CHIP, "launches", 1, "grid", to=[1, 1]), "launch 1 is of no kernel, on no grid"),
    (change(*CHIP, "launches", 1, "grid", to=[1 << 20] * 3), "launch 1 is of no kernel, on no"),
    (change(*CHIP, "launches", 0, "parameters", 2, "kind", to="i128"), "that can be passed"),
    (change(*CHIP, "launches", 0, "parameters", 0, "offset", to=4), "that can be passed"),
]


@pytest.mark.parametrize(("edit", "message"), HOSTILE, ids=[message for _, message in HOSTILE])
def test_what_no_program_may_ask_for(
    bundle: Path, edit: Callable[[Any], None], message: str
) -> None:
    bundles.edit(bundle, edit)
    with pytest.raises(DefinitionError, match=r"bundle\.json: ") as caught, opened(bundle):
        pass
    assert message in str(caught.value)


def test_buffers_of_another_size_are_refused(bundle: Path) -> None:
    from orchestrator.harness.arrays import npz

    bundles.replace(bundle, "buffers.npz", npz({"buffer_3": OTHER[:-1]}))
    with opened(bundle) as found:
        assert found.bundle.program is not None
        with pytest.raises(DefinitionError, match=r"buffers\.npz: "):
            found.plan(found.bundle.program, "sm_80", found.arguments())
    bundles.replace(bundle, "buffers.npz", npz({"buffer_3": OTHER.astype(np.uint16)}))
    with opened(bundle) as found:
        assert found.bundle.program is not None
        with pytest.raises(DefinitionError, match="no bytes"):
            found.plan(found.bundle.program, "sm_80", found.arguments())


def test_scratch_memory_and_numbers_that_are_not_finite_keep_their_value(tmp_path: Path) -> None:
    (tmp_path / "runtime.so").touch()
    made = plan({"twice": b"first", "plus_one": b"second"})
    scratch = (Scratch(block_bytes=128, alignment=64), Scratch(block_bytes=0, alignment=1))
    more = Scalar(kind="fp32", value=float("inf"))
    launch = replace(made.launches[0], parameters=(*made.launches[0].parameters, more))
    made = replace(
        made,
        kernels=(replace(made.kernels[0], scratch=scratch), made.kernels[1]),
        launches=(launch, made.launches[1]),
    )
    folder = written(tmp_path / "b", tmp_path / "runtime.so", "sm_80", "cuda", made)
    with opened(folder) as found:
        assert found.bundle.program is not None
        read = found.plan(found.bundle.program, "sm_80", found.arguments())
    assert read.kernels == made.kernels
    assert read.launches == made.launches
