"""Machines elsewhere, in this process: they carry out orders in a fake engine, or fail to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from orchestrator.backends import executing, ordering, parcel
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.perform import Machine
from orchestrator.cli.report import SilentReporter
from orchestrator.config.load import Config, load
from orchestrator.errors import InfrastructureError
from orchestrator.host import Host
from orchestrator.job import Job
from orchestrator.order import CellTerms
from orchestrator.plan import make_jobs, plan_cells
from orchestrator.results.schema import RunInfo
from orchestrator.results.store import Run, utc
from tests.config.tree import Tree
from tests.fakes import FakeEngine, FakeTime

Fate = Literal["well", "lost", "silent", "torn", "foreign", "unfinished", "refused", "cancelled"]
"""What becomes of a go: as it should, the machine went away, it left nothing, half a file, results
of another order, no summary, its engine refuses, or somebody stops it."""

HOST = Host(
    arch="x86_64",
    cpu_vendor="GenuineIntel",
    cpu_model="Intel Xeon",
    cpu_flags="avx2",
    cpus=2,
    memory_bytes=16 << 30,
    kernel="Linux 6.1",
)


@cache
def _config(root: Path) -> Config:
    """Of a repository that nobody edits."""
    return load(root)


def quiet() -> SilentReporter:
    """Nobody is told anything."""
    return SilentReporter(lambda line: None)


def jobs(tree: Tree, run: str) -> tuple[Job, ...]:
    """All cells of the sample repository that an Intel machine runs: one job."""
    cells = plan_cells(_config(tree.root), HOST)
    return make_jobs(cells, workers=1, toolchain="auto", keep="failed", mode="run", run=run)


def terms(tree: Tree, run: str, time: FakeTime, **changes: Any) -> ordering.Terms:
    """What orders of the sample repository say."""
    config = _config(tree.root)
    planned = plan_cells(config, HOST)
    given = ordering.Terms(
        run=run,
        config=config,
        cells={p.cell.id: CellTerms(tier=p.tier, reproduce=f"rerun {p.cell.id}") for p in planned},
        files={
            **{f"workloads/{n}.py": str(w.path) for n, w in config.workloads.items()},
            **{f"golden/{w}/{v}.npz": str(g.path) for (w, v), g in config.goldens.items()},
        },
        engine="auto",
        retries=2,
        workers=None,
        today=time.clock().now().date(),
    )
    return dataclasses.replace(given, **changes)


def start_run(folder: Path, time: FakeTime) -> Run:
    """An empty run with its `run.json`."""
    folder.mkdir(parents=True)
    run = Run(folder)
    now = utc(time.clock().now())
    info = RunInfo(run=run.name, started=now, engine="elsewhere", engine_note="", version="0")
    run.write_info(info)
    return run


@dataclass
class _Submission:
    parcel: Parcel
    data: bytes
    goes: list[tuple[Fate, str, Path | None]] = field(default_factory=list)
    ended: bool = False


@dataclass
class Farm:
    """A backend. Each look lets a machine begin, or end, one go."""

    tree: Tree
    folder: Path
    engine: FakeEngine
    fates: list[Fate] = field(default_factory=list)
    """Of the goes, one after the other; then all is well."""
    of_jobs: dict[str, list[Fate]] = field(default_factory=dict)
    """Of the goes at single jobs."""
    name: str = "farm"
    where: str = "nowhere"
    submissions: dict[str, _Submission] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    machine: str = ""
    """Who takes everything; empty: each go is another machine's."""
    idle: bool = False
    """No machine takes anything."""
    count: int = 0
    agents: tuple[str, ...] | None = None
    """Registered machines that are connected; None: it cannot be told."""
    sick: set[str] = field(default_factory=set)
    """Of them, those whose engine refuses."""
    went: list[tuple[str, str]] = field(default_factory=list)
    """Machine and job of each go, in the order of time."""

    def online(self) -> tuple[str, ...] | None:
        """See `Backend`."""
        return self.agents

    def submit(self, given: Parcel) -> str:
        """See `Backend`."""
        assert parcel.digest(given.archive) == given.sha256
        if given.key not in self.submissions:
            self.submissions[given.key] = _Submission(given, given.archive.read_bytes())
        return given.key

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend`."""
        for ticket in tickets:
            submission = self.submissions[ticket]
            there = submission.parcel.agents
            away = self.agents is not None and there is not None and there[0] not in self.agents
            if not submission.ended and not self.idle and not away:
                self._work(ticket, submission)
        return {ticket: self._sight(self.submissions[ticket]) for ticket in tickets}

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        """See `Backend`."""
        for _, name, made in self.submissions[ticket].goes:
            if name == go and made is not None:
                archive.parent.mkdir(parents=True, exist_ok=True)
                archive.write_bytes(made.read_bytes())
                return
        raise NothingLeftError("it brought back no results")

    def cancel(self, ticket: str, why: str) -> None:
        """See `Backend`."""
        self.cancelled.append(ticket)
        self.submissions[ticket].ended = True

    def forget(self, job: str) -> None:
        """See `Backend`."""
        self.forgotten.append(job)

    def _work(self, ticket: str, submission: _Submission) -> None:
        own = self.of_jobs.get(submission.parcel.job) or self.fates
        fate = own.pop(0) if own else "well"
        self.count += 1
        name = f"go-{self.count}"
        who = self._machine(submission, name)
        if who in self.sick:
            fate = "refused"
        self.went.append((who, submission.parcel.job))
        none = fate in ("lost", "silent", "cancelled")
        made = None if none else self._made(name, submission, fate)
        submission.goes.append((fate, name, made))
        submission.ended = fate != "lost"

    def _machine(self, submission: _Submission, go: str) -> str:
        agents = submission.parcel.agents
        return self.machine or (agents[0] if agents else f"box-{go}")

    def _made(self, name: str, submission: _Submission, fate: Fate) -> Path:
        place = self.folder / name
        place.mkdir(parents=True)
        (place / "job.tar.gz").write_bytes(submission.data)
        parcel.unpack(place / "job.tar.gz", place / "job")
        ordered = executing.read(place / "job")
        assert executing.claim(ordered, place / "out") is None
        if not self.begin(place, ordered):
            return self.pack(place)
        machine = Machine(engine=self.engine, note="", clock=self.engine.time.clock())
        root, clock = self.tree.root, self.engine.time.clock()

        def choose(engine: str) -> Machine:
            if fate == "refused":
                raise InfrastructureError(f"no engine answers at {engine}")
            return machine

        executing.carry_out(ordered, place / "out", root, HOST, choose, clock, quiet())
        summary = place / "out" / "exec.json"
        if fate == "unfinished":
            summary.unlink()
        if fate == "foreign":
            summary.write_text(summary.read_text().replace(ordered.sha256, "0" * 64))
        archive = self.pack(place)
        if fate == "torn":
            data = archive.read_bytes()
            archive.write_bytes(data[: len(data) // 2])
        return archive

    def begin(self, place: Path, ordered: executing.Ordered) -> bool:
        """Whether a machine runs what lies in `place/job`; nobody looks here."""
        return True

    def pack(self, place: Path) -> Path:
        """What a machine sends of `place/out`."""
        archive = place / "out.tar.gz"
        parcel.pack(place / "out", archive, skip=("lock", "jobs"))
        return archive

    def _sight(self, submission: _Submission) -> Sight:
        goes = tuple(
            Go(
                id=name,
                machine=self._machine(submission, name),
                ended=True,
                lost=fate in ("lost", "cancelled"),
                cancelled=fate == "cancelled",
            )
            for fate, name, _ in submission.goes
        )
        return Sight(goes=goes, ended=submission.ended)


class KilledError(BaseException):
    """Stands for SIGKILL: nothing catches it, and nothing is tidied up on purpose."""


@dataclass
class Bomb:
    """Goes off at one of the moments at which a process can be killed."""

    at: int
    passed: int = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, with a moment before and one after it."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            result = function(*args, **kwargs)
            self.tick()
            return result

        return wrapped

    def tick(self) -> None:
        """A moment."""
        self.passed += 1
        if self.passed == self.at:
            raise KilledError
