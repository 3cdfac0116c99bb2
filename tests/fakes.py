"""An engine without containers: its sessions play a script, and time passes when told to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.backends.clock import Clock
from orchestrator.engines.base import Availability, Environment, Exit, Isolation, Progress
from orchestrator.errors import InfrastructureError
from orchestrator.health.evidence import Evidence, Vendor
from orchestrator.health.look import Look
from orchestrator.health.smi import Gauge
from orchestrator.job import (
    Artifact,
    Done,
    Event,
    Hello,
    Job,
    Outcome,
    StageBegan,
    StageTime,
    Started,
)
from orchestrator.results.artifacts import encode

ISOLATION = Isolation(
    contained=True, network="none", root="read-only", user="65534", limits={"pids": 512}
)
HELLO = Hello(
    python="3.11.2",
    versions={"torch": "2.13.0", "mlir-opt": "22.1.8"},
    toolchain="release",
    hardware={"cpu_model": "Intel Xeon", "cpu_flags": "avx2 avx512f", "cpus": 2},
    seconds=3.0,
)
PASS = Outcome(
    status="pass",
    stages=(
        StageTime(stage="ingress", seconds=0.5, exit="ok"),
        StageTime(stage="codegen", seconds=0.2, exit="ok"),
    ),
    golden="recorded",
)


def fail(message: str = "wrong", phase: str = "compare", **fields: Any) -> Outcome:
    """A cell's failure."""
    return Outcome(status="fail", phase=phase, message=message, **fields)


class FakeTime:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        """Starts at a fixed moment."""
        self.seconds = 1000.0
        self.start = dt.datetime(2026, 11, 20, 21, 4, 11, tzinfo=dt.UTC)

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self.seconds += seconds

    def clock(self) -> Clock:
        """As backends take it."""
        return Clock(
            monotonic=lambda: self.seconds,
            now=lambda: self.start + dt.timedelta(seconds=self.seconds - 1000.0),
            sleep=self.advance,
        )


class FakeGpus:
    """GPUs that are well, until a test says something else; gives their monitors."""

    def __init__(self, time: FakeTime) -> None:
        """Nothing has been seen."""
        self.time = time
        self.log: list[Evidence] = []
        self.busy: int | None = None
        self.answered: bool | None = True
        self.opened: list[Vendor] = []
        self.open = 0

    def __call__(self, vendor: Vendor) -> FakeMonitor:
        """A monitor from now on."""
        self.opened.append(vendor)
        self.open += 1
        return FakeMonitor(self)

    def say(self, *evidence: Evidence) -> None:
        """Something happens at this moment."""
        self.log += evidence


class FakeMonitor:
    """Looks every five seconds, at once when it has to."""

    def __init__(self, gpus: FakeGpus) -> None:
        """What happened before is not seen."""
        self._gpus = gpus
        self._seen = len(gpus.log)
        self._looked: float | None = None

    def poll(self, *, thorough: bool = False) -> tuple[Look, ...]:
        """See `Monitor`."""
        now = self._gpus.time.seconds
        if not thorough and self._looked is not None and now < self._looked + 5.0:
            return ()
        return self.wait(0.0)

    def wait(self, limit_s: float) -> tuple[Look, ...]:
        """See `Monitor`."""
        now = self._looked = self._gpus.time.seconds
        fresh = tuple(self._gpus.log[self._seen :])
        self._seen = len(self._gpus.log)
        busy = self._gpus.busy
        look = Look(
            began=now,
            ended=now,
            evidence=fresh,
            gauges=() if busy is None else (Gauge(gpu="0000:65:00.0", busy=busy),),
            answered=self._gpus.answered,
        )
        return (look,)

    def close(self) -> None:
        """See `Monitor`."""
        self._gpus.open -= 1


@dataclass(frozen=True)
class Wait:
    """Nothing is heard for so many seconds."""

    seconds: float


Step = Event | Wait | Exit | BaseException
"""What happens next in a session. An exit ends it; an exception is raised."""
Script = Callable[[Job], Iterable[Step]]


def cell_steps(cell: str, outcome: Outcome, files: Mapping[str, bytes] | None = None) -> list[Step]:
    """One cell from start to end."""
    stages = [s.stage for s in outcome.stages] or ["ingress"]
    if outcome.phase and outcome.phase not in stages:
        stages.append(outcome.phase)
    return [
        Started(cell=cell),
        *(StageBegan(cell=cell, stage=stage) for stage in stages),
        *(Artifact(cell=cell, name=n, data=encode(data)) for n, data in (files or {}).items()),
        Done(cell=cell, outcome=outcome),
    ]


@dataclass
class Play:
    """A script in which every cell has its outcomes, one for each attempt; the last one stays."""

    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def __call__(self, job: Job) -> Iterator[Step]:
        """All cells in order."""
        yield HELLO
        for cell in job.cells:
            number = self.seen.get(cell.id, 0)
            self.seen[cell.id] = number + 1
            planned = self.outcomes.get(cell.id, [PASS])
            yield from cell_steps(cell.id, planned[min(number, len(planned) - 1)], self.files)


class FakeSession:
    """Plays a script."""

    def __init__(self, job: Job, steps: Iterable[Step], time: FakeTime) -> None:
        """Nothing happens before `events` is read."""
        self.isolation = ISOLATION
        self.argv: tuple[str, ...] = ("python", "-m", "orchestrator.harness", "/job")
        self.job = job
        self.killed = False
        self.open = False
        self.closed = False
        self._steps = steps
        self._time = time
        self._exit = Exit(code=0, reason="exit 0")

    def __enter__(self) -> FakeSession:
        """Opens."""
        self.open = True
        return self

    def __exit__(self, *exc: object) -> None:
        """Closes."""
        self.open, self.closed = False, True

    def events(self, tick_s: float) -> Iterator[Event | None]:
        """As the script says."""
        assert self.open
        assert tick_s > 0
        for step in self._steps:
            if self.killed:
                self._exit = Exit(code=137, reason="killed by us")
                return
            match step:
                case Wait(seconds=seconds):
                    self._time.advance(seconds)
                    yield None
                case Exit():
                    self._exit = step
                    return
                case BaseException():
                    raise step
                case _:
                    self._time.advance(0.1)
                    yield step

    def kill(self) -> None:
        """Ends it before the next step."""
        self.killed = True

    def exit(self) -> Exit:
        """How it ended."""
        return self._exit


class FakeEngine:
    """An engine whose jobs follow a script."""

    def __init__(self, script: Script | None = None, *, time: FakeTime | None = None) -> None:
        """By default every cell passes."""
        self.name = "docker"
        self.script = script or Play()
        self.time = time or FakeTime()
        self.jobs: list[Job] = []
        self.folders: list[Path] = []
        self.sessions: list[FakeSession] = []
        self.prepared: list[tuple[str, bool]] = []
        self.prepare_error: BaseException | None = None
        self.start_errors: list[InfrastructureError] = []
        self.left_behind: tuple[str, ...] = ()
        self.kept: set[str] = set()
        """Digests of earlier environments that are still there."""
        self.digest = ""
        """Of environments that are prepared; empty: by the stack."""
        self.ran_in: list[str] = []
        """Digest of each job's environment."""

    def probe(self) -> Availability:
        """It always answers."""
        return Availability(usable=True, reason="fake")

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:
        """Takes five seconds."""
        self.prepared.append((stack, force))
        progress(f"building {stack}")
        self.time.advance(5.0)
        if self.prepare_error is not None:
            raise self.prepare_error
        return Environment(
            stack=stack,
            engine=self.name,
            reference=f"lh/{stack}:3f9c2a1",
            digest=self.digest or f"sha256:{stack}",
            cached=not force,
            facts={"llvm": "22.1.8"},
        )

    def recall(self, stack: str, digest: str) -> Environment | None:
        """As the test says."""
        if digest not in self.kept:
            return None
        return Environment(
            stack=stack, engine=self.name, reference=digest, digest=digest, cached=True, facts={}
        )

    def start(self, job: Job, job_dir: Path, environment: Environment) -> FakeSession:
        """A session of the script."""
        assert environment.stack == job.stack
        self.ran_in.append(environment.digest)
        self.jobs.append(job)
        self.folders.append(job_dir)
        if self.start_errors:
            raise self.start_errors.pop(0)
        session = FakeSession(job, self.script(job), self.time)
        self.sessions.append(session)
        return session

    def sweep(self) -> tuple[str, ...]:
        """What dead orchestrators left, once."""
        found, self.left_behind = self.left_behind, ()
        return found
