"""`lh-ci execute`: what it takes for a bundle, and processes that do not end well."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result

from orchestrator import records
from orchestrator.engines import bundles as subject
from orchestrator.engines.locks import take
from orchestrator.errors import InfrastructureError
from orchestrator.harness.gpu.runner import Report
from orchestrator.host import Gpu
from tests.cli.conftest import MLP, SUM, Lab
from tests.harness.gpu import bundles
from tests.harness.gpu.bundles import CELL
from tests.harness.gpu.fake_runtime import SITECUSTOMIZE

pytestmark = pytest.mark.process


@dataclass
class Machine:
    """A machine whose programs behave in some way."""

    lab: Lab
    folder: Path
    """A bundle."""
    archive: Path
    hangs: Path
    """Is there when a program hangs."""

    def environ(self, behaviour: str) -> dict[str, str]:
        """What a child process needs to take part."""
        return {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(self.hangs.parent),
            "FAKE_RUNTIME": behaviour,
            "FAKE_HANGS": str(self.hangs),
        }

    def __call__(self, behaviour: str, *words: object) -> Result:
        """The outcome of `lh-ci execute *words`."""
        self.lab.environ.update(self.environ(behaviour))
        return self.lab("execute", *map(str, words))


@pytest.fixture
def machine(lab: Lab, tmp_path: Path) -> Machine:
    """A machine with a bundle, beside a repository."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE)
    folder = tmp_path / "bundles" / "toy"
    bundles.write(folder, *(bundles.built(tmp_path, chip) for chip in ("sm_80", "sm_90")))
    return Machine(lab, folder, bundles.archived(folder), site / "hangs")


def test_a_right_program_is_a_line(machine: Machine) -> None:
    done = machine("right", machine.archive)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "device    Fake H100 (sm_90)",
        "driver    cuda 12.8",
        "library   /usr/lib/libcuda.so.570",
        f"pass  {CELL}   sm_90   max abs 0   1.0 us",
        "1 pass",
    ]


def test_wrong_numbers_end_with_1_and_tell_everything(machine: Machine) -> None:
    done = machine("wrong", machine.folder)
    assert done.exit_code == 1
    assert f"fail  {CELL}   compare" in done.stdout
    assert "  output 0: 1 of 100 elements off, worst " in done.stdout
    assert "  code      sm_90" in done.stdout
    assert f"  bundle    {machine.folder}" in done.stdout


@pytest.mark.parametrize(
    ("behaviour", "code", "status", "message"),
    [
        ("crashing", 1, "fail", "died of SIGSEGV; its last words: Xid 31: MMU fault"),
        ("killed", 4, "miss", "died of SIGKILL"),
        ("leaving", 4, "miss", "ended with exit 0 and no verdict"),
        ("lost", 4, "miss", "running forward: cuStreamSynchronize: the device was lost (719)"),
        ("chatty", 0, "pass", ""),
    ],
)
def test_a_process_that_does_not_end_well_is_told(
    machine: Machine, behaviour: str, code: int, status: str, message: str
) -> None:
    done = machine(behaviour, machine.archive, "--json")
    assert done.exit_code == code
    (value,) = json.loads(done.stdout)["bundles"]
    report = records.decode(Report, value)
    assert (report.cell, report.outcome.status) == (CELL, status)
    assert report.outcome.message == message
    assert report.outcome.phase == ("" if status == "pass" else "execute")
    assert report.outcome.device["device"] == "Fake H100"


def test_a_program_that_hangs_is_killed_and_no_verdict(machine: Machine) -> None:
    """The clock stands still until it hangs."""
    report = subject.execute(
        machine.archive,
        environ=machine.environ("hanging"),
        timeout_s=60,
        clock=lambda: 61.0 if machine.hangs.exists() else 0.0,
    )
    outcome = report.outcome
    assert (report.cell, outcome.status, outcome.phase) == (CELL, "miss", "execute")
    assert outcome.message == (
        "no answer within 60 s: killed; its last words: waiting for the device"
    )
    assert outcome.device["code"] == "sm_90"


def test_a_crash_before_anything_ran_is_no_fault_of_the_program(machine: Machine) -> None:
    environ = machine.environ("right") | {"PYTHONHASHSEED": "no number"}
    outcome = subject.execute(machine.archive, environ=environ, timeout_s=60).outcome
    assert (outcome.status, outcome.phase) == ("miss", "ingress")
    assert "and no verdict; its last words: " in outcome.message


def test_one_that_is_damaged_takes_no_other_with_it(machine: Machine) -> None:
    (machine.folder.parent / "broken.bundle.zip").write_bytes(b"")
    done = machine("right", machine.folder.parent, "--json")
    assert done.exit_code == 3
    found = {
        Path(value["bundle"]).name: value["outcome"]["status"]
        for value in json.loads(done.stdout)["bundles"]
    }
    assert found == {"broken.bundle.zip": "error", "toy": "pass", "toy.bundle.zip": "pass"}
    assert "1 error" in done.stderr


def test_chip_and_repeat_reach_the_program(machine: Machine) -> None:
    done = machine("right", machine.archive, "--chip", "sm_80", "--repeat", "5", "--json")
    (value,) = json.loads(done.stdout)["bundles"]
    assert value["outcome"]["device"]["code"] == "sm_80"
    assert value["outcome"]["kernel_ns"] == [1000, 2000, 3000, 4000, 5000]
    done = machine("right", machine.archive, "--chip", "sm_8")
    assert done.exit_code == 3
    assert "has no code for chip `sm_8`. Did you mean `sm_80`?" in done.stdout


def test_nothing_is_recorded_unless_asked(machine: Machine, tmp_path: Path) -> None:
    before = sorted(machine.lab.tree.root.rglob("*"))
    target = tmp_path / "out" / "report.json"
    done = machine("right", machine.archive, "--save", target, "--json")
    assert target.read_text() == done.stdout
    assert sorted(machine.lab.tree.root.rglob("*")) == before


def test_what_a_run_left_is_found_by_its_cell(machine: Machine) -> None:
    machine.lab("run", "torch_cpu")
    run = machine.lab.last
    run.write_artifact(MLP, "mlp.bundle.zip", machine.archive.read_bytes())
    done = machine("right", "last", "*.mlp.*", "--json")
    (value,) = json.loads(done.stdout)["bundles"]
    assert Path(value["bundle"]) == run.artifacts(MLP) / "mlp.bundle.zip"
    assert machine("right", run.name, MLP).exit_code == 0
    done = machine("right", "last", SUM)
    assert done.exit_code == 2
    assert f"run {run.name} has no bundle of `{SUM}`: only cells of GPU pipelines" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Missing argument"),
        (("nothing.zip",), "`nothing.zip` is neither a path nor a run."),
        (("last",), "of which cell of run `last`?"),
        (("last", "x"), "there are no runs in"),
        (("recipes",), "no bundle in recipes"),
        (("recipes", "--timeout", "soon"), "`soon` is no duration"),
        (("recipes", "--repeat", "0"), "0 is not in the range"),
    ],
)
def test_a_wrong_command_line_is_answered(
    machine: Machine, words: tuple[str, ...], message: str
) -> None:
    done = machine("right", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_bundles_are_executed_outside_of_any_repository(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert machine("right", machine.archive).exit_code == 0


def test_no_room_for_a_process_is_told(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(InfrastructureError, match="No such file or directory"):
        subject.execute(machine.archive, environ={}, timeout_s=1)


def test_the_gpu_is_locked_while_a_program_runs(machine: Machine, tmp_path: Path) -> None:
    gpu = Gpu(vendor="nvidia", name="Fake H100", chip="sm_90")
    machine.lab.host = dataclasses.replace(machine.lab.host, gpus=(gpu,))
    machine.lab.environ["LH_LOCKS"] = str(tmp_path)
    file = tmp_path / "lighthouse-gpu-nvidia.lock"
    assert machine("right", machine.archive).exit_code == 0
    held = take(file)
    assert held is not None
    try:
        done = machine("right", machine.archive)
    finally:
        os.close(held)
    assert done.exit_code == 4
    assert "note  the NVIDIA GPU is in use by" in done.stderr
    assert "the NVIDIA GPU is held by" in done.stderr
