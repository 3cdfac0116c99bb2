"""`lh-ci run`: what is run, what is shown, what it ends with."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engines.base import Exit
from orchestrator.errors import InfrastructureError
from orchestrator.job import Artifact, Job, Outcome, StageTime, Started
from orchestrator.results.artifacts import encode
from tests.cli.conftest import MLP, MLP_F16, NOTE, SUM, Lab
from tests.fakes import HELLO, PASS, Play, Step, cell_steps, fail

XFAIL = fail("failed to legalize 'math.exp'", "lower:to-llvm")
"""As the sample repository expects of f16."""
MISS = Outcome(status="miss", phase="execute", message="no space left on the device")
ERROR = Outcome(status="error", phase="ingress", message="mlp.py:3: ValueError: no")


def play(lab: Lab, **outcomes: Outcome | list[Outcome]) -> None:
    """Gives cells their outcomes; `mlp` and `sum` are f32, `half` is the f16 one."""
    ids = {"mlp": MLP, "half": MLP_F16, "sum": SUM}
    given = {ids[k]: v if isinstance(v, list) else [v] for k, v in outcomes.items()}
    lab.engine.script = Play({MLP_F16: [XFAIL], **given})


def test_all_is_well(lab: Lab) -> None:
    play(lab)
    done = lab("run", "torch_cpu")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "      building pytorch",
        "stack pytorch       torch 2.13.0 · LLVM 22.1.8   image lh/pytorch:3f9c2a1 (cached)",
        f"pool  intel-cpu     Intel Xeon, 2 cores, avx512f   3 cells, 1 job, {NOTE}",
        "skip  3 cells: pool amd-cpu is AMD x86_64; this machine is Intel x86_64 (Intel Xeon)",
    ]
    assert lines[4] == f"pass  {MLP}   0.30 s   [1/3]"
    assert lines[5] == f"xfail {MLP_F16}   0.30 s   [2/3]   lower:to-llvm"
    assert lines[-1] == ("2 pass · 1 xfail · 3 skip      results .lh/runs/2026-11-20T21-04-11")


def test_a_failure_is_shown_with_what_to_do_next(lab: Lab) -> None:
    play(lab, sum=fail("288 of 4,608 elements off\npattern: a tile's tail"))
    done = lab("run", "torch_cpu")
    assert done.exit_code == 1
    assert (
        f"  fail  {SUM}   compare\n"
        "        288 of 4,608 elements off\n"
        "        pattern: a tile's tail\n"
        f"        rerun   nox -s torch_cpu -- --cell {SUM}\n"
        f"        look    lh-ci show last {SUM}\n"
    ) in done.stdout


def test_the_rerun_command_reruns_exactly_that_cell(lab: Lab) -> None:
    play(lab, sum=fail())
    lab("run", "torch_cpu")
    _, _, _, _, *words = lab.last.latest()[SUM].reproduce.split()
    done = lab("run", "torch_cpu", *words)
    assert [cell.id for cell in lab.engine.jobs[-1].cells] == [SUM]
    assert done.exit_code == 1


def test_options_that_matter_are_in_the_rerun_command(lab: Lab) -> None:
    options = ["--engine", "venv", "--toolchain", "bindings", "--timeout", "2min"]
    lab("run", SUM, *options)
    assert lab.last.latest()[SUM].reproduce == (
        f"nox -s torch_cpu -- --cell {SUM} --engine venv --toolchain bindings --timeout 120s"
    )
    assert lab.engine.jobs[0].toolchain == "bindings"
    assert lab.engine.jobs[0].cells[0].timeout_s == 120.0
    assert lab.asked_for == ["venv"]


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ({}, 0),
        ({"mlp": MISS}, 4),
        ({"mlp": MISS, "sum": ERROR}, 3),
        ({"mlp": MISS, "sum": ERROR, "half": fail("another thing")}, 1),
        ({"mlp": MISS, "half": PASS}, 1),
    ],
)
def test_exit_codes_in_order_of_blame(lab: Lab, outcomes: dict[str, Any], code: int) -> None:
    play(lab, **outcomes)
    assert lab("run", "torch_cpu").exit_code == code


def test_a_red_peripheral_cell_is_shown_and_does_not_count(lab: Lab) -> None:
    lab.tree.edit("matrix.yaml", "torch_cpu:\n    tier: core", "torch_cpu:\n    tier: peripheral")
    play(lab, sum=fail("wrong"))
    done = lab("run", "torch_cpu")
    assert done.exit_code == 0, done.output
    assert f"  fail  {SUM}   compare   (peripheral: shown, does not count)" in done.stdout
    assert "1 fail" in done.stdout.splitlines()[-1]


def test_an_expectation_that_does_not_fit_says_why(lab: Lab) -> None:
    play(lab, half=fail("something else", "lower:to-llvm"))
    done = lab("run", "torch_cpu")
    assert done.exit_code == 1
    assert "note: the expected failure `f16 is not there yet (tracked elsewhere)`" in done.stdout
    assert "does not apply: the message does not match `failed to legalize`" in done.stdout


def test_an_expected_failure_that_passes_is_loud(lab: Lab) -> None:
    play(lab, half=PASS)
    done = lab("run", "torch_cpu")
    assert done.exit_code == 1
    assert f"  xpass {MLP_F16}   lower:to-llvm" in done.stdout
    assert "expected: f16 is not there yet (tracked elsewhere)" in done.stdout


def test_misses_are_retried_and_every_attempt_is_kept(lab: Lab) -> None:
    play(lab, mlp=[MISS, PASS])
    done = lab("run", "torch_cpu")
    assert done.exit_code == 0
    assert f"note  {MLP}: miss in attempt 1, trying again: no space left" in done.stdout
    attempts = [(r.attempt, r.status) for r in lab.last.results()[0] if r.cell == MLP]
    assert attempts == [(1, "miss"), (2, "pass")]


def test_the_same_trouble_of_many_cells_is_told_once(lab: Lab) -> None:
    for name in ("a", "b", "c"):
        lab.tree.write(f"recipes/workloads/{name}.py", "class Model: ...\ndef get_inputs(): ...\n")
        lab.tree.record(name, "f32")
    lab.engine.prepare_error = InfrastructureError("no index answers")
    done = lab("run", "torch_cpu")
    assert done.exit_code == 4
    assert done.stdout.count("no index answers") == 1
    assert "and 5 more cells alike: torch_cpu.b.f32@intel-cpu, " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("6 miss · 6 skip")


def test_a_pool_that_this_machine_is_not_part_of_is_refused(lab: Lab) -> None:
    done = lab("run", "torch_cpu", "--pool", "amd-cpu")
    assert done.exit_code == 2
    assert done.stderr == (
        "lh-ci: this machine is not part of pool amd-cpu: pool amd-cpu is AMD x86_64; this "
        "machine is Intel x86_64 (Intel Xeon). Pools: intel-cpu, amd-cpu, arm-cpu\n"
    )
    assert lab.asked_for == []


def test_nothing_that_can_run_here_is_refused_with_the_reason(lab: Lab) -> None:
    done = lab("run", "torch_cpu.*@amd-cpu")
    assert done.exit_code == 2
    assert "nothing to run on this machine. 3 cells: pool amd-cpu is AMD" in done.stderr
    assert not lab.runs.all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torch_cup"], "no cell matches `torch_cup`. Did you mean `torch_cpu`?"),
        (["torch_cpu", "--workload", "mpl"], "no workload `mpl`. Did you mean `mlp`?"),
        (["torch_cpu", "--workload", "gone.py"], "--workload gone.py: there is no file"),
        (["torch_cpu", "--set", "A=1"], "--set needs a workload to set it in"),
        (["--workload", "./x.py"], "which pipeline should run ./x.py?"),
        (["torch_cpu", "--workload", "mpl", "--set", "A=1"], "no workload `mpl`. Did you mean"),
        (["torch_cpu", "--set", "8"], "`8` is not of the form NAME=VALUE"),
        (["torch_cpu", "--timeout", "soon"], "`soon` is no duration"),
        (["--resume"], "there is no unfinished run"),
        (["torch_cpu", "--retries", "3"], "3 is not in the range"),
        (["torch_cpu", "--engine", "dokcer"], "'dokcer' is not one of"),
    ],
)
def test_what_does_not_exist_is_a_usage_error(lab: Lab, words: list[str], message: str) -> None:
    lab.tree.write("x.py", "class Model: ...\ndef get_inputs(): ...\n")
    done = lab("run", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_definitions_that_are_wrong_run_nothing(lab: Lab) -> None:
    lab.tree.edit("matrix.yaml", "pools: [intel-cpu, amd-cpu]", "pools: [inter-cpu]")
    done = lab("run", "torch_cpu")
    assert done.exit_code == 3
    assert "Did you mean `intel-cpu`?" in done.stderr
    assert done.stderr.splitlines()[-1] == "1 problem"
    assert lab.engine.jobs == []


class TestAnyFile:
    """`--workload PATH.py`."""

    SOURCE = "BATCH = 2\nclass Model: ...\ndef get_inputs(): ...\n"

    def test_it_runs_by_its_path(self, lab: Lab, tmp_path: Path) -> None:
        path = tmp_path / "My-Net.2.py"
        path.write_text(self.SOURCE)
        done = lab("run", "torch_cpu", "--workload", str(path), "--set", "BATCH=8")
        assert done.exit_code == 0, done.output
        (job,) = lab.engine.jobs
        (cell,) = job.cells
        assert cell.id == "torch_cpu.my_net_2.native@intel-cpu"
        assert cell.workload.constants == {"BATCH": 8}
        assert (cell.workload.inputs, cell.golden) == ("module", None)
        folder = lab.engine.folders[0]
        assert (folder / cell.workload.file).read_text() == self.SOURCE
        assert lab.last.latest()[cell.id].reproduce == (
            f"nox -s torch_cpu -- --cell {cell.id} --workload {path} --variant native --set BATCH=8"
        )

    def test_its_rerun_command_does_the_same(self, lab: Lab, tmp_path: Path) -> None:
        path = tmp_path / "net.py"
        path.write_text(self.SOURCE)
        lab("run", "torch_cpu", "--workload", str(path), "--set", "RATE=1e-3")
        first = lab.engine.jobs[0].cells
        (result,) = lab.last.latest().values()
        lab("run", "torch_cpu", *result.reproduce.split()[4:])
        assert lab.engine.jobs[1].cells == first

    def test_a_path_below_the_root_is_given_from_there(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lab.tree.write("sub/net.py", self.SOURCE)
        monkeypatch.chdir(lab.tree.root / "sub")
        assert lab("run", "torch_cpu", "--workload", "./net.py").exit_code == 0
        (result,) = lab.last.latest().values()
        assert "--workload sub/net.py" in result.reproduce

    def test_a_registered_file_is_the_registered_workload(self, lab: Lab) -> None:
        assert lab("run", "torch_cpu", "--workload", "recipes/workloads/sum.py").exit_code == 0
        (cell,) = lab.engine.jobs[0].cells
        assert cell.id == SUM
        assert cell.golden is not None

    def test_constants_of_a_registered_workload_can_be_overridden(self, lab: Lab) -> None:
        assert lab("run", "torch_cpu", "--workload", "sum", "--set", "BATCH=8").exit_code == 0
        (cell,) = lab.engine.jobs[0].cells
        assert (cell.id, cell.golden) == (SUM, None)
        assert lab.last.latest()[SUM].constants == {"BATCH": 8}

    def test_another_program_of_a_registered_name_is_not_taken_for_it(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        path = tmp_path / "mlp.py"
        path.write_text(self.SOURCE)
        assert lab("run", "torch_cpu", "--workload", str(path), "--variant", "f32").exit_code == 0
        assert [c.id for c in lab.engine.jobs[0].cells] == ["torch_cpu.mlp_file.f32@intel-cpu"]

    def test_a_file_that_is_no_workload_is_our_definitions_fault(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        path = tmp_path / "net.py"
        path.write_text("def get_input(): ...\n")
        done = lab("run", "torch_cpu", "--workload", str(path))
        assert done.exit_code == 3
        assert "defines neither a class `Model`" in done.stderr
        assert "defines no function `get_inputs`. Did you mean `get_input`" in done.stderr


def test_a_dry_run_prints_the_plan_and_does_nothing(lab: Lab) -> None:
    done = lab("run", "torch_cpu", "--dry-run")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "job   pytorch on intel-cpu: 3 cells, 2 workers",
        *(f"      {cell}" for cell in (MLP, MLP_F16, SUM)),
        "skip  3 cells: pool amd-cpu is AMD x86_64; this machine is Intel x86_64 (Intel Xeon)",
    ]
    assert lab.asked_for == []
    assert not lab.runs.all()


def test_a_dry_run_for_machines(lab: Lab) -> None:
    document = lab.json("run", "torch_cpu", "--dry-run", "--workers", "7")
    (job,) = document["jobs"]
    assert (job["stack"], job["pool"]) == ("pytorch", "intel-cpu")
    assert set(job["cells"]) == {MLP, MLP_F16, SUM}
    assert {s["cell"] for s in document["skipped"]} == {
        cell.replace("intel", "amd") for cell in (MLP, MLP_F16, SUM)
    }
    assert document["options"]["workers"] == 7


def test_json_has_the_whole_outcome_and_nothing_else_on_standard_output(lab: Lab) -> None:
    play(lab, sum=fail("wrong"), mlp=[MISS, PASS])
    lab.engine.left_behind = ("container lh-1",)
    done = lab("run", "torch_cpu", "--json")
    assert done.exit_code == 1
    document = lab.json("run", "torch_cpu")
    assert set(document) == {
        "schema",
        "run",
        "folder",
        "engine",
        "seconds",
        "exit_code",
        "cells",
        "skipped",
    }
    assert document["exit_code"] == 1
    by_id = {cell["cell"]: cell for cell in document["cells"]}
    assert by_id[SUM] == {
        "cell": SUM,
        "status": "fail",
        "tier": "core",
        "phase": "compare",
        "message": "wrong",
        "attempt": 1,
        "seconds": 0.3,
        "evidence": [],
        "rerun": f"nox -s torch_cpu -- --cell {SUM}",
    }
    assert len(document["skipped"]) == 3
    assert "container lh-1" in done.stderr


def test_what_dead_runs_left_is_swept_at_the_start(lab: Lab) -> None:
    lab.engine.left_behind = ("container lh-1",)
    done = lab("run", SUM)
    assert "note  left behind by an earlier run, now removed: container lh-1" in done.stdout


def test_fail_fast_stops_at_the_first_red_cell_and_can_be_resumed(lab: Lab) -> None:
    play(lab, half=fail("new trouble"))
    done = lab("run", "torch_cpu", "--fail-fast")
    assert done.exit_code == 1
    assert set(lab.last.latest()) == {MLP, MLP_F16}
    assert lab.last.info().ended is None
    resumed = lab("run", "--resume")
    assert resumed.exit_code == 1
    assert set(lab.last.latest()) == {MLP, MLP_F16, SUM}
    assert lab.last.info().ended is not None


def test_results_say_what_they_depend_on(lab: Lab) -> None:
    lab("run", SUM)
    lab("run", SUM)
    first, second = (run.latest()[SUM] for run in lab.runs.all())
    assert first.engine == "docker"
    assert first.environment == "sha256:pytorch"
    assert first.versions["torch"] == "2.13.0"
    assert first.hardware["cpu_model"] == "Intel Xeon"
    assert first.isolation is not None
    assert first.isolation.contained
    assert first.argv == ("python", "-m", "orchestrator.harness", "/job")
    assert first.fingerprint == second.fingerprint
    assert first.run != second.run


def test_artifacts_are_kept_and_dangerous_ones_refused(lab: Lab) -> None:
    files = {"ir/00-ingress.mlir": b"module {}", "../../../plan.json": b"{}"}
    lab.engine.script = Play(files=files)
    before = lab("run", SUM)
    run = lab.last
    assert (run.artifacts(SUM) / "ir/00-ingress.mlir").read_bytes() == b"module {}"
    assert "not a plain relative path" in before.stdout
    assert run.plan().selection == (SUM,)
    assert [p.name for p in run.artifacts(SUM).iterdir()] == ["ir"]


def test_artifacts_of_an_attempt_that_is_tried_again_are_forgotten(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        first = job.id.count(".r") == 0
        yield HELLO
        yield from cell_steps(SUM, MISS if first else PASS, {f"first-{first}": b"x"})

    lab.engine.script = script
    lab("run", SUM)
    assert [p.name for p in lab.last.artifacts(SUM).iterdir()] == ["first-False"]


def test_control_characters_and_markup_do_nothing(lab: Lab) -> None:
    evil = "\x1b]0;title\x07\x1b[2J[bold red]hello[/] :smile: \x9b31m\u202egpj\r\n\x08second"
    play(lab, sum=fail(evil))
    done = lab("run", "torch_cpu")
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout
    assert "        [bold red]hello[/] :smile: ?31m?gpj\n        ?second\n" in done.stdout


def test_a_long_message_is_cut_short(lab: Lab) -> None:
    play(lab, sum=fail("\n".join(f"line {i}" for i in range(40))))
    done = lab("run", "torch_cpu")
    assert "        line 11\n        … 28 more lines\n" in done.stdout


def test_timings_say_where_the_time_went(lab: Lab) -> None:
    slow = dataclasses.replace(
        PASS, stages=(*PASS.stages, StageTime(stage="execute", seconds=9.0, exit="ok"))
    )
    play(lab, mlp=slow)
    done = lab("run", "torch_cpu", "--timings")
    lines = done.stdout.splitlines()
    assert "where the time went" in lines
    prepared = next(line for line in lines if "environments made ready" in line)
    assert "5.00 s" in prepared
    assert any(line.split()[:3] == ["execute", "9.00", "s"] for line in lines)
    assert any(line.startswith(f"  {MLP}") and "execute 9.00 s" in line for line in lines)
    assert "What dominates: environments made ready, " in done.stdout


def test_a_full_disk_ends_the_run_and_keeps_what_was_written(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(lab)
    original = os.fsync
    written: list[int] = []

    def fsync(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) > 7:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    done = lab("run", "torch_cpu")
    assert done.exit_code == 4
    assert "No space left on device" in done.stderr
    assert "what was written before is kept" in done.stderr
    assert lab.engine.sessions[0].closed
    monkeypatch.setattr(os, "fsync", original)
    kept = lab.last.latest()
    assert 0 < len(kept) < 3
    assert lab("run", "--resume").exit_code == 0
    assert set(lab.last.latest()) == {MLP, MLP_F16, SUM}


def _interrupted_after_one(job: Job) -> Iterator[Step]:
    yield HELLO
    yield from cell_steps(job.cells[0].id, PASS if "f16" not in job.cells[0].id else XFAIL)
    yield Started(cell=job.cells[1].id)
    yield KeyboardInterrupt()


class TestResume:
    """Runs that were stopped."""

    def test_ctrl_c_keeps_what_finished_and_says_how_to_go_on(self, lab: Lab) -> None:
        lab.engine.script = _interrupted_after_one
        done = lab("run", "torch_cpu")
        assert done.exit_code == 130
        run = lab.last
        assert done.stderr == (
            f"lh-ci: stopped. 1 of 3 cells have a result, kept in .lh/runs/{run.name}. "
            f"Go on with: lh-ci run --resume {run.name}\n"
        )
        assert lab.engine.sessions[0].closed
        assert len(run.latest()) == 1

    def test_a_resumed_run_runs_only_what_has_no_verdict(self, lab: Lab) -> None:
        lab.engine.script = _interrupted_after_one
        lab("run", "torch_cpu")
        finished = set(lab.last.latest())
        play(lab)
        done = lab("run", "--resume")
        assert done.exit_code == 0, done.output
        assert {c.id for c in lab.engine.jobs[-1].cells} == {MLP, MLP_F16, SUM} - finished
        assert len(lab.runs.all()) == 1
        assert "2 pass · 1 xfail" in done.stdout.splitlines()[-1]
        assert "[3/3]" in done.stdout

    def test_after_a_kill_only_files_are_left_and_they_suffice(self, lab: Lab) -> None:
        state, snapshot = lab.tree.root / ".lh", lab.tree.root / "snapshot"

        def script(job: Job) -> Iterator[Step]:
            yield HELLO
            yield from cell_steps(job.cells[0].id, PASS)
            # what SIGKILL would leave: the disk as it is now, no handler run
            shutil.copytree(state, snapshot)
            yield from cell_steps(job.cells[1].id, XFAIL)

        lab.engine.script = script
        lab("run", "torch_cpu", "--retries", "0")
        shutil.rmtree(state)
        snapshot.rename(state)
        assert set(lab.last.latest()) == {MLP}
        play(lab)
        assert lab("run", "--resume").exit_code == 0
        assert [c.id for c in lab.engine.jobs[-1].cells] == [MLP_F16, SUM]
        assert lab.last.unfinished() == ()

    def test_no_file_of_the_attempt_that_was_killed_is_kept(self, lab: Lab) -> None:
        def script(job: Job) -> Iterator[Step]:
            yield HELLO
            yield Started(cell=MLP)
            yield Artifact(cell=MLP, name="ir/05.mlir", data=encode(b"old"))
            yield KeyboardInterrupt()

        lab.engine.script = script
        lab("run", MLP)
        assert (lab.last.artifacts(MLP) / "ir/05.mlir").exists()
        lab.engine.script = Play({MLP: [fail("new trouble")]}, files={"ir/01.mlir": b"new"})
        lab("run", "--resume")
        folder = lab.last.artifacts(MLP)
        assert [p.name for p in folder.rglob("*") if p.is_file()] == ["01.mlir"]

    def test_misses_are_tried_again_and_their_attempts_counted_on(self, lab: Lab) -> None:
        play(lab, mlp=MISS)
        assert lab("run", "torch_cpu", "--retries", "0").exit_code == 4
        play(lab)
        assert lab("run", "--resume").exit_code == 0
        attempts = [(r.attempt, r.status) for r in lab.last.results()[0] if r.cell == MLP]
        assert attempts == [(1, "miss"), (2, "pass")]

    def test_a_damaged_result_is_run_again_under_a_new_number(self, lab: Lab) -> None:
        play(lab)
        lab("run", "torch_cpu")
        (lab.last.folder / "results" / f"{MLP}.1.json").write_text("{")
        done = lab("run", "--resume")
        assert done.exit_code == 0
        assert lab.last.latest()[MLP].attempt == 2

    def test_one_that_was_killed_before_its_end_is_brought_to_it(self, lab: Lab) -> None:
        play(lab, half=fail("new trouble"))
        lab("run", "torch_cpu")
        info = lab.last.info()
        lab.last.write_info(dataclasses.replace(info, ended=None))
        lab.engine.jobs.clear()
        assert lab("run", "--resume").exit_code == 1
        assert lab.engine.jobs == []
        assert lab.last.info().ended is not None
        assert lab("run", "--resume").exit_code == 2

    def test_the_selection_finds_the_run(self, lab: Lab) -> None:
        lab.engine.script = _interrupted_after_one
        lab("run", "torch_cpu")
        first = lab.last.name
        lab("run", "torch_cpu.mlp")
        play(lab)
        assert lab("run", "torch_cpu", "--resume").exit_code == 0
        assert lab.runs.find(first).unfinished() == ()
        assert lab("run", "--resume", "torch_cpu.mlp").exit_code == 0
        done = lab("run", "--resume", "torch_cpu")
        assert done.exit_code == 2
        assert "there is no unfinished run of `torch_cpu`" in done.stderr

    def test_a_named_run_must_fit(self, lab: Lab) -> None:
        play(lab)
        lab("run", SUM)
        name = lab.last.name
        assert f"run {name} is finished" in lab("run", "--resume", name).stderr
        done = lab("run", "torch_cpu", "--resume", name)
        assert done.exit_code == 2
        assert f"run {name} was of `{SUM}`, not of `torch_cpu`" in done.stderr

    def test_it_goes_on_as_it_was_planned(self, lab: Lab) -> None:
        lab.engine.script = _interrupted_after_one
        lab("run", "torch_cpu", "--engine", "venv", "--keep", "always")
        done = lab("run", "--resume", "--keep", "never")
        assert done.exit_code == 2
        assert "--keep cannot be used with --resume" in done.stderr
        play(lab)
        lab("run", "--resume")
        assert lab.asked_for == ["venv", "venv"]
        assert {c.keep for c in lab.engine.jobs[-1].cells} == {"always"}

    def test_a_workload_that_changed_meanwhile_is_refused(self, lab: Lab) -> None:
        lab.engine.script = _interrupted_after_one
        lab("run", SUM, MLP)
        lab.tree.write("recipes/workloads/sum.py", "class Model: ...\ndef get_inputs(): 1\n")
        lab.tree.record("sum", "f32")
        done = lab("run", "--resume")
        assert done.exit_code == 3
        assert "sum.py changed since this run was planned" in done.stderr


def test_an_engine_that_dies_in_the_middle_is_a_miss(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Started(cell=job.cells[0].id)
        yield Exit(code=None, reason="the engine stopped answering")

    lab.engine.script = script
    done = lab("run", SUM)
    assert done.exit_code == 4
    assert f"  miss  {SUM}   build" in done.stdout
    assert "the job ended under this cell: the engine stopped answering" in done.stdout
    assert [r.attempt for r in lab.last.results()[0]] == [1, 2, 3]


def test_no_engine_is_infrastructure(lab: Lab) -> None:
    lab.no_engine = {"auto"}
    done = lab("run", SUM)
    assert done.exit_code == 4
    assert done.stderr == "lh-ci: engine auto does not answer\n"
    assert not lab.runs.all()


def test_an_artifact_for_a_stranger_is_ignored(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield Artifact(cell="../../x", name="a", data="")
        yield from cell_steps(job.cells[0].id, PASS)

    lab.engine.script = script
    done = lab("run", SUM)
    assert done.exit_code == 0
    assert "makes no sense was ignored" in done.stdout
