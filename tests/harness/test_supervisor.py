"""Every way in which a cell can end is that cell's outcome, and touches no other cell."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.harness import supervisor
from orchestrator.harness.child import LAST_WORDS, Child
from orchestrator.job import Contract, Job, Outcome, StageBegan
from tests.harness import fakes

BEFORE_MODEL = "import numpy as np, os, sys, ctypes, time, subprocess\n"


def load_time(statement: str) -> str:
    """A workload that does something while it makes its inputs."""
    return f"{BEFORE_MODEL}{fakes.DOUBLING}\ndef get_inputs():\n    {statement}\n"


def one(folder: Path, source: str, **fields: object) -> Outcome:
    """The outcome of a single bad cell that runs beside a good one."""
    good = fakes.cell(folder)
    bad = fakes.cell(folder, source, name="bad", **fields)
    found = fakes.outcomes(fakes.run(folder, bad, good, workers=2))
    assert found["doubling"].status == "pass", found["doubling"].message
    return found["bad"]


def test_a_good_cell_passes_and_names_all_its_stages(tmp_path: Path) -> None:
    toolchain = fakes.FakeToolchain(passes={"p": lambda ir: ir + " "})
    cell = fakes.cell(tmp_path, recipes=(fakes.recipe("step", "p"),))
    events = fakes.run(tmp_path, cell, toolchain=toolchain)
    outcome = fakes.outcomes(events)["doubling"]
    assert (outcome.status, outcome.message, outcome.golden) == ("pass", "", "computed")
    stages = ["ingress", "lower:step", "codegen", "execute", "compare"]
    assert [s.stage for s in outcome.stages] == stages
    assert {s.exit for s in outcome.stages} == {"ok"}
    marks = [e.stage for e in events if isinstance(e, StageBegan)]
    assert list(dict.fromkeys(marks)) == stages
    assert outcome.peak_memory_bytes > 0


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ValueError('no such layer')", "bad.py:11: ValueError: no such layer"),
        ("sys.exit('I quit')", "bad.py:11: SystemExit: I quit"),
        ("os._exit(7)", "ended with exit code 7 and no verdict while the workload was loaded"),
        ("os._exit(0)", "ended with exit code 0 and no verdict while the workload was loaded"),
        ("ctypes.string_at(0)", "died of SIGSEGV while the workload was loaded"),
        ("os.abort()", "died of SIGABRT while the workload was loaded"),
    ],
)
def test_a_workload_that_dies_is_an_error_of_its_own(
    tmp_path: Path, statement: str, message: str
) -> None:
    outcome = one(tmp_path, load_time(statement))
    assert (outcome.status, outcome.phase) == ("error", "ingress")
    assert outcome.message.startswith(message)


def test_a_workload_that_takes_standard_output_away_still_gets_its_verdict(tmp_path: Path) -> None:
    outcome = one(tmp_path, load_time("sys.stdout = None; raise ValueError('quiet')"))
    assert outcome.message == "bad.py:11: ValueError: quiet"


def test_last_words_are_kept_and_quoted(tmp_path: Path) -> None:
    outcome = one(tmp_path, load_time("print('so long', flush=True); os._exit(3)"))
    assert "its last words: so long" in outcome.message
    assert outcome.last_words == "so long\n"


def test_a_workload_that_loops_for_ever_is_killed_at_its_deadline(tmp_path: Path) -> None:
    outcome = one(tmp_path, load_time("time.sleep(3600)"), timeout_s=0.5)
    assert (outcome.status, outcome.phase) == ("error", "ingress")
    deadline = "no answer within 0.5 s: killed at its deadline"
    assert outcome.message == f"{deadline} while the workload was loaded"
    assert outcome.stages[-1].exit == "timeout"


def test_what_a_killed_workload_started_is_killed_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    outcome = one(
        tmp_path,
        load_time(
            "p = subprocess.Popen(['sleep', '3600']); "
            f"open({str(pid_file)!r}, 'w').write(str(p.pid)); time.sleep(3600)"
        ),
        timeout_s=2.0,
    )
    assert outcome.stages[-1].exit == "timeout"
    assert not _alive(int(pid_file.read_text()))


def test_a_workload_that_eats_memory_meets_its_limit(tmp_path: Path) -> None:
    outcome = one(tmp_path, load_time("return [np.ones(1 << 28)]"), memory_bytes=1 << 30)
    assert (outcome.status, outcome.phase) == ("error", "ingress")
    assert outcome.message == "out of memory (limit 1 GiB)"


def test_a_flood_of_output_is_drained_and_its_end_kept(tmp_path: Path) -> None:
    flood = "for _ in range(100): sys.stdout.write('x' * (1 << 20))"
    outcome = one(tmp_path, load_time(f"{flood}\n    raise ValueError('the end')"))
    assert outcome.message.endswith("ValueError: the end")
    assert len(outcome.last_words) <= LAST_WORDS
    assert "the end" in outcome.last_words
    assert outcome.dropped_bytes > (100 << 20) - LAST_WORDS


def test_a_workload_that_returns_nan_is_an_error(tmp_path: Path) -> None:
    outcome = one(tmp_path, fakes.DOUBLING.replace("2 * x", "x * np.nan"))
    assert outcome.status == "error"
    assert "output 0 is NaN in 4 of 4 elements when the framework itself" in outcome.message


def test_a_workload_without_the_convention_is_an_error(tmp_path: Path) -> None:
    outcome = one(tmp_path, "x = 1\n")
    assert outcome.message == "workloads/bad.py does not define model, get_inputs"


def test_a_constant_can_be_set_before_inputs_are_made(tmp_path: Path) -> None:
    # the fake code doubles four elements only: eight inputs leave four outputs unwritten
    cell = fakes.cell(tmp_path, constants={"SIZE": 8})
    outcome = fakes.outcomes(fakes.run(tmp_path, cell))["doubling"]
    assert outcome.status == "fail"
    assert outcome.errors[0].shape == (8,)


def test_an_unknown_constant_lists_those_there_are(tmp_path: Path) -> None:
    cell = fakes.cell(tmp_path, constants={"BATCH": 8})
    outcome = fakes.outcomes(fakes.run(tmp_path, cell))["doubling"]
    message = "workloads/doubling.py has no constant `BATCH` to set. It has: SIZE"
    assert outcome.message == message


def test_an_output_that_nobody_wrote_cannot_pass(tmp_path: Path) -> None:
    toolchain = fakes.FakeToolchain(kernel=lambda _: None)
    events = fakes.run(tmp_path, fakes.cell(tmp_path), toolchain=toolchain)
    outcome = fakes.outcomes(events)["doubling"]
    assert (outcome.status, outcome.phase) == ("fail", "compare")
    assert outcome.errors[0].mismatches == 4


def test_code_that_overwrites_its_argument_fails(tmp_path: Path) -> None:
    def clobber(descriptors: Sequence[int]) -> None:
        fakes.double(descriptors)
        fakes.vector(descriptors[0], 4)[0] = 9

    events = fakes.run(
        tmp_path, fakes.cell(tmp_path), toolchain=fakes.FakeToolchain(kernel=clobber)
    )
    outcome = fakes.outcomes(events)["doubling"]
    assert (outcome.status, outcome.phase) == ("fail", "execute")
    assert outcome.message == "the compiled code overwrote its argument 0"


def _crash(_: object) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return ""


def test_a_pass_that_crashes_is_the_compilers_fault_at_that_recipe(tmp_path: Path) -> None:
    toolchain = fakes.FakeToolchain(passes={"ok": lambda ir: ir, "crash": _crash})
    recipes = (fakes.recipe("first", "ok"), fakes.recipe("second", "crash"))
    cells = [
        fakes.cell(tmp_path, name=name, recipes=recipes[:count])
        for name, count in (("bad", 2), ("good", 1))
    ]
    found = fakes.outcomes(fakes.run(tmp_path, *cells, toolchain=toolchain))
    assert found["good"].status == "pass"
    assert (found["bad"].status, found["bad"].phase) == ("fail", "lower:second")
    assert found["bad"].message == "died of SIGSEGV"
    assert found["bad"].stages[-1].exit == "signal SIGSEGV"


def _taken(_: object) -> str:
    os.kill(os.getpid(), signal.SIGKILL)  # stands for the kernel, when memory runs out
    return ""


def test_a_cell_that_is_killed_from_outside_has_no_verdict(tmp_path: Path) -> None:
    toolchain = fakes.FakeToolchain(passes={"taken": _taken})
    cell = fakes.cell(tmp_path, recipes=(fakes.recipe("first", "taken"),))
    outcome = fakes.outcomes(fakes.run(tmp_path, cell, toolchain=toolchain))["doubling"]
    assert (outcome.status, outcome.phase) == ("miss", "lower:first")
    assert outcome.message == (
        "the cell was killed from outside (SIGKILL), most likely because memory ran out"
    )
    assert outcome.stages[-1].exit == "signal SIGKILL"


def test_a_machine_that_stood_still_costs_no_cell_its_time(tmp_path: Path) -> None:
    cell = fakes.cell(tmp_path)
    job = Job(id="job", stack="fake", pool="here", cells=(cell,))
    one = supervisor.Supervisor(job, tmp_path, {}, fakes.FakeToolchain(), print)
    child = Child(cell=cell, pid=0, scratch=tmp_path, deadline=130.0, began=100.0)
    one.children, one.looked = {0: child}, 100.0
    one._excuse(104.0)
    assert child.deadline == 130.0
    one._excuse(3704.0)
    assert child.deadline == 3730.0


def test_a_pass_that_hangs_is_the_compilers_fault(tmp_path: Path) -> None:
    def hang(ir: str) -> str:
        time.sleep(3600)
        return ir

    cell = fakes.cell(tmp_path, recipes=(fakes.recipe("slow", "hang"),), timeout_s=1.0)
    events = fakes.run(tmp_path, cell, toolchain=fakes.FakeToolchain(passes={"hang": hang}))
    outcome = fakes.outcomes(events)["doubling"]
    assert (outcome.status, outcome.phase) == ("fail", "lower:slow")


def test_a_broken_contract_names_the_recipe(tmp_path: Path) -> None:
    recipes = (fakes.recipe("gone", "same", contract=Contract(absent=("fake",))),)
    cell = fakes.cell(tmp_path, recipes=recipes)
    toolchain = fakes.FakeToolchain(passes={"same": lambda ir: ir})
    outcome = fakes.outcomes(fakes.run(tmp_path, cell, toolchain=toolchain))["doubling"]
    assert (outcome.status, outcome.phase) == ("fail", "lower:gone")
    assert outcome.message == "gone left fake.double (1) behind (its contract: gone)"


@pytest.mark.parametrize(
    ("keep", "good", "bad"),
    [("never", False, False), ("failed", False, True), ("always", True, True)],
)
def test_the_ir_of_every_stage_is_kept_as_asked(
    tmp_path: Path, keep: str, good: bool, bad: bool
) -> None:
    toolchain = fakes.FakeToolchain(passes={"ok": lambda ir: ir + "!", "crash": _crash})
    for passes, expected in ((("ok",), good), (("ok", "crash"), bad)):
        recipes = tuple(fakes.recipe(p, p) for p in passes)
        cell = fakes.cell(tmp_path, recipes=recipes, keep=keep)
        kept = fakes.artifacts(fakes.run(tmp_path, cell, toolchain=toolchain))
        assert ("ir/01-ok.mlir" in kept) is expected
        if expected:
            data = zlib.decompress(base64.b64decode(kept["ir/01-ok.mlir"].data))
            assert data == b'"fake.double"() : () -> ()!'


def test_recording_sends_the_frameworks_outputs_back(tmp_path: Path) -> None:
    kept = fakes.artifacts(fakes.run(tmp_path, fakes.cell(tmp_path), mode="record"))
    assert set(kept) == {"golden.npz", "golden.json"}
    assert b"numpy@f64" in zlib.decompress(base64.b64decode(kept["golden.json"].data))


def test_a_workload_cannot_reach_the_event_stream(tmp_path: Path) -> None:
    stream = os.open(tmp_path / "stream", os.O_WRONLY | os.O_CREAT)
    os.set_inheritable(stream, True)
    try:
        outcome = one(tmp_path, load_time(f"os.write({stream}, b'forged')"))
    finally:
        os.close(stream)
    assert "OSError" in outcome.message
    assert (tmp_path / "stream").read_bytes() == b""


def test_leaving_early_kills_what_runs(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import pathlib, sys\n"
        "from tests.harness import fakes\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "source = fakes.DOUBLING.replace('return [', "
        '\'import os, time; open("pid", "w").write(str(os.getpid())); '
        "print(os.getcwd(), flush=True); time.sleep(3600); return [')\n"
        "cell = fakes.cell(folder, source)\n"
        "import orchestrator.harness.supervisor as s\n"
        "original = s.Supervisor._enforce\n"
        "def enforce(self):\n"
        "    original(self)\n"
        "    for child in self.children.values():\n"
        "        if (child.scratch / 'pid').exists():\n"
        "            print(child.pid, child.scratch, flush=True)\n"
        "            raise KeyboardInterrupt\n"
        "s.Supervisor._enforce = enforce\n"
        "fakes.run(folder, cell)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert "KeyboardInterrupt" in done.stderr
    pid, scratch = done.stdout.split()
    assert not _alive(int(pid))
    assert not Path(scratch).exists()


LEAVE = """
import os, signal, subprocess, tempfile, time
tempfile.mkdtemp(prefix="python-")
subprocess.run(["mktemp"], check=True, stdout=subprocess.DEVNULL)  # of the C library's users
"""
ENDS = {
    "return": (0, "pass"),
    "os._exit(7)": (0, "error"),
    "time.sleep(3600)": (0, "error"),
    "os.kill(os.getppid(), signal.SIGTERM); time.sleep(3600)": (143, ""),
}
MAIN = """
import json, os, pathlib, sys, tempfile
from orchestrator import records
from orchestrator.harness import __main__ as harness
from orchestrator.job import Job
from tests.harness import fakes

def warm_up(job):
    tempfile.mkdtemp(prefix="frontend-")
    return {"numpy": fakes.NumpyIngress()}, fakes.FakeToolchain(), {}

folder = pathlib.Path(sys.argv[1])
cell = fakes.cell(folder, sys.argv[2], timeout_s=float(sys.argv[3]))
job = Job(id="job", stack="fake", pool="here", cells=(cell,))
(folder / "job.json").write_text(records.dumps(job))
harness._warm_up = warm_up
sys.exit(harness.main(["harness", str(folder)]))
"""


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, end: str) -> None:
    body = f"\ndef leave():\n    {end}\nleave()\n"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    source = fakes.DOUBLING + LEAVE + body
    deadline = "1" if end.startswith("time.sleep") else "60"
    done = subprocess.run(
        [sys.executable, "-c", MAIN, str(tmp_path), source, deadline],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(temporary)},
    )
    code, status = ENDS[end]
    assert done.returncode == code, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    statuses = [event["outcome"]["status"] for event in events if event["event"] == "done"]
    assert statuses == ([status] if status else [])
    assert list(temporary.iterdir()) == []


def _alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
