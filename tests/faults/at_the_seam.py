"""Faults as an engine tells of them, faults of time and of the record: no process is needed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

from orchestrator.cli import running
from orchestrator.engines.base import Exit
from orchestrator.errors import InfrastructureError
from orchestrator.fleet.misses import Kind
from orchestrator.health.look import Looker
from orchestrator.health.monitor import Monitor
from orchestrator.health.programs import Programs, Said
from orchestrator.job import Alive, Broken, Job, StageBegan, Started
from tests.fakes import HELLO, PASS, FakeEngine, Play, Step, Wait, cell_steps
from tests.faults.bench import PLANNED, Bench, Table
from tests.health.stubs import StubPrograms, said

fault = Table("at the seam")
WELL = "00000000:65:00.0, 0, 0, [N/A], No, None\n"


def first(bench: Bench, script: Callable[[Job], Iterator[Step]]) -> None:
    """`script` for the first job; in those after it every cell passes."""
    seen: list[str] = []

    def play(job: Job) -> Iterator[Step]:
        seen.append(job.id)
        yield from script(job) if len(seen) == 1 else Play()(job)

    bench.engine.script = play


def until(job: Job, *steps: Step) -> Iterator[Step]:
    """The first cell passes, and this happens while the second one runs."""
    yield HELLO
    yield from cell_steps(job.cells[0].id, PASS)
    yield Started(cell=job.cells[1].id)
    yield StageBegan(cell=job.cells[1].id, stage="execute")
    yield from steps


@fault("the network is gone while a stack is prepared", Kind.PULL, resumes=True)
def network_gone(bench: Bench) -> Iterator[None]:
    bench.engine.prepare_error = InfrastructureError(
        "The build could not reach where packages come from. Name mirrors or a proxy"
    )
    yield
    bench.engine.prepare_error = None


@fault("no engine answers any more when a stack is prepared", Kind.DAEMON, resumes=True)
def no_daemon(bench: Bench) -> Iterator[None]:
    bench.engine.prepare_error = InfrastructureError(
        "no engine answers at unix:///var/run/docker.sock: refused."
    )
    yield
    bench.engine.prepare_error = None


@fault("the engine's daemon is killed under a job", Kind.DAEMON)
def daemon_killed(bench: Bench) -> Iterator[None]:
    lost = InfrastructureError("the engine stopped answering: connection aborted")
    first(bench, lambda job: until(job, lost))
    yield


@fault("the engine's daemon is killed and the container with it", Kind.DAEMON)
def daemon_and_container(bench: Bench) -> Iterator[None]:
    gone = Exit(code=None, reason="the engine stopped answering: no such host")
    first(bench, lambda job: until(job, gone))
    yield


@fault("the image is deleted after it was made ready", Kind.DAEMON)
def image_deleted(bench: Bench) -> Iterator[None]:
    class Deleted(FakeEngine):
        """Nothing can be started until it is prepared again."""

        def start(self, *args: Any, **kwargs: Any) -> Any:
            if len(self.prepared) < 2:
                raise InfrastructureError("image lh/pytorch:1 is no longer there: it was removed")
            return super().start(*args, **kwargs)

    bench.engine = Deleted()
    yield


@fault("the image is broken: the harness cannot import its frontend once", Kind.OTHER)
def broken_image(bench: Bench) -> Iterator[None]:
    def script(job: Job) -> Iterator[Step]:
        yield Broken(message="OSError: [Errno 5] Input/output error: torch_mlir")
        yield Exit(code=3, reason="exit 3")

    first(bench, script)
    yield


@fault("the kernel takes the container when memory runs out", Kind.MEMORY)
def container_taken(bench: Bench) -> Iterator[None]:
    taken = Exit(code=137, reason="killed: out of memory (limit 8.0 GiB)")
    first(bench, lambda job: until(job, taken))
    yield


@fault("the harness falls silent", Kind.STALL)
def silent(bench: Bench) -> Iterator[None]:
    first(bench, lambda job: until(job, *([Wait(1.0)] * 100)))
    yield


@fault("the harness lets a deadline pass", Kind.STALL)
def late(bench: Bench) -> Iterator[None]:
    quiet: list[Step] = [Wait(1.0), Alive(running=())]
    first(bench, lambda job: until(job, *(quiet * 200)))
    yield


@fault("the harness never says a word", Kind.STALL)
def mute(bench: Bench) -> Iterator[None]:
    first(bench, lambda job: iter([Wait(1.0)] * 300))
    yield


@fault("this process, or the machine with it, stands still for an hour")
def stood_still(bench: Bench) -> Iterator[None]:
    rest: list[Step] = [Alive(running=()), Wait(3600.0)]

    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        for cell in job.cells:
            steps = cell_steps(cell.id, PASS)
            yield from [steps[0], *rest, *steps[1:]]

    first(bench, script)
    yield


def _stepped(bench: Bench, by: dt.timedelta) -> None:
    """The wall clock jumps with every second look at it; the monotonic one does not."""
    looks: list[None] = []
    usual = bench.engine.time.clock()

    def now() -> dt.datetime:
        looks.append(None)
        there: dt.datetime = usual.now()
        return there + (by if len(looks) % 2 else dt.timedelta())

    bench.clock = dataclasses.replace(usual, now=now)


@fault("the wall clock jumps forward by a day, and back")
def clock_forward(bench: Bench) -> Iterator[None]:
    _stepped(bench, dt.timedelta(days=1))
    yield


@fault("the wall clock jumps back by thirty years, and forward")
def clock_back(bench: Bench) -> Iterator[None]:
    _stepped(bench, dt.timedelta(days=-30 * 365))
    yield


# --- GPUs -------------------------------------------------------------------------------------


def _gpus(bench: Bench, programs: Programs) -> Callable[[str], None]:
    """Jobs have a GPU of their own, watched as ever; gives what writes into the kernel's log."""
    kmsg = bench.folder / "kmsg"
    kmsg.touch()
    waiting = running.waiting_jobs
    time = bench.engine.time

    class Watching:
        """Looks at once where `ThreadMonitor` would start a thread."""

        def __init__(self, vendor: Any) -> None:
            self.looker = Looker(vendor, lambda: time.seconds, kmsg=kmsg, programs=programs)

        def poll(self, *, thorough: bool = False) -> Any:
            return (self.looker.look(thorough=thorough),)

        def wait(self, limit_s: float) -> Any:
            return self.poll(thorough=True)

        def close(self) -> None:
            self.looker.close()

    def jobs(*args: Any) -> list[Job]:
        return [dataclasses.replace(job, device="nvidia") for job in waiting(*args)]

    def log(line: str) -> None:
        with kmsg.open("a") as file:
            file.write(f"3,1,1,-;{line}\n")

    bench.patch.setattr(running, "waiting_jobs", jobs)
    opened: Callable[[Any], Monitor] = Watching
    bench.monitors = opened
    return log


def _logged(bench: Bench, line: str) -> None:
    """The kernel says this while a cell executes, which then dies of it."""
    log = _gpus(bench, StubPrograms({"nvidia-smi": said(WELL)}))

    def script(job: Job) -> Iterator[Step]:
        yield from until(job)
        log(line)
        for _ in range(20):
            yield Wait(2.0)
            yield Alive(running=(job.cells[1].id,))

    first(bench, script)


@fault("a GPU falls off the bus: Xid 79 in the kernel's log", Kind.DEVICE)
def xid(bench: Bench) -> Iterator[None]:
    _logged(bench, "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.")
    yield


@fault("a GPU's memory is broken: Xid 48 in the kernel's log", Kind.DEVICE)
def double_bit(bench: Bench) -> Iterator[None]:
    _logged(bench, "NVRM: Xid (PCI:0000:65:00): 48, pid=1, name=python3, DBE")
    yield


@fault("the driver's tool hangs while a cell executes", Kind.DEVICE)
def tool_hangs(bench: Bench) -> Iterator[None]:
    answers: dict[str, Any] = {"nvidia-smi": said(WELL)}
    programs = StubPrograms(answers)
    _gpus(bench, programs)

    def script(job: Job) -> Iterator[Step]:
        yield from until(job)
        programs.answers["nvidia-smi"] = Said(end="slow")
        for _ in range(20):
            yield Wait(5.0)
            yield Alive(running=(job.cells[1].id,))
        raise AssertionError("nobody ended it")

    first(bench, script)
    usual = bench.engine.time.clock()

    def sleep(seconds: float) -> None:
        programs.answers["nvidia-smi"] = said(WELL)
        usual.sleep(seconds)

    bench.clock = dataclasses.replace(usual, sleep=sleep)
    yield


# --- the record -------------------------------------------------------------------------------


def full(bench: Bench, after: int) -> Callable[[], None]:
    """The disk is full after so many writes; what gives room again."""
    real, writes = os.fsync, [0]

    def fsync(descriptor: int) -> None:
        writes[0] += 1
        if writes[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    bench.patch.setattr(os, "fsync", fsync)
    return lambda: bench.patch.setattr(os, "fsync", real)


@fault("the disk is full while results are written", resumes=True)
def disk_full(bench: Bench) -> Iterator[None]:
    room = full(bench, after=6)
    yield
    room()


@fault("the disk is full when a run begins", resumes=True)
def disk_full_at_once(bench: Bench) -> Iterator[None]:
    room = full(bench, after=2)
    yield
    room()


@fault("a result on disk is cut short", resumes=True)
def cut_result(bench: Bench) -> Iterator[None]:
    yield
    path = bench.run.folder / "results" / f"{PLANNED[1]}.1.json"
    path.write_bytes(path.read_bytes()[:100])


@fault("a result on disk is empty, as after a power cut", resumes=True)
def empty_result(bench: Bench) -> Iterator[None]:
    yield
    (bench.run.folder / "results" / f"{PLANNED[1]}.1.json").write_bytes(b"")


@fault("a result on disk is gone", resumes=True)
def lost_result(bench: Bench) -> Iterator[None]:
    yield
    (bench.run.folder / "results" / f"{PLANNED[1]}.1.json").unlink()


@fault("a result lies under the name of another one", resumes=True)
def misplaced_result(bench: Bench) -> Iterator[None]:
    yield
    results = bench.run.folder / "results"
    (results / f"{PLANNED[2]}.1.json").write_bytes((results / f"{PLANNED[1]}.1.json").read_bytes())


@fault("what the run is about is damaged, and a result is gone", resumes=True)
def damaged_info(bench: Bench) -> Iterator[None]:
    yield
    (bench.run.folder / "results" / f"{PLANNED[1]}.1.json").unlink()
    (bench.run.folder / "run.json").write_text("{")


@fault("the machine shuts down: SIGTERM", resumes=True)
def shutdown(bench: Bench) -> Iterator[None]:
    def script(job: Job) -> Iterator[Step]:
        yield from until(job)
        os.kill(os.getpid(), 15)  # to this very process
        yield Wait(1.0)

    first(bench, script)
    yield


@fault("somebody else takes over the run while it goes on")
def two_at_once(bench: Bench) -> Iterator[None]:
    def script(job: Job) -> Iterator[Step]:
        yield from until(job)
        assert bench.lh_ci("run", "--resume") == 2
        assert "is being run by another process" in bench.said[-1]
        bench.codes.clear()
        yield from list(Play()(job))[5:]

    first(bench, script)
    yield
