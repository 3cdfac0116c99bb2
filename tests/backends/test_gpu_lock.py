"""One job at a time on a machine's GPU, whoever else works there."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator import records
from orchestrator.backends import gpu_lock
from orchestrator.backends.clock import Clock
from orchestrator.backends.gpu_lock import MORE_S, UNKNOWN_S, BusyError, turn, usual_folder
from orchestrator.errors import InfrastructureError
from orchestrator.job import Job
from tests.backends.gpus import Lab, gpu_job, last
from tests.backends.samples import Notebook
from tests.fakes import FakeTime, Play

FILE = "lighthouse-gpu-nvidia.lock"
MINE, THEIRS = gpu_job("a", name="mine"), gpu_job("b", "c", name="theirs")
"""Of one minute, and of two."""


@contextlib.contextmanager
def taken(folder: Path, job: Job, time: FakeTime) -> Iterator[gpu_lock.Turn]:
    """Somebody who waits for nobody."""
    with turn(
        folder,
        job.id,
        "nvidia",
        limit_s=60.0 * len(job.cells),
        clock=time.clock(),
        note=pytest.fail,
        enough=lambda: False,
    ) as found:
        yield found


def waiting(
    folder: Path, time: FakeTime, step: Callable[[], None], enough: Callable[[], bool]
) -> tuple[gpu_lock.Turn, list[str]]:
    """Ours, after each pause of which something happens; what was told."""

    def sleep(seconds: float) -> None:
        time.advance(seconds)
        step()

    clock: Clock = dataclasses.replace(time.clock(), sleep=sleep)
    notes: list[str] = []
    with turn(
        folder, "mine", "nvidia", limit_s=60.0, clock=clock, note=notes.append, enough=enough
    ) as found:
        return found, notes


def test_the_lock_is_waited_for_and_that_is_told_once(tmp_path: Path) -> None:
    time = FakeTime()
    other = contextlib.ExitStack()
    other.enter_context(taken(tmp_path, THEIRS, time))

    def step() -> None:
        if time.seconds > 1100:
            other.close()

    found, notes = waiting(tmp_path, time, step, lambda: False)
    assert (found.ours, found.after_death) == (True, False)
    (note,) = notes
    assert f"process {os.getpid()} (job theirs, since 2026-11-20 21:04:11 UTC); waiting" in note
    assert 1100 < time.seconds < 1110


def test_every_new_holder_is_told(tmp_path: Path) -> None:
    time = FakeTime()
    others = [contextlib.ExitStack(), contextlib.ExitStack()]
    others[0].enter_context(taken(tmp_path, THEIRS, time))
    left = [lambda: None, others[0].close, others[1].close]

    def step() -> None:
        left.pop(0)()
        if len(left) == 1:
            others[1].enter_context(taken(tmp_path, gpu_job("d", name="third"), time))

    _, notes = waiting(tmp_path, time, step, lambda: False)
    assert ["theirs" in notes[0], "third" in notes[1], len(notes)] == [True, True, 2]


def test_waiting_ends_when_it_is_enough(tmp_path: Path) -> None:
    time = FakeTime()
    with taken(tmp_path, THEIRS, time):
        found, _ = waiting(tmp_path, time, lambda: None, lambda: time.seconds > 1050)
    assert not found.ours


def test_a_holder_that_hangs_is_told_with_its_process(tmp_path: Path) -> None:
    time = FakeTime()
    with taken(tmp_path, THEIRS, time), pytest.raises(BusyError) as caught:
        waiting(tmp_path, time, lambda: None, lambda: False)
    assert f"process {os.getpid()} (job theirs" in str(caught.value)
    assert f"whose job may take 17 min 00 s: it hangs. Look at process {os.getpid()}" in str(
        caught.value
    )
    assert str(caught.value).endswith(f"kill {os.getpid()}")
    assert time.seconds - 1000 == pytest.approx(120 + MORE_S, abs=5)


@pytest.mark.parametrize("text", ["", "{", '{"pid": "one"}', "[" * 400])
def test_who_does_not_say_who_it_is_is_waited_for_long(tmp_path: Path, text: str) -> None:
    time = FakeTime()
    with taken(tmp_path, THEIRS, time):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(BusyError, match="a process that does not say who it is, for more than"):
            waiting(tmp_path, time, lambda: None, lambda: False)
    assert time.seconds - 1000 == pytest.approx(UNKNOWN_S, abs=5)


def test_vendors_do_not_wait_for_each_other(tmp_path: Path) -> None:
    time = FakeTime()
    with (
        taken(tmp_path, THEIRS, time),
        turn(
            tmp_path,
            "mine",
            "amd",
            limit_s=60.0,
            clock=time.clock(),
            note=pytest.fail,
            enough=lambda: False,
        ) as found,
    ):
        assert found.ours


def test_everybody_may_take_it_whoever_made_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with taken(tmp_path, MINE, FakeTime()):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o666
    with taken(tmp_path, MINE, FakeTime()) as found:
        assert found == gpu_lock.Turn(ours=True)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "precious")
    with (
        pytest.raises(InfrastructureError, match="LH_LOCKS names a folder"),
        taken(tmp_path, MINE, FakeTime()),
    ):
        pass
    assert not (tmp_path / "precious").exists()


def test_the_usual_folder_is_there() -> None:
    assert usual_folder().is_dir()


HOLD = """
import sys
from pathlib import Path
from orchestrator.backends.clock import Clock
from orchestrator.backends.gpu_lock import turn
folder, clock = Path(sys.argv[1]), Clock()
with turn(
    folder, "theirs", "nvidia", limit_s=60.0, clock=clock, note=print, enough=lambda: False
):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_death_lets_go_of_it_and_is_seen(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "mine\n"
            other.send_signal(signal.SIGSTOP)
            os.waitpid(other.pid, os.WUNTRACED)
            with pytest.raises(BusyError, match=f"it hangs .it was stopped.*kill {other.pid}"):
                _late(tmp_path)
        finally:
            other.kill()
            other.wait()
        with taken(tmp_path, MINE, FakeTime()) as found:
            assert found == gpu_lock.Turn(ours=True, after_death=True)


def _late(folder: Path) -> None:
    """Waits, in a time that is years after now."""
    time = FakeTime()
    time.advance(1e9)
    waiting(folder, time, lambda: None, lambda: False)


class TestJobs:
    """Jobs that run here take it."""

    def test_a_job_has_it_while_it_runs_and_not_after(self, lab: Lab, tmp_path: Path) -> None:
        seen: list[bool] = []
        play = Play()

        def script(job: Job) -> Iterator[object]:
            seen.append('"job": "run.gpu"' in (tmp_path / FILE).read_text())
            yield from play(job)

        lab.engine.script = script  # type: ignore[assignment]
        told = lab.run(gpu_job("a"), locks=tmp_path)
        assert seen == [True]
        assert last(told, "a").status == "pass"
        with taken(tmp_path, MINE, FakeTime()) as found:
            assert not found.after_death

    def test_one_that_hangs_is_a_miss_of_every_cell_and_nothing_starts(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        with taken(tmp_path, THEIRS, lab.engine.time):
            told = lab.run(gpu_job("a", "b"), locks=tmp_path)
        assert [(a.outcome.status, a.final) for a in told.attempts] == [("miss", True)] * 2
        assert f"kill {os.getpid()}" in last(told, "a").message
        assert lab.engine.jobs == []
        assert any("waiting for it" in note for note in told.notes)

    def test_enough_ends_the_waiting(self, lab: Lab, tmp_path: Path) -> None:
        notebook = Notebook()
        with taken(tmp_path, THEIRS, lab.engine.time):

            def note(line: str) -> None:
                notebook.stop_after = 0

            notebook.note = note  # type: ignore[method-assign]
            told = lab.run(gpu_job("a"), notebook=notebook, locks=tmp_path)
        assert told.attempts == []

    def test_what_the_dead_left_is_removed_before_the_gpu_is_used(
        self, lab: Lab, tmp_path: Path
    ) -> None:
        left = gpu_lock.Holder(pid=1, job="dead", since=0.0, until=1.0)
        (tmp_path / FILE).write_text(records.dumps(left))
        lab.engine.left_behind = ("container lh-dead",)
        told = lab.run(gpu_job("a"), locks=tmp_path)
        assert "left on the GPU by one who died, now removed: container lh-dead" in told.notes
        assert last(told, "a").status == "pass"

    def test_a_job_without_a_gpu_needs_none(self, lab: Lab, tmp_path: Path) -> None:
        lab.run(dataclasses.replace(gpu_job("a"), device=""), locks=tmp_path)
        assert list(tmp_path.iterdir()) == []
