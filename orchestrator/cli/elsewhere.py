"""Which machines elsewhere: from the command line and settings to a backend."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestrator.backends.base import Backend
from orchestrator.backends.local_places import FOLDER
from orchestrator.cli.app import App
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.plan import Serving

if TYPE_CHECKING:
    from orchestrator.backends.buildbot.backend import BuildbotBackend
    from orchestrator.backends.local_machine import LocalMachine
    from orchestrator.backends.service import Service
    from orchestrator.backends.web import Web
    from orchestrator.fleet.models import BackendName
    from orchestrator.fleet.serving import RegisteredMachines
    from orchestrator.settings import Secret

BACKENDS = ("local", "buildbot", "buildkite", "github")
_PAIR = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")

Say = Callable[[str], None]


class Fleet(Serving, Protocol):
    """Machines that cells are planned for, and how many there are."""

    def serving(self, pool: str) -> Sequence[object]:
        """The machines of a pool."""


class Elsewhere(Backend, Protocol):
    """A backend that tells which machines it has."""

    def fleet(self) -> Fleet:
        """Its machines.

        Raises:
            UsageError: we are refused.
            InfrastructureError: it does not answer.
        """


def address(app: App, backend: str, master: str | None, *, as_agent: bool = False) -> str:
    """Where jobs are handed to; empty: they run in this process.

    Raises:
        UsageError: a backend elsewhere was asked for, and not where; or the other way round.
    """
    settings = app.settings
    if as_agent and backend != "local":
        raise UsageError("--as-agent is for --backend local: agents elsewhere do so anyway")
    match backend:
        case "local":
            if master:
                raise UsageError("--master needs a --backend elsewhere, such as buildbot")
            return str(app.state / FOLDER) if as_agent else ""
        case "github":
            return _pair(
                master or settings.github_repository, "GitHub repository", "GITHUB_REPOSITORY"
            )
        case "buildkite":
            return _pair(
                master or settings.buildkite_pipeline, "Buildkite pipeline", "BUILDKITE_PIPELINE"
            )
    found = master or settings.buildbot_master
    if not found:
        raise UsageError("where is the Buildbot master? --master URL, or LH_BUILDBOT_MASTER")
    if not found.startswith(("http://", "https://")):
        raise UsageError(f"--master {found}: expected an address such as http://host:8010/")
    return found


def _pair(given: str | None, what: str, variable: str) -> str:
    if not given:
        raise UsageError(f"which {what}? --master OWNER/NAME, or LH_{variable}")
    if not _PAIR.fullmatch(given):
        raise UsageError(f"--master {given}: expected the {what} as OWNER/NAME")
    return given


def connect(app: App, backend: str, master: str, say: Say) -> Elsewhere:
    """A backend; asks nothing yet. `say` gets a line for people when it lets us wait.

    Raises:
        UsageError: no password or token.
    """
    match backend:
        case "local":
            return _local(app, Path(master))
        case "github":
            return _github(app, master, say)
        case "buildkite":
            return _buildkite(app, master, say)
        case _:
            return _buildbot(app, master, say)


def _local(app: App, folder: Path) -> LocalMachine:
    from orchestrator.backends.local_machine import LocalMachine

    def sweep() -> None:
        for name in ("docker", "venv"):
            with contextlib.suppress(InfrastructureError):  # there is no such engine here
                app.engine(name)[0].sweep()

    return LocalMachine(
        folder,
        machine=app.settings.agent or socket.gethostname(),
        host=app.host,
        environ={**app.services.environ, "LH_ROOT": str(app.root), "LH_STATE": str(app.state)},
        sweep=sweep,
        clock=app.services.clock,
    )


def _buildbot(app: App, master: str, say: Say) -> BuildbotBackend:
    from orchestrator.backends.buildbot.backend import BuildbotBackend
    from orchestrator.backends.buildbot.fleet import read_secret
    from orchestrator.backends.buildbot.rest import Api

    file = app.settings.buildbot_password
    if file is None:
        raise UsageError(
            f"{master} wants a password. LH_BUILDBOT_PASSWORD names the file with it: a copy of "
            "the master's secrets/dispatcher.password"
        )
    clock = app.services.clock
    api = Api(master, read_secret(file), say=say, clock=clock, ca_bundle=app.settings.ca_bundle)
    return BuildbotBackend(api, clock)


def _github(app: App, repository: str, say: Say) -> Elsewhere:
    from orchestrator.backends.github.backend import GitHubBackend, service

    web = _web(app, service(app.settings.github_api), app.settings.github_token, say)
    commit, branch = head(app)
    return GitHubBackend(
        web,
        repository,
        _registered(app, "github", branch),
        root=app.root,
        commit=commit,
        clock=app.services.clock,
    )


def _buildkite(app: App, pipeline: str, say: Say) -> Elsewhere:
    from orchestrator.backends.buildkite.backend import BuildkiteBackend, service

    web = _web(app, service(app.settings.buildkite_api), app.settings.buildkite_token, say)
    commit, branch = head(app)
    return BuildkiteBackend(
        web,
        pipeline,
        _registered(app, "buildkite", branch),
        root=app.root,
        commit=commit,
        branch=branch,
        clock=app.services.clock,
    )


def _web(app: App, service: Service, token: Secret | None, say: Say) -> Web:
    from orchestrator.backends.web import Web

    if token is None:
        raise UsageError(f"{service.name} wants a token. {service.renew}")
    clock = app.services.clock
    return Web(service, token, say=say, clock=clock, ca_bundle=app.settings.ca_bundle)


def _registered(app: App, backend: BackendName, branch: str) -> RegisteredMachines:
    from orchestrator.fleet.agents import load_fleet
    from orchestrator.fleet.serving import RegisteredMachines

    return RegisteredMachines(load_fleet(app.root).agents, backend, branch)


def head(app: App) -> tuple[str, str]:
    """Commit and branch of the checkout.

    Raises:
        UsageError: it is none, or has no commit.
    """
    branch = git(app, "rev-parse", "--abbrev-ref", "HEAD")
    return git(app, "rev-parse", "HEAD"), "main" if branch == "HEAD" else branch


def git(app: App, *words: str) -> str:
    """What git says of the checkout.

    Raises:
        UsageError: it is none, or has no commit.
    """
    argv = ["git", "-C", str(app.root), *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InfrastructureError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        raise UsageError(
            f"{app.root} is no checkout with a commit, and machines elsewhere work in one of "
            f"the same commit: {done.stderr.strip()[:200]}"
        )
    return done.stdout.strip()
