"""Choosing a command-line client that builds with BuildKit, and its arguments.

The SDK cannot: it builds without BuildKit, so without cache mounts and secrets.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.engines.docker_host import Host
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings

_LAST_PLACE = Path("/usr/bin/docker")
_ASK_S = 15.0
# from this release on, the client leaves BuildKit to the buildx plugin
_FIRST_WITHOUT_BUILDKIT = 23


@dataclass(frozen=True, kw_only=True)
class Cli:
    """A client that can build."""

    path: Path
    version: str
    buildx: bool
    """By its plugin; else by itself."""

    def __str__(self) -> str:
        how = "buildx" if self.buildx else "its own BuildKit"
        return f"{self.path} {self.version} with {how}"


@dataclass(frozen=True, kw_only=True)
class Build:
    """What to build, and how."""

    tag: str
    context: Path
    args: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    """Take nothing from the cache."""
    extra: tuple[str, ...] = ()
    """Arguments of the user's."""


def build_argv(cli: Cli, build: Build, host: Host) -> list[str]:
    """The command line that builds an image and leaves it in the engine."""
    argv = [str(cli.path)]
    # the builder must be the engine's own: another one would not see our local images
    argv += ["buildx", "build", "--builder", host.context, "--load"] if cli.buildx else ["build"]
    argv += ["--progress", "plain", "--tag", build.tag]
    for name, value in build.args.items():
        argv += ["--build-arg", f"{name}={value}"]
    for name, path in build.secrets.items():
        argv += ["--secret", f"id={name},src={path}"]
    for name, value in build.labels.items():
        argv += ["--label", f"{name}={value}"]
    if build.fresh:
        argv.append("--no-cache")
    return [*argv, *build.extra, str(build.context)]


def build_environment(cli: Cli, host: Host, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for `build_argv`."""
    result = host.cli_environment(environ)
    result.pop("BUILDX_BUILDER", None)
    # a plain image, not an index of image and attestation, whose id differs with every build
    result["BUILDX_NO_DEFAULT_ATTESTATIONS"] = "1"
    if not cli.buildx:
        result["DOCKER_BUILDKIT"] = "1"
    return result


def find_cli(settings: Settings, environ: Mapping[str, str]) -> Cli:
    """The first client that can build with BuildKit: `LH_DOCKER_CLI` alone, or any on `PATH`.

    Raises:
        InfrastructureError: none can; says what each of them answered.
    """
    tried: list[str] = []
    for path in [settings.docker_cli] if settings.docker_cli else _candidates(environ):
        found = _examine(path, environ)
        if isinstance(found, Cli):
            return found
        tried.append(f"{path}: {found}")
    looked = "; ".join(tried) or "there is no `docker` on PATH"
    raise InfrastructureError(
        f"no Docker client here can build images with BuildKit ({looked}). Install Docker's buildx "
        "plugin, or name a client that has it in LH_DOCKER_CLI."
    )


def _candidates(environ: Mapping[str, str]) -> Iterable[Path]:
    seen: set[str] = set()
    folders = [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part]
    for path in [*(folder / "docker" for folder in folders), _LAST_PLACE]:
        # not Path.is_file, which raises for a folder on PATH that this user may not read
        if shutil.which(path) and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path


def _examine(path: Path, environ: Mapping[str, str]) -> Cli | str:
    """The client there, or why it will not do."""
    status, told = _ask([str(path), "--version"], environ)
    match = re.search(r"Docker version (\d+)(\.[^\s,]+)?", told)
    if match is None:
        return f"it is not Docker's client ({(told.splitlines() or [f'exit {status}'])[0]:.80})"
    version = f"{match[1]}{match[2] or ''}"
    status, told = _ask([str(path), "buildx", "version"], environ)
    if status == 0:
        return Cli(path=path, version=version, buildx=True)
    if int(match[1]) < _FIRST_WITHOUT_BUILDKIT:
        return Cli(path=path, version=version, buildx=False)
    return f"version {version} without the buildx plugin"


def _ask(argv: list[str], environ: Mapping[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except OSError as error:
        return 127, error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return 124, "no answer"
    return done.returncode, (done.stdout or done.stderr).strip()
