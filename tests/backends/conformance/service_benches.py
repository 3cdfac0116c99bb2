"""Buildkite and GitHub: a local server, and a machine that runs this repository's files."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, cast

from orchestrator.backends.base import Backend, Sight
from orchestrator.backends.buildkite import backend as buildkite
from orchestrator.backends.github import backend as github
from tests.backends.conformance.agents import Agents, BuildkiteAgents, GitHubAgents
from tests.backends.conformance.bench import StubBench
from tests.backends.farm import Farm
from tests.backends.services.conftest import COMMIT, Place, machines
from tests.backends.services.conversation import Conversation, serve
from tests.backends.services.live import Live, LiveBuildkite, LiveGitHub, number


@dataclass
class Worked(Live):
    """A service in front of a real machine."""

    agents: Agents | None = None

    @property
    def machines(self) -> Farm:
        """What cancels."""
        return cast(Farm, self.agents)

    def take(self, key: str, text: str) -> int:
        """See `Live`."""
        assert self.agents is not None
        self.keys.append(key)
        self.agents.submit(key, text)
        return len(self.keys)

    def look(self, ticket: str) -> Sight:
        """See `Live`."""
        assert self.agents is not None
        self.sights[ticket] = self.agents.look(self.keys[int(ticket) - 1])
        return self.sights[ticket]

    def made(self, ticket: str) -> dict[int, bytes]:
        """See `Live`."""
        assert self.agents is not None
        tries = self.agents.orders[self.keys[int(ticket) - 1]].tries
        return {number(t.go.id): t.left.read_bytes() for t in tries if t.left.exists()}


@dataclass
class _Buildkite(Worked, LiveBuildkite):
    pass


@dataclass
class _GitHub(Worked, LiveGitHub):
    pass


@dataclass
class ServiceBench(StubBench):
    """See `Bench`."""

    service: type[Worked] = _Buildkite
    crew: type[Agents] = BuildkiteAgents
    open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    agents: Agents = field(init=False)
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        """Starts the server."""
        programs = self.folder / "programs"
        self.launcher(programs / "lh-ci")
        self.agents = self.crew(self.folder / "crew", self.tree.root, programs)
        api = self.open.enter_context(serve(self.service(agents=self.agents)))
        self.place = Place(api, Conversation(), self.time)

    def close(self) -> None:
        """See `Bench`."""
        self.agents.close()
        self.open.close()

    def hold(self) -> None:
        """See `Bench`."""
        self.agents.held = True

    def free(self) -> None:
        """See `Bench`."""
        self.agents.held = False
        self.agents.work()

    def nudge(self) -> None:
        """See `StubBench`."""
        self.agents.work()

    def lose(self, job: str) -> None:
        """See `Bench`."""
        self.drop(job)
        self.agents.lose(job)

    def common(self) -> dict[str, Any]:
        """What clients have in common."""
        return {"root": self.tree.root, "commit": COMMIT, "clock": self.time.clock()}


@dataclass
class BuildkiteBench(ServiceBench):
    """Buildkite."""

    def client(self) -> Backend:
        """See `Bench`."""
        web = self.place.web(buildkite.service)
        agents = machines("one")
        return buildkite.BuildkiteBackend(web, "o/p", agents, branch="main", **self.common())


@dataclass
class GitHubBench(ServiceBench):
    """GitHub."""

    service: type[Worked] = _GitHub
    crew: type[Agents] = GitHubAgents

    def client(self) -> Backend:
        """See `Bench`."""
        web = self.place.web(github.service)
        return github.GitHubBackend(web, "o/r", machines("one"), **self.common())
