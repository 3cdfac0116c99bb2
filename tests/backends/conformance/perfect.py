"""A backend in memory that keeps every promise; what a wrong one is made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.backends import parcel
from orchestrator.backends.base import Backend, Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.contract import ARGV, PACK
from tests.backends.conformance.bench import Bench, Ran
from tests.backends.conformance.stub import RESULT, digests


@dataclass
class Job:
    """A submission."""

    given: Parcel
    folder: Path
    goes: list[Go] = field(default_factory=list)
    ended: bool = False
    cancelled: bool = False


@dataclass
class World:
    """What outlives clients: one machine, and what was handed to it."""

    folder: Path
    jobs: dict[str, Job] = field(default_factory=dict)
    ran: list[tuple[str, Ran]] = field(default_factory=list)
    held: bool = False

    def work(self) -> None:
        """The machine takes the first job that waits, if it has none."""
        running = [job for job in self.jobs.values() if job.goes and not job.goes[-1].ended]
        waiting = [job for job in self.jobs.values() if not job.ended]
        if waiting and not running and not self.held:
            job = waiting[0]
            number = sum(len(each.goes) for each in self.jobs.values()) + 1
            job.goes.append(Go(id=f"go-{number}", machine="box", ended=False))
            self.ran.append((job.given.job, Ran(ARGV, digests(job.folder))))

    def close(self, job: Job, **changes: object) -> None:
        """Ends the go of a job."""
        job.goes[-1] = dataclasses.replace(job.goes[-1], ended=True, **changes)  # type: ignore[arg-type]

    def find(self, name: str) -> Job:
        """The submission of a job that runs."""
        return next(
            job
            for job in self.jobs.values()
            if job.given.job == name and job.goes and not job.goes[-1].ended
        )


class Perfect:
    """A client."""

    name = "perfect"
    where = "memory"
    pack: tuple[str, ...] = PACK
    """How its machine makes one file of what it left."""

    def __init__(self, world: World) -> None:
        """Knows nothing but where the machine is."""
        self.world = world

    def online(self) -> None:
        """See `Backend`."""

    def submit(self, given: Parcel) -> str:
        """See `Backend`."""
        if given.key not in self.world.jobs:
            folder = self.world.folder / given.key
            if not folder.exists():
                parcel.unpack(given.archive, folder)
            self.world.jobs[given.key] = Job(given, folder)
            self.world.work()
        return given.key

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend`."""
        self.world.work()
        return {ticket: self.sight(ticket) for ticket in tickets}

    def sight(self, ticket: str) -> Sight:
        """Of one."""
        job = self.world.jobs.get(ticket)
        if job is None:
            return Sight(goes=(), ended=True)
        return Sight(goes=tuple(job.goes), ended=job.ended, cancelled=job.cancelled)

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        """See `Backend`."""
        found = self.world.jobs[ticket]
        if not any(each.id == go and each.ended and not each.lost for each in found.goes):
            raise NothingLeftError("nothing")
        out = found.folder.with_name(f"{ticket}.out")
        out.mkdir(exist_ok=True)
        (out / RESULT).write_text(job)
        parcel.pack(out, archive)

    def cancel(self, ticket: str, why: str) -> None:
        """See `Backend`."""
        job = self.world.jobs[ticket]
        if not job.ended:
            job.ended = job.cancelled = True
            if job.goes and not job.goes[-1].ended:
                self.world.close(job, lost=True, cancelled=True, why=why)
        self.world.work()

    def forget(self, job: str) -> None:
        """See `Backend`."""
        jobs = self.world.jobs
        for ticket in [ticket for ticket, each in jobs.items() if each.given.job == job]:
            del jobs[ticket]


@dataclass
class PerfectBench(Bench):
    """See `Bench`."""

    kind: type[Perfect] = Perfect
    world: World = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was handed over yet."""
        self.world = World(self.folder / "world")

    def client(self) -> Backend:
        """See `Bench`."""
        return self.kind(self.world)

    def hold(self) -> None:
        """See `Bench`."""
        self.world.held = True

    def free(self) -> None:
        """See `Bench`."""
        self.world.held = False
        self.world.work()

    def began(self, job: str) -> None:
        """See `Bench`."""
        self.world.work()
        assert self.ran(job), f"{job} is never begun"

    def end(self, job: str) -> None:
        """See `Bench`."""
        self.began(job)
        found = self.world.find(job)
        self.world.close(found)
        found.ended = True
        self.world.work()

    def lose(self, job: str) -> None:
        """See `Bench`."""
        self.began(job)
        self.world.close(self.world.find(job), lost=True, why="box went away")
        self.world.work()

    def ran(self, job: str) -> list[Ran]:
        """See `Bench`."""
        return [ran for name, ran in self.world.ran if name == job]

    def packed(self, job: str) -> list[tuple[str, ...]]:
        """See `Bench`."""
        return [self.kind.pack for _ in self.ran(job)]
