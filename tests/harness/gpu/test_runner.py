"""Bundles executed: which code is taken, what comes of it, and with how little it can be done."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.harness.gpu.runner import attempt
from orchestrator.job import Done, Event, Hello, StageBegan
from tests.harness.gpu import bundles, fake_runtime
from tests.harness.gpu.bundles import CELL
from tests.harness.gpu.fake_runtime import FakeRuntime

CHIPS = ("sm_80", "sm_90", "sm_100")
Install = Callable[[str], list[FakeRuntime]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of three chips."""
    target = tmp_path / "toy"
    bundles.write(target, *(bundles.built(tmp_path, chip) for chip in CHIPS))
    return target


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Programs that behave in some way; what they leave in temporary folders is told apart."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return lambda behaviour: fake_runtime.install(behaviour, monkeypatch.setattr)


def test_a_right_program_passes(folder: Path, install: Install, tmp_path: Path) -> None:
    programs = install("right")
    report = attempt(folder, repeat=3)
    outcome = report.outcome
    assert (report.bundle, report.cell) == (str(folder), CELL)
    assert (outcome.status, outcome.phase, outcome.message) == ("pass", "", "")
    assert outcome.device == {**fake_runtime.DEVICE, "code": "sm_90"}
    assert outcome.kernel_ns == (1000, 2000, 3000)
    assert outcome.kernels == (bundles.FACTS,)
    assert outcome.golden == "computed"
    assert outcome.errors[0].mismatches == 0
    # the oldest code tells which device there is
    assert [p.code for p in programs] == [b"host code for sm_80", b"host code for sm_90"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("device", "code", "loads"),
    [("sm_89", "sm_80", 2), ("sm_90", "sm_90", 2), ("sm_120", "sm_100", 2)],
)
def test_the_code_that_fits_the_device_is_taken(
    folder: Path,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    code: str,
    loads: int,
) -> None:
    monkeypatch.setenv("FAKE_CHIP", device)
    programs = install("right")
    assert attempt(folder).outcome.device["code"] == code
    assert programs[-1].code == f"host code for {code}".encode()
    assert len(programs) == loads


def test_no_code_for_the_device_is_no_verdict(
    folder: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CHIP", "sm_75")
    install("right")
    outcome = attempt(folder).outcome
    assert (outcome.status, outcome.phase) == ("miss", "execute")
    assert outcome.message.startswith(
        "no code for this device: it is sm_75 (Fake H100), the bundle has sm_80, sm_90, sm_100, "
        "and PTX is for its chip and newer ones"
    )


def test_spirv_needs_no_look_at_the_device(tmp_path: Path, install: Install) -> None:
    programs = install("right")
    bundles.write(tmp_path / "b", bundles.built(tmp_path, "spirv", driver="vulkan"))
    assert attempt(tmp_path / "b").outcome.device["code"] == "spirv"
    assert len(programs) == 1


def test_a_chip_can_be_asked_for(folder: Path, install: Install) -> None:
    programs = install("right")
    assert attempt(folder, chip="sm_100").outcome.device["code"] == "sm_100"
    assert [p.code for p in programs] == [b"host code for sm_100"]


def test_a_chip_that_is_not_there_is_answered(folder: Path, install: Install) -> None:
    install("right")
    outcome = attempt(folder, chip="sm_09").outcome
    assert outcome.status == "error"
    assert outcome.message == (
        f"{folder} has no code for chip `sm_09`. Did you mean `sm_90`? It has: sm_80, sm_90, sm_100"
    )


def test_host_code_for_another_machine(folder: Path, install: Install) -> None:
    programs = install("right")
    bundles.edit(folder, lambda value: value.update(machine="s390x"))
    outcome = attempt(folder).outcome
    assert outcome.status == "miss"
    assert outcome.message.startswith("its host code is for s390x, and this machine is ")
    assert programs == []


def test_wrong_numbers_fail_with_their_place(folder: Path, install: Install) -> None:
    install("wrong")
    outcome = attempt(folder).outcome
    assert (outcome.status, outcome.phase) == ("fail", "compare")
    assert outcome.message.startswith("output 0: 1 of 100 elements off, worst ")
    assert "at [7] (got 0, golden " in outcome.message
    assert outcome.device["code"] == "sm_90"


def test_an_output_that_nobody_wrote_fails(folder: Path, install: Install) -> None:
    install("lazy")
    assert "100 of 100 elements off" in attempt(folder).outcome.message


@pytest.mark.parametrize(
    ("behaviour", "status", "message"),
    [
        ("scribbling", "fail", "the compiled code overwrote its argument 0"),
        ("leaking", "fail", "the program did not give back what it took from the device"),
        ("refused", "fail", "running forward: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1)"),
        ("lost", "miss", "running forward: cuStreamSynchronize: the device was lost (719)"),
        ("full", "miss", "this machine is out of memory"),
    ],
)
def test_what_ends_a_program_blames_who_is_at_fault(
    folder: Path, install: Install, behaviour: str, status: str, message: str
) -> None:
    install(behaviour)
    outcome = attempt(folder).outcome
    assert (outcome.status, outcome.phase) == (status, "execute")
    assert outcome.message.startswith(message)
    assert outcome.device["device"] == "Fake H100"


def test_a_damaged_bundle_is_an_error(folder: Path, install: Install) -> None:
    programs = install("right")
    (folder / "golden.npz").write_bytes(b"")
    outcome = attempt(folder).outcome
    assert (outcome.status, outcome.phase) == ("error", "ingress")
    assert "golden.npz: cut short at 0 of " in outcome.message
    assert programs == []


def test_nothing_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no bundle"):
        attempt(tmp_path / "nothing")


def test_who_watches_is_told_where_it_is(folder: Path, install: Install) -> None:
    install("wrong")
    told: list[Event] = []
    report = attempt(folder, tell=told.append)
    stages = [event.stage for event in told if isinstance(event, StageBegan)]
    assert stages == ["ingress", "execute", "compare"]
    (hello,) = (event for event in told if isinstance(event, Hello))
    assert told.index(hello) == 2
    assert hello.hardware == {**fake_runtime.DEVICE, "code": "sm_90"}
    assert told[-1] == Done(cell=CELL, outcome=report.outcome)
