"""A service and where it keeps files, both on this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import jobdir, ordering, parcel
from orchestrator.backends.base import Parcel
from orchestrator.backends.service import Patience, Service
from orchestrator.backends.web import Web
from orchestrator.fleet.serving import RegisteredMachines
from orchestrator.settings import Secret
from tests.backends.farm import jobs, terms
from tests.backends.services.conversation import Conversation, serve
from tests.backends.test_placing import agent
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeTime

TOKEN = "ghp_secret0123456789"
COMMIT = "c" * 40


@dataclass
class Place:
    """A service, its store, and the one who talks to it."""

    api: Conversation
    store: Conversation
    time: FakeTime
    said: list[str] = field(default_factory=list)

    def web(self, service: Callable[[str], Service] | None = None) -> Web:
        """A client whose pauses have no chance in them."""
        made = service(self.api.url) if service else None
        return Web(
            made or Service(name="Forge", api=self.api.url, headers={}, renew="Make a new one."),
            Secret(TOKEN),
            say=self.said.append,
            clock=self.time.clock(),
            patience=Patience(connect_s=5.0, read_s=5.0, total_s=60.0, limit_s=4000.0),
            chance=lambda: 0.5,
        )


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, *args: object, **kwargs: object) -> list[Any]:
        assert host == "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def place() -> Iterator[Place]:
    """Both servers, with nothing to say yet."""
    with serve(Conversation()) as api, serve(Conversation()) as store:
        yield Place(api, store, FakeTime())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """A repository; jobs bring one file of the harness."""
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    jobdir.harness_sha256.cache_clear()
    (tmp_path / "repo").mkdir()
    yield make_tree(tmp_path / "repo")
    jobdir.harness_sha256.cache_clear()


@pytest.fixture
def packed(tree: Tree, tmp_path: Path, place: Place) -> Parcel:
    """A job on its way: three cells of `intel-cpu`."""
    (job,) = jobs(tree, "r")
    folder = tmp_path / "jobs" / job.id
    folder.mkdir(parents=True)
    ordering.write(folder, job, terms(tree, "r", place.time))
    archive = tmp_path / "parcel.tar.gz"
    sha256 = parcel.pack(folder, archive)
    return Parcel(
        key=job.id, job=job.id, pool=job.pool, archive=archive, sha256=sha256, priority=10
    )


def machines(*names: str) -> RegisteredMachines:
    """Agents of pool `intel-cpu`, called `lab-<name>`."""
    made = [agent(name, pools=["intel-cpu"]) for name in names]
    return RegisteredMachines({each.id: each for each in made}, None, "main")
