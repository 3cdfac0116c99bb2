"""Buildbot: a master and a worker, both processes of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.backends.base import Backend
from orchestrator.backends.buildbot.backend import BuildbotBackend
from orchestrator.backends.buildbot.rest import Api
from orchestrator.backends.clock import Clock
from tests.backends.conformance.agents import write_program
from tests.backends.conformance.bench import BusyBench
from tests.e2e.buildbot_site import Site

WORKER = "one"
POOL = "intel-cpu"


@dataclass
class BuildbotBench(BusyBench):
    """See `Bench`."""

    site: Site | None = None
    open: list[Api] = field(default_factory=list)

    @property
    def running(self) -> Site:
        """The processes."""
        assert self.site is not None
        return self.site

    @property
    def control(self) -> Path:
        """See `StubBench`: of all tests."""
        return self.running.folder / "control"

    def __post_init__(self) -> None:
        """The worker's `lh-ci` is the stub."""
        self.prefix = f"{self.folder.name}-"[-40:].lstrip("-_.")
        self.control.mkdir(exist_ok=True)
        self.launcher(self.running.folder / "bin" / "lh-ci")

    def close(self) -> None:
        """See `Bench`."""
        for api in self.open:
            api.close()

    def client(self) -> Backend:
        """See `Bench`."""
        secret = (self.running.folder / "master/secrets/dispatcher.password").read_text().strip()
        api = Api(self.running.url, secret, say=print, clock=Clock())
        self.open.append(api)
        return BuildbotBackend(api, Clock())

    def lose(self, job: str) -> None:
        """The worker is killed, what it ran ends with it, and it is started again."""
        self.began(job)
        self.running.kill(WORKER)
        os.kill(self.drop(job), 9)
        self.running.start(WORKER)


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A master with one worker, both up."""
    found = Site(folder, {WORKER: POOL})
    found.set_up()
    write_program(folder / "bin" / "lh-ci", "#!/bin/sh\nexit 1\n")
    _prefer(folder / "bin", folder / WORKER / "buildbot.tac")
    try:
        found.start("master", WORKER)
        yield found
    finally:
        found.stop()


def _prefer(programs: Path, configuration: Path) -> None:
    """A worker's `lh-ci` is the one in this folder, also where one is installed."""
    text, count = re.subn(
        r"(os\.pathsep\.join\(\[)'[^']*'",
        lambda match: f"{match[1]}{str(programs)!r}",
        configuration.read_text(),
    )
    assert count == 1, text
    configuration.write_text(text)
