"""A vendor's tool that hangs beside a job, with real threads and real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.backends.base import Attempt
from orchestrator.health.evidence import Vendor
from orchestrator.health.look import Looker
from orchestrator.health.monitor import Monitor, ThreadMonitor
from orchestrator.job import Job, StageBegan, Started
from tests.backends.samples import Notebook, job, run
from tests.fakes import HELLO, FakeEngine, Play, Step, Wait

pytestmark = pytest.mark.process

SMI = """#!/bin/sh
echo $$ >> {folder}/pids
[ -e {folder}/hang ] && exec sleep 1000
echo "00000000:65:00.0, 0, 0, [N/A], No, None"
"""


class Machine:
    """A machine whose `nvidia-smi` hangs while there is a file `hang`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "kmsg").write_text("")
        (folder / "pids").write_text("")
        (folder / "nvidia-smi").write_text(SMI.format(folder=folder))
        (folder / "nvidia-smi").chmod(0o755)
        self.engine = FakeEngine()

    def monitor(self, vendor: Vendor) -> Monitor:
        def now() -> float:
            return self.engine.time.seconds

        # who hangs is not waited for; who does not gets all the time of a slow test machine
        limit = 0.2 if (self.folder / "hang").exists() else 120.0
        kmsg = self.folder / "kmsg"
        looker = Looker(vendor, now, kmsg=kmsg, drm=self.folder / "drm", ask_s=limit)
        return ThreadMonitor(looker, now)

    def leftovers(self) -> list[str]:
        pids = (self.folder / "pids").read_text().split()
        found = []
        for pid in pids:
            with contextlib.suppress(FileNotFoundError):
                found.append(Path(f"/proc/{pid}/comm").read_text())
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return Machine(tmp_path)


def looked() -> None:
    """Until the look that is under way has ended."""
    for thread in threading.enumerate():
        if thread.name == "lh-health":
            thread.join()


def test_a_hung_tool_costs_the_running_cell_an_attempt_and_no_other_cell(
    machine: Machine,
) -> None:
    (machine.folder / "hang").touch()

    def script(each: Job) -> Iterator[Step]:
        if len(machine.engine.jobs) > 1:
            yield from Play()(each)
            return
        yield HELLO
        yield Started(cell="a")
        yield StageBegan(cell="a", stage="execute")
        while True:
            looked()
            yield Wait(5.0)

    class Healing(Notebook):
        """The driver comes back when the job is gone."""

        def attempted(self, attempt: Attempt) -> None:
            (machine.folder / "hang").unlink(missing_ok=True)
            super().attempted(attempt)

    machine.engine.script = script
    gpu_job = dataclasses.replace(job("a", "b"), device="nvidia")
    told = run(machine.engine, gpu_job, notebook=Healing(), monitors=machine.monitor)
    assert told.attempts[0].outcome.message == (
        "GPU fault seen from outside: nvidia-smi gave no answer within 0.2 s, twice in a row"
    )
    assert told.story() == [
        ("a", 1, "miss", False),
        ("b", 1, "pass", True),
        ("a", 2, "pass", True),
    ]
    assert told.attempts[0].seconds <= 60.0
    assert told.notes[-1].startswith("the NVIDIA GPU answers again")
    assert machine.leftovers() == []
    assert not [each for each in threading.enumerate() if each.name == "lh-health"]


def test_a_tool_that_answers_is_left_alone(machine: Machine) -> None:
    gpu_job = dataclasses.replace(job("a", "b"), device="nvidia")
    told = run(machine.engine, gpu_job, monitors=machine.monitor)
    assert [a.outcome.status for a in told.attempts] == ["pass", "pass"]
    assert told.notes == []
    assert machine.leftovers() == []
    assert not [each for each in threading.enumerate() if each.name == "lh-health"]
