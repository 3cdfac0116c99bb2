"""A backend with one machine behind it, and what a test lets that machine do."""

from __future__ import annotations

import json
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.backends import ordering, parcel
from orchestrator.backends.base import Backend, Parcel, Sight
from orchestrator.fleet.envelope import path_of
from tests.backends.conformance.stub import RESULT, digests
from tests.backends.farm import jobs, terms
from tests.config.tree import Tree
from tests.fakes import FakeTime

STUB = Path(__file__).with_name("stub.py")
WARRANT = path_of("lab-one")
LIMIT_S = 60.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """What `condition` gives as soon as that is something."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.05)):
        if found := condition():
            return found
        pause.wait(0.05)
    raise AssertionError(f"waited {LIMIT_S:g} s for {what}")


@dataclass(frozen=True)
class Ran:
    """What a machine was asked to run."""

    argv: tuple[str, ...]
    job: dict[str, str]
    """Digests of the files in the folder of the job."""


@dataclass
class Bench(ABC):
    """One backend under test."""

    tree: Tree
    folder: Path
    time: FakeTime = field(default_factory=FakeTime)
    prefix: str = ""
    """Of the names of jobs, where several benches share a backend."""
    made: int = 0

    @abstractmethod
    def client(self) -> Backend:
        """A new one: it knows nothing but what the backend tells it."""

    @abstractmethod
    def hold(self) -> None:
        """The machine takes nothing any more."""

    @abstractmethod
    def free(self) -> None:
        """It takes jobs again."""

    def close(self) -> None:  # noqa: B027  most have nothing to end
        """Ends whatever runs."""

    @abstractmethod
    def began(self, job: str) -> None:
        """Waits until the machine runs a job."""

    @abstractmethod
    def end(self, job: str) -> None:
        """Lets it end as it should."""

    @abstractmethod
    def lose(self, job: str) -> None:
        """The machine goes away in the middle of a job, and comes back."""

    @abstractmethod
    def ran(self, job: str) -> list[Ran]:
        """What was run for a job."""

    @abstractmethod
    def packed(self, job: str) -> list[tuple[str, ...]]:
        """How what goes left was made one file."""

    unknown: str = "999999"
    """A ticket that nobody gave."""

    def parcel(self, name: str = "j") -> Parcel:
        """A job of its own."""
        self.made += 1
        (job,) = jobs(self.tree, f"{self.prefix}{name}{self.made}")
        folder = self.job_folder(job.id)
        folder.mkdir(parents=True)
        ordering.write(folder, job, terms(self.tree, "r", self.time))
        (folder / WARRANT).parent.mkdir()
        (folder / WARRANT).write_text(f"for {job.id}")
        archive = self.folder / f"{job.id}.tar.gz"
        sha256 = parcel.pack(folder, archive)
        return Parcel(key=job.id, job=job.id, pool=job.pool, archive=archive, sha256=sha256)

    def job_folder(self, job: str) -> Path:
        """As the dispatcher has it."""
        return self.folder / "jobs" / job

    def given(self, job: str) -> dict[str, str]:
        """Digests of the files of a job, as the dispatcher has them."""
        return digests(self.job_folder(job))

    def sight(self, ticket: str) -> Sight:
        """What a new client sees."""
        return self.client().watch([ticket])[ticket]

    def ended(self, ticket: str) -> Sight:
        """The last sight of a submission."""
        client = self.client()

        def last() -> Sight | None:
            sight = client.watch([ticket])[ticket]
            return sight if sight.ended else None

        found: Sight = until(last, f"{ticket} to end")
        return found

    def result(self, client: Backend, ticket: str, job: str, go: str) -> str:
        """What a go wrote, collected."""
        archive, folder = self.folder / "back.tar.gz", self.folder / "back"
        client.collect(ticket, job, go, archive)
        parcel.unpack(archive, folder)
        text = (folder / RESULT).read_text()
        (folder / RESULT).unlink()
        folder.rmdir()
        archive.unlink()
        return text


@dataclass
class StubBench(Bench):
    """A machine whose `lh-ci` is the stub."""

    @property
    def control(self) -> Path:
        """Where the stub writes."""
        place = self.folder / "control"
        place.mkdir(exist_ok=True)
        return place

    def program(self) -> tuple[str, ...]:
        """What `lh-ci` is there."""
        return (sys.executable, str(STUB), str(self.control))

    def launcher(self, path: Path) -> None:
        """Makes it a program."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec {" ".join(self.program())} "$@"\n')
        path.chmod(0o755)

    def records(self, job: str) -> list[Path]:
        """Of the goes at a job, the last one last."""
        found = self.control.glob(f"{job}.*.json")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    def pipes(self, job: str) -> list[Path]:
        """Of goes that nobody has let end."""
        return list(self.control.glob(f"{job}.*.pipe"))

    def began(self, job: str) -> None:
        """See `Bench`."""

        def begun() -> bool:
            self.nudge()
            return bool(self.pipes(job) and self.records(job))

        until(begun, f"{job} to begin")

    def nudge(self) -> None:
        """Lets time pass for backends in which only a look begins jobs."""

    def end(self, job: str) -> None:
        """See `Bench`."""
        self.began(job)
        for pipe in self.pipes(job):
            until(partial(self._open, pipe), f"{job} to wait")

    def _open(self, pipe: Path) -> bool:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            return True
        except OSError:  # nobody reads yet
            return False
        pipe.unlink()
        return True

    def drop(self, job: str) -> int:
        """Forgets the pipes of goes that are to be killed; the last one's process."""
        self.began(job)
        pid = int(json.loads(self.records(job)[-1].read_text())["pid"])
        for pipe in self.pipes(job):
            pipe.unlink()
        return pid

    def ran(self, job: str) -> list[Ran]:
        """See `Bench`."""
        found = [json.loads(path.read_text()) for path in self.records(job)]
        return [Ran(tuple(each["argv"]), each["job"]) for each in found]

    def packed(self, job: str) -> list[tuple[str, ...]]:
        """See `Bench`."""
        lines = (self.control / f"{job}.packed").read_text().splitlines()
        return [tuple(json.loads(line)) for line in lines]


@dataclass
class BusyBench(StubBench):
    """Its machine is kept from taking jobs by one that it has."""

    blocker: Parcel | None = None
    ticket: str = ""

    def hold(self) -> None:
        """See `Bench`."""
        self.blocker = self.parcel("blocker")
        self.ticket = self.client().submit(self.blocker)

    def free(self) -> None:
        """See `Bench`."""
        assert self.blocker is not None
        self.end(self.blocker.job)
        self.ended(self.ticket)
