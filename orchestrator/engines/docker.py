"""The `docker` engine: stacks as images, jobs in containers that can reach nothing."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

import docker
from docker.errors import NotFound

from orchestrator.engines import container as containers
from orchestrator.engines.base import Availability, Environment, Progress
from orchestrator.engines.docker_host import (
    CALL_S,
    EngineInfo,
    Host,
    connect,
    engine_errors,
    engine_info,
    find_host,
    find_image,
)
from orchestrator.engines.docker_session import DockerSession
from orchestrator.engines.images import Built, ImageBuilder
from orchestrator.engines.locks import exclusive
from orchestrator.engines.owner import Owner
from orchestrator.engines.pins import read_pins, stack_pins
from orchestrator.errors import InfrastructureError
from orchestrator.job import Job
from orchestrator.settings import Settings

_PROBE_S = 4
_OLDEST_API = (1, 40)
"""Of Docker 19.03: the first whose BuildKit has cache mounts and secrets."""


class DockerEngine:
    """Builds images with BuildKit's command-line client, runs containers through the SDK."""

    name = "docker"

    def __init__(
        self,
        root: Path,
        settings: Settings,
        *,
        environ: Mapping[str, str] | None = None,
        connect: Callable[[Host, int], docker.APIClient] = connect,
    ) -> None:
        """An engine for the repository at `root`; nothing is asked yet.

        Args:
            root: of the repository.
            settings: of this machine.
            environ: environment variables; None: this process's.
            connect: gives a client of the engine, or raises InfrastructureError.
        """
        self._root = root.resolve()
        self._settings = settings
        self._environ = dict(os.environ if environ is None else environ)
        self._connect = connect

    @cached_property
    def _host(self) -> Host:
        return find_host(self._environ)

    @cached_property
    def _client(self) -> docker.APIClient:
        return self._connect(self._host, CALL_S)

    @cached_property
    def _info(self) -> EngineInfo:
        return engine_info(self._client)

    def probe(self) -> Availability:
        """Whether an engine answers that can do what we need; at most five seconds."""
        answers: list[Availability] = []
        thread = threading.Thread(
            target=lambda: answers.append(self._ask()), daemon=True, name="lh-probe"
        )
        thread.start()
        thread.join(_PROBE_S + 1.0)
        if answers:
            return answers[0]
        return Availability(usable=False, reason=f"no answer in time from {self._host}")

    def _ask(self) -> Availability:
        try:
            client = self._connect(self._host, _PROBE_S)
            try:
                with engine_errors(f"asking the engine at {self._host} for its version"):
                    version = client.version()
            finally:
                client.close()
        except InfrastructureError as error:
            return Availability(usable=False, reason=str(error).rstrip("."))
        return _judge(version, self._host)

    def prepare(self, stack: str, progress: Progress, *, force: bool = False) -> Environment:
        """Builds a stack's image if it is missing, or if told to. See `engines.base.Engine`."""
        pins = read_pins(self._root)
        stack_pins(pins, stack)
        builder = ImageBuilder(
            self._root, pins, self._settings, self._client, self._host, self._environ
        )
        built = None if force else builder.find(stack)
        if built is None:
            lock = self._root / self._settings.state / "images.lock"
            with exclusive(lock, f"stack {stack}", progress):
                built = builder.ensure(stack, progress, force=force)
        return self._environment(stack, built, pins.llvm.version)

    def recall(self, stack: str, digest: str) -> Environment | None:
        """The image of an earlier job, whatever it is called now. See `engines.base.Engine`."""
        image = find_image(self._client, digest)
        if image is None:
            return None
        return Environment(
            stack=stack,
            engine=self.name,
            reference=digest,
            digest=image.id,
            cached=True,
            facts={"engine": f"Docker {self._info.version} at {self._host.url}"},
        )

    def _environment(self, stack: str, built: Built, llvm: str) -> Environment:
        base = built.base
        return Environment(
            stack=stack,
            engine=self.name,
            reference=built.tag,
            digest=built.image.id,
            cached=built.cached,
            facts={
                "engine": f"Docker {self._info.version} at {self._host.url}",
                "llvm": llvm,
                "base": f"{base.reference}, {base.origin}",
                "base_id": base.image.id,
                "size": f"{built.image.size / 1e9:.2f} GB",
            },
        )

    def start(self, job: Job, job_dir: Path, environment: Environment) -> DockerSession:
        """A job in a container, which exists only inside the session's `with` block.

        Raises:
            InfrastructureError: the engine does not answer; that it refuses is told by `with`.
        """
        user = self._user()
        folder = job_dir.resolve()
        if user == containers.NOBODY:
            _let_all_read([folder, *folder.rglob("*")])
        return DockerSession(
            self._client,
            containers.describe(
                job,
                folder,
                image=environment.digest,
                workspace=self._root,
                user=user,
                engine=self._info,
                settings=self._settings,
            ),
        )

    def _user(self) -> str:
        if os.geteuid() == 0 or self._info.remapped:
            return containers.NOBODY
        return f"{os.geteuid()}:{os.getegid()}"

    def sweep(self) -> tuple[str, ...]:
        """Removes containers of this workspace whose orchestrator is dead; returns their names.

        Raises:
            InfrastructureError: the engine does not answer.
        """
        label = f"{containers.WORKSPACE_LABEL}={self._root}"
        with engine_errors("looking for containers that were left behind"):
            found = self._client.containers(all=True, filters={"label": [label]})
        removed = []
        for entry in found:
            owner = Owner.parse((entry.get("Labels") or {}).get(containers.OWNER_LABEL, ""))
            if owner is None or not owner.gone():
                continue
            # one that cannot be removed now is found again by the next sweep
            with contextlib.suppress(InfrastructureError), engine_errors("removing a container"):
                try:
                    self._client.remove_container(entry["Id"], v=True, force=True)
                except NotFound:
                    continue
                removed.append((entry.get("Names") or [entry["Id"]])[0].removeprefix("/"))
        return tuple(removed)


def _judge(version: Mapping[str, object], host: Host) -> Availability:
    """What an engine's answer says about whether it will do."""
    number, api = str(version.get("Version", "?")), str(version.get("ApiVersion", "0.0"))
    system = str(version.get("Os", "linux"))
    if system != "linux":
        reason = f"the engine at {host} runs {system} containers; Linux ones are needed"
        return Availability(usable=False, reason=reason)
    if tuple(int(part) for part in api.split(".")) < _OLDEST_API:
        reason = f"Docker {number} at {host} is too old; 19.03 or later is needed"
        return Availability(usable=False, reason=reason)
    return Availability(usable=True, reason=f"Docker {number} at {host.url}")


def _let_all_read(paths: Iterable[Path]) -> None:
    """Opens a job's own files to the unprivileged user that reads them inside."""
    for path in paths:
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        wanted = mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        if wanted != mode:
            path.chmod(stat.S_IMODE(wanted))
