"""Asking programs that may not come back, with real processes."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.health import programs
from orchestrator.health.programs import Programs, Said

pytestmark = pytest.mark.process


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched first."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def write(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_what_a_program_says(tools: Path) -> None:
    write(tools, "fake-smi", 'echo "$1 $LC_ALL"; echo err >&2; printf "\\377"; exit 15')
    assert Programs().ask(["fake-smi", "-q"], 30.0) == Said(
        end="exit", code=15, text="-q C\nerr\n\ufffd"
    )


def test_a_program_that_is_not_there() -> None:
    assert Programs().ask(["no-such-smi"], 1.0).end == "missing"


def test_a_program_that_cannot_be_started(tools: Path) -> None:
    (tools / "broken-smi").write_text("#!/no/such/interpreter\n")
    (tools / "broken-smi").chmod(0o755)
    said = Programs().ask(["broken-smi"], 1.0)
    assert (said.end, said.code) == ("exit", 127)
    assert said.text.startswith("broken-smi: ")


@pytest.fixture
def late(tools: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Limits pass as soon as a program has written its process ids to the pipe `ready`."""
    os.mkfifo(tools / "ready")
    pids: list[int] = []

    def communicate(process: subprocess.Popen[str], timeout: float) -> None:
        pids.extend(map(int, (tools / "ready").read_text().split()))
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    return pids


def gone(pid: int) -> bool:
    """Dead, if only init has not reaped it yet."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(happened: Callable[[], bool]) -> None:
    """A signal is on its way for a while on a busy machine; fails when it never arrives."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_slow_program_is_killed_with_all_that_it_started(
    tools: Path, late: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tools, "slow-smi", f"sleep 1000 & echo $! $$ > {tools}/ready; wait")
    asked = Programs()
    assert asked.ask(["slow-smi"], 15.0).end == "slow"
    child, own = late
    assert not alive(own)
    wait_for(lambda: gone(child))
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    # nothing is left behind, so the next question is asked
    write(tools, "fake-smi", "echo well")
    assert asked.ask(["fake-smi"], 30.0).text == "well\n"


def test_a_program_that_cannot_be_killed_is_left_behind_and_blocks_no_one(
    tools: Path, late: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tools, "stuck-smi", f"echo $$ > {tools}/ready; exec sleep 1000")
    really_kill = programs._kill
    monkeypatch.setattr(programs, "_kill", lambda process: None)
    asked = Programs(end_s=0.1)
    assert asked.ask(["stuck-smi"], 15.0).end == "stuck"
    (process,) = programs._LEFT_BEHIND
    assert late == [process.pid]
    # it is not asked again while the first one sleeps
    assert asked.ask(["stuck-smi"], 15.0).end == "stuck"
    assert late == [process.pid]
    really_kill(process)
    process.wait()
    assert asked.ask(["no-such-smi"], 15.0).end == "missing"
    assert programs._LEFT_BEHIND == []


def test_a_question_can_be_ended_from_another_thread(tools: Path) -> None:
    os.mkfifo(tools / "ready")
    write(tools, "slow-smi", f"echo $$ > {tools}/ready; exec sleep 1000")
    asked = Programs()
    said: list[Said] = []
    thread = threading.Thread(target=lambda: said.append(asked.ask(["slow-smi"], 600.0)))
    thread.start()
    pid = int((tools / "ready").read_text())
    asked.stop()
    thread.join()
    assert [(s.end, s.code) for s in said] == [("exit", -9)]
    assert not alive(pid)
    assert asked.ask(["slow-smi"], 600.0).end == "missing"
