"""A program that is loaded: called in the device's memory, and held to manners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.harness.blame import CompilerFault, MachineFault
from orchestrator.harness.elements import Array, ElementType
from orchestrator.harness.gpu.execute import Executed, execute, loaded, run
from tests.harness.gpu import fake_runtime
from tests.harness.gpu.fake_runtime import FakeRuntime

SOURCE = np.linspace(-1, 1, 8, dtype=np.float32)
ARGUMENTS: tuple[tuple[ElementType, Array], ...] = (("f32", SOURCE),)
RESULTS: list[tuple[ElementType, tuple[int, ...]]] = [("f32", (8,))]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Any file."""
    path = tmp_path / "host.so"
    path.write_bytes(b"code")
    return path


def called(behaviour: str, repeat: int = 1) -> tuple[Executed, FakeRuntime]:
    """What `run` gave, and the runtime after it."""
    runtime: Any = FakeRuntime(b"", behaviour)
    return run(runtime, "forward", ARGUMENTS, RESULTS, repeat=repeat), runtime


def test_what_was_computed_outlives_the_devices_memory(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = fake_runtime.install("right", monkeypatch.setattr)
    executed = execute(library, "forward", ARGUMENTS, RESULTS)
    assert np.array_equal(executed.outputs[0], 2 * SOURCE + 1)
    assert executed.device == fake_runtime.DEVICE
    assert executed.kernel_ns == (1000,)
    (program,) = programs
    assert program.code == b"code"
    assert program.log == ["clear", "call forward", "free", "unload"]
    assert program.live() == 0


def test_outputs_start_as_not_a_number() -> None:
    _, runtime = called("right")
    (given,) = runtime.seen
    assert np.array_equal(given[0], SOURCE)
    assert np.isnan(given[1]).all()


def test_an_output_that_nobody_wrote_is_not_a_number() -> None:
    executed, _ = called("lazy")
    assert np.isnan(executed.outputs[0]).all()


def test_more_calls_are_for_their_times() -> None:
    executed, runtime = called("drifting", repeat=3)
    assert executed.kernel_ns == (1000, 2000, 3000)
    assert runtime.log == [*["clear", "call forward"] * 3, "free"]
    assert np.array_equal(executed.outputs[0], 2 * SOURCE + 1)


def test_an_input_that_was_written_to_is_the_compilers_fault() -> None:
    with pytest.raises(CompilerFault, match="the compiled code overwrote its argument 0"):
        called("scribbling")


def test_what_is_not_given_back_is_the_compilers_fault() -> None:
    with pytest.raises(CompilerFault, match=r"did not give back .* 2 allocations"):
        called("leaking")


def test_a_program_that_broke_the_driver_is_left_as_it_is(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = fake_runtime.install("lost", monkeypatch.setattr)
    with (
        pytest.raises(MachineFault, match="the device was lost"),
        loaded(library) as runtime,
    ):
        run(runtime, "forward", ARGUMENTS, RESULTS)
    assert programs[0].log == ["clear", "call forward"]
