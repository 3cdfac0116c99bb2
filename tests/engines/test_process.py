"""Jobs as processes of this machine: a fake harness below the real guard."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from orchestrator import engines
from orchestrator.engines import guard
from orchestrator.engines.base import Environment, Exit
from orchestrator.engines.owner import Owner
from orchestrator.engines.process import ProcessSession
from orchestrator.engines.venv import VenvEngine
from orchestrator.errors import InfrastructureError
from orchestrator.job import Broken, Event, Job, Started
from orchestrator.settings import Settings

JOB = Job(id="run.pytorch.intel-cpu", stack="pytorch", pool="intel-cpu", cells=())
PATIENCE_S = 60.0
"""For what happens at once, when the machine is not overloaded."""
PRELUDE = """\
import json, os, resource, signal, subprocess, sys, time
from pathlib import Path

def say(message):
    print(json.dumps({"event": "broken", "message": json.dumps(message)}), flush=True)

def sleeper(**options):
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **options).pid
"""


@pytest.fixture
def job_dir(tmp_path: Path) -> Path:
    (tmp_path / "job" / "orchestrator" / "harness").mkdir(parents=True)
    for folder in ("orchestrator", "orchestrator/harness"):
        (tmp_path / "job" / folder / "__init__.py").touch()
    return tmp_path / "job"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A stack whose Python is the one that runs the tests."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    return Environment(
        stack="pytorch",
        engine="venv",
        reference=str(tmp_path / "venv"),
        digest="",
        cached=True,
        facts={"llvm_prefix": "/usr/lib/llvm-22"},
    )


@pytest.fixture
def engine(tmp_path: Path) -> VenvEngine:
    return VenvEngine(tmp_path, Settings(scratch_bytes=1 << 20))


def harness(job_dir: Path, text: str) -> None:
    (job_dir / "orchestrator" / "harness" / "__main__.py").write_text(PRELUDE + text)


def first_words(session: ProcessSession) -> Mapping[str, object]:
    """What the fake harness says first."""
    event = next(e for e in session.events(PATIENCE_S) if e is not None)
    assert isinstance(event, Broken), (event, session.exit())
    return dict(json.loads(event.message))


def rest(session: ProcessSession) -> list[Event]:
    """All events to the end, which must not keep one waiting."""
    events: list[Event] = []
    for event in session.events(PATIENCE_S):
        assert event is not None, "it does not end"
        events.append(event)
    return events


def ran(engine: VenvEngine, job_dir: Path, environment: Environment) -> Exit:
    with engine.start(JOB, job_dir, environment) as session:
        rest(session)
        return session.exit()


def scratch_folders(tmp_path: Path) -> list[Path]:
    return list((tmp_path / ".lh" / "scratch").iterdir())


@contextlib.contextmanager
def watched(pid: int) -> Iterator[int]:
    """A descriptor that is readable once the process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def ends(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], PATIENCE_S)[0])


# --- while it runs --------------------------------------------------------------------------------


def test_events_come_as_they_are_said(
    engine: VenvEngine, job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    harness(
        job_dir,
        'print(\'{"event": "started", "cell": "a"}\', flush=True)\n'
        'print("not an event")\n'
        'print("a warning", file=sys.stderr)\n',
    )
    with engine.start(JOB, job_dir, environment) as session:
        assert rest(session) == [Started(cell="a")]
        end = session.exit()
        assert session.argv[1:] == ("-m", "orchestrator.harness", str(job_dir))
    assert (end.code, end.reason) == (0, "exit 0")
    assert sorted(end.stderr_tail.splitlines()) == ["a warning", "not an event"]
    assert scratch_folders(tmp_path) == []


def test_it_sees_nothing_of_ours(
    engine: VenvEngine,
    job_dir: Path,
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LH_BASE_IMAGE", "secret")
    monkeypatch.setenv("MY_TOKEN", "secret")
    harness(job_dir, 'say({"environ": dict(os.environ), "cwd": os.getcwd(), "path": sys.path})')
    with engine.start(JOB, job_dir, environment) as session:
        words = first_words(session)
    environ, cwd = words["environ"], words["cwd"]
    assert isinstance(environ, dict)
    assert set(environ) - {"LC_CTYPE"} == {
        *("PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONNOUSERSITE"),
        *("PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
        *("MKL_NUM_THREADS", "LH_LLVM_PREFIX"),
    }
    assert environ["HOME"] == environ["TMPDIR"] == cwd
    assert environ["LH_LLVM_PREFIX"] == "/usr/lib/llvm-22"
    assert isinstance(words["path"], list)
    assert words["path"][0] == str(job_dir)


def test_limits_are_as_recorded(
    engine: VenvEngine, job_dir: Path, environment: Environment
) -> None:
    harness(
        job_dir,
        "say({'core': resource.getrlimit(resource.RLIMIT_CORE)[0],\n"
        "     'file': resource.getrlimit(resource.RLIMIT_FSIZE)[0],\n"
        "     'interfaces': sorted(os.listdir('/sys/class/net')),\n"
        "     'routes': Path('/proc/net/route').read_text().count('\\n'),\n"
        "     'stdin': sys.stdin.read(), 'group': os.getpgid(0), 'session': os.getsid(0)})\n",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        with engine.start(JOB, job_dir, environment) as session:
            words = first_words(session)
            isolation = session.isolation
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert (words["core"], words["file"], words["stdin"]) == (0, 1 << 20, "")
    assert words["session"] != os.getsid(0)
    assert not isolation.contained
    assert isolation.limits == {"core_bytes": 0, "file_bytes": 1 << 20}
    assert isolation.network in {"host", "none"}
    if isolation.network == "none":
        assert words["routes"] in {0, 1}, "only the table's heading"


def test_silence_ticks(engine: VenvEngine, job_dir: Path, environment: Environment) -> None:
    harness(job_dir, "say({})\ntime.sleep(600)")
    with engine.start(JOB, job_dir, environment) as session:
        first_words(session)
        assert next(session.events(0.001)) is None


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("sys.exit(3)", 3, "exit 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "killed by SIGSEGV"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            -9,
            "killed by SIGKILL (most likely the machine ran out of memory)",
        ),
        ("os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)", None, "the process that guards"),
    ],
)
def test_how_it_ended_is_told(
    engine: VenvEngine,
    job_dir: Path,
    environment: Environment,
    tmp_path: Path,
    text: str,
    code: int | None,
    reason: str,
) -> None:
    harness(job_dir, text)
    end = ran(engine, job_dir, environment)
    assert end.code == code
    assert end.reason.startswith(reason)
    assert scratch_folders(tmp_path) == []


def test_a_traceback_of_the_harness_is_kept(
    engine: VenvEngine, job_dir: Path, environment: Environment
) -> None:
    harness(job_dir, "raise RuntimeError('the harness is broken')")
    end = ran(engine, job_dir, environment)
    assert end.code == 1
    assert end.stderr_tail.endswith("RuntimeError: the harness is broken\n")


def test_processes_left_by_a_job_that_ended_are_ended(
    engine: VenvEngine, job_dir: Path, environment: Environment
) -> None:
    harness(job_dir, "say({'pid': sleeper(start_new_session=True)})")
    with engine.start(JOB, job_dir, environment) as session:
        pid = first_words(session)["pid"]
        rest(session)
        assert session.exit().reason == "exit 0"
        assert not Path(f"/proc/{pid}").exists()


def test_processes_are_ended_even_if_the_guard_dies(
    engine: VenvEngine, job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    harness(
        job_dir,
        "pid = sleeper(start_new_session=True, stdout=subprocess.DEVNULL, stderr=2)\n"
        "say({'pid': pid, 'guard': os.getppid()})\ntime.sleep(600)",
    )
    with contextlib.ExitStack() as stack:
        with engine.start(JOB, job_dir, environment) as session:
            words = first_words(session)
            assert isinstance(words["pid"], int)
            assert isinstance(words["guard"], int)
            left = stack.enter_context(watched(words["pid"]))
            os.kill(words["guard"], signal.SIGKILL)
        assert ends(left)
    assert scratch_folders(tmp_path) == []


def test_kill_ends_every_process(
    engine: VenvEngine, job_dir: Path, environment: Environment
) -> None:
    harness(
        job_dir,
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "say({'pids': [sleeper(), sleeper(start_new_session=True), os.getpid()]})\n"
        "time.sleep(600)",
    )
    with engine.start(JOB, job_dir, environment) as session:
        pids = first_words(session)["pids"]
        session.kill()
        session.kill()
        rest(session)
        end = session.exit()
    assert isinstance(pids, list)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert (end.code, end.reason) == (None, "killed by the orchestrator")


def test_leaving_ends_it(
    engine: VenvEngine, job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    harness(
        job_dir,
        "Path('closed').mkdir()\nPath('closed', 'file').touch()\nPath('closed').chmod(0)\n"
        "say({'pid': os.getpid()})\ntime.sleep(600)",
    )
    with engine.start(JOB, job_dir, environment) as session:
        pid = first_words(session)["pid"]
    assert not Path(f"/proc/{pid}").exists()
    assert scratch_folders(tmp_path) == []
    assert session.exit().reason == "killed by the orchestrator"


def test_a_job_that_prints_without_end_can_be_left(
    engine: VenvEngine, job_dir: Path, environment: Environment
) -> None:
    harness(job_dir, "say({})\nwhile True: print('x' * 65536)")
    with engine.start(JOB, job_dir, environment) as session:
        first_words(session)


def test_a_job_that_cannot_be_started(
    engine: VenvEngine, job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    gone = dataclasses.replace(environment, reference=str(tmp_path / "gone"))
    with pytest.raises(InfrastructureError, match=r"could not be started: .*No such file"):
        engine.start(JOB, job_dir, gone)
    assert scratch_folders(tmp_path) == []


def test_no_room_for_a_scratch_folder(
    engine: VenvEngine, job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / ".lh").write_text("a file where a folder should be")
    with pytest.raises(InfrastructureError, match=r"\.lh/scratch: Not a directory"):
        engine.start(JOB, job_dir, environment)


def test_it_ends_when_the_orchestrator_is_killed(
    job_dir: Path, environment: Environment, tmp_path: Path
) -> None:
    harness(
        job_dir,
        "say({'pids': [os.getppid(), os.getpid(), sleeper(start_new_session=True)]})\n"
        "time.sleep(600)",
    )
    orchestrator = f"""
import sys
sys.path.insert(0, {str(Path(engines.__file__).parents[2])!r})
from pathlib import Path
from orchestrator.engines.base import Environment
from orchestrator.engines.venv import VenvEngine
from orchestrator.job import Job
from orchestrator.settings import Settings
engine = VenvEngine(Path({str(tmp_path)!r}), Settings())
job = Job(id="job", stack="pytorch", pool="p", cells=())
environment = Environment(stack="pytorch", engine="venv", reference={environment.reference!r},
                          digest="", cached=True, facts={{}})
session = engine.start(job, Path({str(job_dir)!r}), environment)
for event in session.events(1):
    if event:
        print(event.message, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", orchestrator], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        with contextlib.ExitStack() as stack:
            descriptors = [stack.enter_context(watched(pid)) for pid in said["pids"]]
            process.kill()
            assert all(map(ends, descriptors))
    assert scratch_folders(tmp_path) == [], "the guard removes it before it ends"


# --- what dead orchestrators left -----------------------------------------------------------------


def test_sweep_ends_and_removes_what_the_dead_left_and_nothing_else(
    engine: VenvEngine, tmp_path: Path
) -> None:
    dead, alive, strange = (tmp_path / ".lh" / "scratch" / n for n in ("dead", "alive", "strange"))
    for folder in (dead, alive, strange):
        (folder / "work").mkdir(parents=True)
    (alive / "owner.json").write_text(Owner.current().dumps())
    (dead / "owner.json").write_text(dataclasses.replace(Owner.current(), start=1).dumps())
    sleep = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
    with (
        subprocess.Popen(sleep, env={"HOME": str(dead / "work")}, stdout=subprocess.PIPE) as lost,
        subprocess.Popen(sleep, env={"HOME": str(alive / "work")}, stdout=subprocess.PIPE) as kept,
    ):
        for process in (lost, kept):
            assert process.stdout is not None
            process.stdout.readline()
        assert engine.sweep() == (f"process {lost.pid}", str(dead))
        assert lost.wait(PATIENCE_S) == -signal.SIGKILL
        assert kept.poll() is None
        kept.kill()
    assert sorted(f.name for f in scratch_folders(tmp_path)) == ["alive", "strange"]


def test_sweep_of_a_fresh_workspace(engine: VenvEngine) -> None:
    assert engine.sweep() == ()


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({}, False),
        ({"start": 1}, True),
        ({"pid": 2**22 + 1}, True),
        ({"boot": "another"}, True),
        ({"host": "another", "boot": "another"}, False),
        ({"namespace": "pid:[1]", "start": 1}, False),
    ],
)
def test_an_owner_is_gone_only_when_that_is_certain(
    changes: Mapping[str, str | int], gone: bool
) -> None:
    owner = dataclasses.replace(Owner.current(), **changes)  # type: ignore[arg-type]
    assert Owner.parse(owner.dumps()) == owner
    assert owner.gone() is gone


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}'])
def test_what_is_no_owner(text: str) -> None:
    assert Owner.parse(text) is None


def test_descendants_are_found_at_any_depth() -> None:
    sleep = "print(flush=True); import time; time.sleep(600)"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = guard.descendants(os.getpid())
        assert found.index(child.pid) < len(found) - 1
        for pid in guard.descendants(child.pid):
            os.kill(pid, signal.SIGKILL)
        child.kill()
