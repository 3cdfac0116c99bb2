"""What an agent's machine needs to be handed jobs: systemd units, backends' configuration. Pure.

Units: https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html. Buildkite:
https://buildkite.com/docs/agent/self-hosted/configure. No secret is in any of these texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

WORKER_UNIT = "lighthouse-worker.service"
RUNNER_UNIT = "lighthouse-runner.service"
CONFIGURE = "configure.sh"
"""Makes GitHub's runner known to GitHub, once."""
RUNNER = "runner"
"""Where GitHub's runner is unpacked, in the agent's folder."""
SETTINGS_FILE = "settings.env"
"""Settings of the machine, as units read them: it may name proxies with passwords."""
TOKEN_FILE = "token.env"  # noqa: S105  the name of a file
"""Buildkite's agent token, as units read it."""
TOKEN_VARIABLE = "BUILDKITE_AGENT_TOKEN"  # noqa: S105  the name of a variable
STOP_S = 120
"""To stop: containers are removed within a minute of SIGTERM, and results are written."""

_MEMORY = 4 << 30
"""Of what handles one job; its cells are in a container, with limits of their own."""
_SHARED = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  to keep out of them
_KEPT = re.compile(
    r"DOCKER_(HOST|CONTEXT|CONFIG|TLS_VERIFY|CERT_PATH)|(?i:(https?|no|all)_proxy)"
    r"|PIP_[A-Z_]+|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|LH_(PYTHON|WHEELS|PIP_ARGS|CA_BUNDLE|LLVM_PREFIX|DOCKER_CLI|BASE_IMAGE|APT_SOURCES"
    r"|BUILD_ARGS|SCRATCH|GPU_DEVICE|ROCM|LOCKS)"
)
"""What jobs need. The other settings of ours are a unit's own, or dispatchers', keys among them."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """An agent on its machine."""

    agent: str
    """`<vendor>-<name>`."""
    pools: tuple[str, ...]
    user: str
    """Who runs its jobs: the one that has its key."""
    home: Path
    """Of that user."""
    root: Path
    """The checkout."""
    state: Path
    """Where its key, images' locks and caches are."""
    folder: Path
    """Its own."""
    programs: Path
    """The folder with `lh-ci` and `buildbot-worker`."""
    jobs: int
    """At the same time."""
    disk_bytes: int
    """What a job may take."""
    contained: bool
    """Cells run in containers."""
    device: bool
    """It serves a pool of real GPUs."""
    locks: Path = Path("/run/lock")
    """Where jobs of the whole machine lock its GPUs."""

    def environment(self) -> dict[str, str]:
        """What every command on its behalf is told, in this checkout."""
        return {"LH_AGENT": self.agent, "LH_ROOT": str(self.root), "LH_STATE": str(self.state)}

    def elsewhere(self) -> dict[str, str]:
        """What commands in a checkout of each job's own commit are told.

        `.ci/setup` makes their environment in the cache, and the user's home is read-only.
        """
        own = {name: value for name, value in self.environment().items() if name != "LH_ROOT"}
        return {**own, "XDG_CACHE_HOME": str(self.folder / "cache")}


def can_name(path: Path) -> bool:
    """Whether units, and Buildkite's and shells' files, can have a path in quotes as it is."""
    text = str(path)
    return text.isprintable() and not set(text) & set("\"'\\$%`")


def buildkite_tags(agent: str, pool: str) -> tuple[str, ...]:
    """What a Buildkite agent says of itself, as `backends.buildkite.steps` asks for."""
    return ("queue=lighthouse", f"pool={pool}", "docker=true", f"agent={agent}")


def github_labels(agent: str, pools: Iterable[str]) -> tuple[str, ...]:
    """Of a runner, beside GitHub's own `self-hosted`, as `backends.github.matrix` asks for."""
    return ("lighthouse", *(f"pool-{pool}" for pool in pools), f"agent-{agent}")


def buildbot_files(seat: Seat) -> dict[str, str]:
    """Name to text. `buildbot.tac` is made by `backends.buildbot.folders`."""
    program = seat.programs / "buildbot-worker"
    return {
        WORKER_UNIT: _unit(
            seat,
            about=f"Lighthouse CI: Buildbot worker {seat.agent}",
            command=[str(program), "start", "--nodaemon", str(seat.folder)],
            environment=seat.environment(),
        )
    }


def buildkite_unit(pool: str) -> str:
    """The name of the unit of one pool's agent."""
    return f"lighthouse-agent-{pool}.service"


def buildkite_files(seat: Seat, program: Path) -> dict[str, str]:
    """Name to text: an agent for each pool, for a step asks for one pool."""
    files = {}
    for pool in seat.pools:
        config = f"buildkite-agent-{pool}.cfg"
        files[config] = _buildkite_config(seat, pool)
        files[buildkite_unit(pool)] = _unit(
            seat,
            about=f"Lighthouse CI: Buildkite agent {seat.agent} for {pool}",
            command=[str(program), "start", "--config", str(seat.folder / config)],
            environment=seat.elsewhere(),
            secrets=seat.folder / TOKEN_FILE,
        )
    return files


def github_files(seat: Seat, repository: str) -> dict[str, str]:
    """Name to text. `repository`: `owner/name`."""
    runner = seat.folder / RUNNER
    labels = ",".join(github_labels(seat.agent, seat.pools))
    configure = f"""\
#!/bin/sh
# Written by `lh-ci register`. Makes this machine a runner of {repository}, once.
#
# First unpack GitHub's runner, 2.336 or later, into
#   {runner}
# The token is on the page "New self-hosted runner" of the repository's settings, for an hour:
#   RUNNER_TOKEN=… sh {CONFIGURE}
set -eu
cd '{runner}'
exec ./config.sh --unattended --replace --url https://github.com/{repository} \\
  --name {seat.agent} --labels {labels} \\
  --token "${{RUNNER_TOKEN:?set RUNNER_TOKEN to what GitHub shows}}"
"""
    unit = _unit(
        seat,
        about=f"Lighthouse CI: GitHub runner {seat.agent}",
        command=[str(runner / "run.sh")],
        environment=seat.elsewhere(),
        folder=runner,
    )
    return {CONFIGURE: configure, RUNNER_UNIT: unit}


def settings(environ: Mapping[str, str]) -> str:
    """The settings of this machine that its jobs need, for `EnvironmentFile=`.

    What a health job ran with, the service has too: proxies, certificates, mirrors.
    """
    kept = {
        name: re.sub(r'(["\\$`])', r"\\\1", value)  # as in a shell's double quotes
        for name, value in sorted(environ.items())
        if _KEPT.fullmatch(name) and value.isprintable()
    }
    lines = [f'{name}="{value}"\n' for name, value in kept.items()]
    return "".join(["# Settings of this machine. Written by `lh-ci register`.\n", *lines])


def _buildkite_config(seat: Seat, pool: str) -> str:
    folder = seat.folder / pool
    return f"""\
# Written by `lh-ci register`. The agent's token is in {TOKEN_FILE}, as {TOKEN_VARIABLE}=….
name="{seat.agent}-{pool}-%spawn"
tags="{",".join(buildkite_tags(seat.agent, pool))}"
spawn={1 if seat.device else seat.jobs}
build-path="{folder / "builds"}"
hooks-path="{folder / "hooks"}"
plugins-path="{folder / "plugins"}"
sockets-path="{folder / "sockets"}"
# scripts of the repository, and nothing else; see `allowed-repositories` to name it too
no-command-eval=true
no-local-hooks=true
# containers are removed before a job's processes are killed
cancel-grace-period={STOP_S // 2}
"""


def _unit(
    seat: Seat,
    *,
    about: str,
    command: Iterable[str],
    environment: Mapping[str, str],
    secrets: Path | None = None,
    folder: Path | None = None,
) -> str:
    """A service that opens connections. `folder`: where it works; None: the agent's."""
    words = " ".join(_quoted(word) for word in command)
    files = [f"-{seat.folder / SETTINGS_FILE}", *([str(secrets)] if secrets else [])]
    lines = [
        "# Written by `lh-ci register`; it writes it again. No secret is in it.",
        "[Unit]",
        f"Description={about}",
        "Wants=network-online.target",
        "After=network-online.target docker.service",
        "",
        "[Service]",
        "Type=exec",
        f"User={seat.user}",
        f"WorkingDirectory={folder or seat.folder}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
        *(f"EnvironmentFile={name}" for name in files),
        f"ExecStart={words}",
        "Restart=on-failure",
        "RestartSec=30",
        "# a job removes its containers, and writes what it knows",
        f"TimeoutStopSec={STOP_S}",
        "",
        *_limits(seat),
        "",
        "# connections go out, and none comes in",
        "SocketBindDeny=any",
        *_hardening(seat),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _limits(seat: Seat) -> list[str]:
    lines = [
        "# of the owner's terms: no file is larger than a job's disk",
        f"LimitFSIZE={seat.disk_bytes}",
        "TasksMax=4096",
    ]
    if seat.contained:
        lines.append(f"MemoryMax={_MEMORY * seat.jobs}")
    return lines


def _hardening(seat: Seat) -> list[str]:
    # a private /tmp is another one: not that where mounts of containers are looked up, and where
    # locks of GPUs may be
    places = (seat.state, seat.folder, seat.root, seat.programs)
    shared = seat.device or any(path.is_relative_to(each) for path in places for each in _SHARED)
    # the leading - is for what need not be there; Docker's client keeps its builders in its folder
    writable = [
        *(str(path) for path in dict.fromkeys((seat.state, seat.folder))),
        f"-{seat.home / '.docker'}",
        *(map(str, _SHARED) if shared else ()),
        *([f"-{seat.locks}"] if seat.device else []),
    ]
    lines = [
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        f"ReadWritePaths={' '.join(map(_quoted, writable))}",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "LockPersonality=yes",
        "SystemCallArchitectures=native",
    ]
    if not shared:
        lines.append("PrivateTmp=yes")
    if not seat.device:
        # else the GPU is looked at, and the kernel's log for what it says of it
        lines += ["PrivateDevices=yes", "ProtectKernelLogs=yes"]
    if seat.user != "root":
        lines.append("CapabilityBoundingSet=")
    return lines


def _quoted(text: str) -> str:
    """One word of a unit. `can_name` holds for every path in it."""
    return f'"{text}"'
