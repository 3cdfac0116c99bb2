"""What `register` puts on an agent's machine beside its key, so that a backend reaches it."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.backends.buildbot import folders
from orchestrator.backends.buildbot.fleet import write_secret
from orchestrator.backends.gpu_lock import usual_folder
from orchestrator.cli.app import App
from orchestrator.config.objects import Config
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet import units
from orchestrator.fleet.models import AgentFile
from orchestrator.results.files import unwritable, write_atomically

AGENTS = "agents"
"""In the state folder: `<id>.json` for each agent, and `<id>/` unless its owner chose another."""
NOBODY = "OWNER/REPOSITORY"
"""Of a runner whose repository was not told."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """How the backend is reached, as the command line says; empty: as it was."""

    folder: Path | None = None
    master: str = ""
    """`HOST:PORT` of Buildbot's; `OWNER/REPOSITORY` on GitHub."""
    connection: str = ""
    """Instead: a Twisted endpoint."""
    password: str = ""
    """Of Buildbot's worker, or the token of Buildkite's agents."""


@dataclass(frozen=True, kw_only=True)
class Seated:
    """`agents/<id>.json`: what was written for an agent on this machine."""

    agent: str
    backend: str
    folder: str
    """Absolute."""
    files: tuple[str, ...]
    """In the folder."""
    contained: bool
    """Its cells run in containers."""
    master: str = ""
    connection: str = ""

    @property
    def has_master(self) -> bool:
        """Whether it is known where Buildbot's is."""
        return self.backend == "buildbot" and bool(self.master or self.connection)


def read(state: Path, agent: str) -> Seated | None:
    """What was written; None: nothing. Raises InfrastructureError for a damaged record."""
    path = _record(state, agent)
    try:
        return records.decode(Seated, json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"{path} cannot be used: {error}. Remove it, and run lh-ci register again"
        ) from error


def names(state: Path) -> tuple[str, ...]:
    """The agents that something was written for."""
    return tuple(sorted(path.stem for path in (state / AGENTS).glob("*.json")))


def take(
    app: App, agent: AgentFile, access: Access, *, config: Config, contained: bool
) -> Seated | None:
    """Writes what the agent's backend needs, or writes it again; None: it needs nothing.

    What another backend needed, before the agent moved, goes.

    Raises:
        UsageError: its folder is another one, or something of another backend's works in it.
        InfrastructureError: something cannot be written.
    """
    before = read(app.state, agent.id)
    if before and before.backend != agent.backend:
        access = _move(app.state, before, access)
        before = None
    if agent.backend == "local":
        return None
    seated = _plan(app.state, agent, access, before, contained=contained)
    for path in (app.root, app.state, Path(seated.folder)):
        if not units.can_name(path):
            raise UsageError(
                f"{path!s}: services cannot have a path with quotes, `$`, `%` or backslashes. Use "
                "another folder: LH_STATE, --folder, or another place for the checkout"
            )
    seat = _seat(app, agent, Path(seated.folder), config=config, contained=contained)
    texts = _texts(seat, seated, agent.backend, app.services.environ)
    own = [folders.TAC, folders.ADMIN, folders.HOST] if seated.has_master else []
    seated = dataclasses.replace(seated, files=tuple(sorted({*texts, *own, units.SETTINGS_FILE})))
    # the record first: what was written can be taken away, wherever this ends
    write_atomically(_record(app.state, agent.id), records.dumps(seated, indent=1).encode() + b"\n")
    for name, text in texts.items():
        write_atomically(seat.folder / name, text.encode())
    write_secret(seat.folder / units.SETTINGS_FILE, units.settings(app.services.environ).rstrip())
    if own:
        folders.write_worker(seat.folder, _worker(seat, seated, access, agent))
    elif access.password:
        name = "" if agent.backend == "buildbot" else f"{units.TOKEN_VARIABLE}="
        write_secret(seat.folder / _secret(agent.backend), f"{name}{access.password}")
    for stale in set(before.files if before else ()) - set(seated.files):
        (seat.folder / stale).unlink(missing_ok=True)
    return seated


def leave(state: Path, seated: Seated) -> tuple[list[Path], list[Path]]:
    """Takes away what was written. Gives what went, and what stays.

    The agent's own folder below the state folder goes as a whole; of one that its owner chose, only
    what was written goes.

    Raises:
        UsageError: something works in it.
        InfrastructureError: something cannot be removed.
    """
    folder = Path(seated.folder)
    _check_idle(folder, seated)
    gone: list[Path] = []
    try:
        if folder == _own(state, seated.agent):
            if folder.exists():
                shutil.rmtree(folder)
                gone.append(folder)
        else:
            for name in (*seated.files, _secret(seated.backend)):
                if (folder / name).exists():
                    (folder / name).unlink()
                    gone.append(folder / name)
            for each in (folder / "info", folder):
                with contextlib.suppress(OSError):  # not empty, or not there
                    each.rmdir()
        _record(state, seated.agent).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return gone, [folder] if folder.exists() else []


# --- how --------------------------------------------------------------------------------------


def _record(state: Path, agent: str) -> Path:
    return state / AGENTS / f"{agent}.json"


def _own(state: Path, agent: str) -> Path:
    return state / AGENTS / agent


def _secret(backend: str) -> str:
    return folders.PASSWORD_FILE if backend == "buildbot" else units.TOKEN_FILE


def _move(state: Path, before: Seated, access: Access) -> Access:
    """Leaves the old backend; a folder that the owner chose is that of the new one, too."""
    leave(state, before)
    folder = Path(before.folder)
    chosen = folder if folder != _own(state, before.agent) else None
    return dataclasses.replace(access, folder=access.folder or chosen)


def _plan(
    state: Path, agent: AgentFile, access: Access, before: Seated | None, *, contained: bool
) -> Seated:
    chosen = access.folder.absolute() if access.folder else None
    folder = chosen or (Path(before.folder) if before else _own(state, agent.id))
    if before and folder != Path(before.folder):
        raise UsageError(
            f"the folder of {agent.id} is {before.folder}. To have another one, begin with "
            f"lh-ci unregister {agent.id}"
        )
    again = not (access.master or access.connection)
    return Seated(
        agent=agent.id,
        backend=agent.backend,
        folder=str(folder),
        files=(),
        contained=contained,
        master=before.master if before and again else access.master,
        connection=before.connection if before and again else access.connection,
    )


def _seat(
    app: App, agent: AgentFile, folder: Path, *, config: Config, contained: bool
) -> units.Seat:
    gpus = [pool.gpu for name, pool in config.matrix.pools.items() if name in agent.pools]
    return units.Seat(
        agent=agent.id,
        pools=agent.pools,
        user=user(),
        home=Path.home(),
        root=app.root,
        state=app.state,
        folder=folder,
        programs=folders.programs(),
        jobs=agent.terms.jobs,
        disk_bytes=agent.terms.disk,
        contained=contained,
        locks=app.settings.locks or usual_folder(),
        device=any(gpu is not None and gpu.device not in ("none", "software") for gpu in gpus),
    )


def user() -> str:
    """The one at hand, whose agent it is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # without a name, as in some containers
        return str(os.getuid())


def _texts(
    seat: units.Seat, seated: Seated, backend: str, environ: Mapping[str, str]
) -> dict[str, str]:
    if backend == "buildbot":
        return units.buildbot_files(seat)
    if backend == "github":
        return units.github_files(seat, seated.master or NOBODY)
    found = shutil.which("buildkite-agent", path=environ.get("PATH"))
    return units.buildkite_files(seat, Path(found or "/usr/bin/buildkite-agent"))


def _worker(
    seat: units.Seat, seated: Seated, access: Access, agent: AgentFile
) -> folders.WorkerPlan:
    host, port = folders.parse_master(seated.master) if seated.master else ("", 0)
    return folders.WorkerPlan(
        name=agent.id,
        host=host,
        port=port,
        connection=seated.connection,
        password=access.password,
        root=seat.root,
        admin=f"{agent.owner} <{agent.contact}>",
        environ=seat.environment(),
    )


def _check_idle(folder: Path, seated: Seated) -> None:
    """Raises UsageError when a process works in the folder, or a runner is known to GitHub."""
    if (folder / units.RUNNER / ".runner").exists():
        raise UsageError(
            f"GitHub still knows the runner. First: cd {folder / units.RUNNER} && ./config.sh "
            "remove --token … (from the repository's settings)"
        )
    if found := [pid for pid in _processes(folder) if pid != os.getpid()]:
        stop = f"buildbot-worker stop {folder}" if seated.backend == "buildbot" else "stop it"
        raise UsageError(
            f"process {found[0]} works in {folder}. First: {stop}, or stop its service"
        )


def _processes(folder: Path) -> list[int]:
    """Of this user, with their current folder in `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or is somebody else's
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return sorted(found)
