"""The image that every stack stands on: found, pulled, or made from the distribution's packages."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import docker

from orchestrator.config.models import Pins
from orchestrator.engines import apt
from orchestrator.engines.base import Progress
from orchestrator.engines.commands import ProgramTimeoutError, follow
from orchestrator.engines.docker_host import Image, find_image
from orchestrator.errors import InfrastructureError
from orchestrator.settings import Settings

_FIRST_WORD_S = 20.0
"""A registry that has not even named the image by then will not."""
_PULL_S = 180.0
# mmdebstrap leaves copies of this machine's own
_FORGET = """--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf\""""
_TELLING = re.compile(r"I: (running apt-get|downloading|extracting|installing|creating tarball)")
_MAKE_QUIET_S = 300.0
_MAKE_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base image, in the engine."""

    reference: str
    image: Image

    @property
    def origin(self) -> str:
        """Where it came from, in words."""
        return "from its registry" if self.image.pulled else "made on this machine"


def find_base(client: docker.APIClient, settings: Settings, pins: Pins) -> Base | None:
    """The base that is already there: the one asked for, else the one we made in its place."""
    names = [settings.base_image] if settings.base_image else [pins.base, made_name(pins)]
    for name in names:
        if (image := find_image(client, name)) is not None:
            return Base(reference=name, image=image)
    return None


def made_name(pins: Pins) -> str:
    """What the base is called when we make it."""
    return f"lh/base:{pins.base_suite}"


def get_base(
    client: docker.APIClient,
    cli: Path,
    environ: Mapping[str, str],
    settings: Settings,
    pins: Pins,
    progress: Progress,
) -> Base:
    """Pulls the base, or makes it with mmdebstrap where no registry answers.

    A base that the user named is never replaced by another.

    `cli` is Docker's command-line client, `environ` the environment in which it talks to the same
    engine as `client`.

    Raises:
        InfrastructureError: neither works; says how each failed and what to do.
    """
    wanted = settings.base_image or pins.base
    progress(f"base image: pulling {wanted}")
    refusal = _pull(cli, environ, wanted)
    name = wanted
    if refusal:
        mmdebstrap = shutil.which("mmdebstrap", path=environ.get("PATH"))
        if settings.base_image:
            raise InfrastructureError(
                f"LH_BASE_IMAGE: {wanted} is not here and cannot be pulled: {refusal}. "
                "Load it with `docker load`, or unset LH_BASE_IMAGE."
            )
        if mmdebstrap is None:
            raise InfrastructureError(
                f"the base image {wanted} is not here and cannot be pulled: {refusal}. Name one "
                "that can in LH_BASE_IMAGE (a mirror's copy, or one that was loaded), or install "
                "mmdebstrap and it will be made from the distribution's packages."
            )
        progress(f"base image: no registry ({refusal}); making it with mmdebstrap")
        name = made_name(pins)
        _make(mmdebstrap, cli, environ, settings, pins, progress)
    image = find_image(client, name)
    if image is None:
        raise InfrastructureError(
            f"the base image {name} was fetched, and the engine does not have it: {cli} talks to "
            "another engine."
        )
    return Base(reference=name, image=image)


def _pull(cli: Path, environ: Mapping[str, str], reference: str) -> str:
    """Empty when it was pulled, else why not."""
    last = "it said nothing"

    def keep(line: str) -> None:
        nonlocal last
        last = line.strip() or last

    try:
        status = follow(
            [str(cli), "pull", reference],
            environ=environ,
            on_line=keep,
            first_s=_FIRST_WORD_S,
            total_s=_PULL_S,
        )
    except ProgramTimeoutError:
        return f"no answer in time, {last}" if last != "it said nothing" else "no answer"
    return "" if status == 0 else last.removeprefix("Error response from daemon: ").rstrip(".")


def _make(
    mmdebstrap: str,
    cli: Path,
    environ: Mapping[str, str],
    settings: Settings,
    pins: Pins,
    progress: Progress,
) -> None:
    sources = apt_sources(settings, pins)
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        if _TELLING.match(line):
            progress(f"base image: {line[3:].rstrip('.')}")

    with tempfile.TemporaryDirectory(prefix="lh-base-") as folder:
        tar = Path(folder) / "base.tar"
        argv = [mmdebstrap, "--variant=minbase", "--include=ca-certificates", _FORGET]
        argv.append(pins.base_suite)
        argv += [str(tar), *(source.line() for source in sources)]
        if follow(argv, environ=environ, on_line=tell, quiet_s=_MAKE_QUIET_S, total_s=_MAKE_S):
            raise InfrastructureError(_failed("mmdebstrap", said, settings))
        progress(f"base image: importing it as {made_name(pins)}")
        argv = [str(cli), "import", "--change", 'CMD ["bash"]', str(tar), made_name(pins)]
        if follow(argv, environ=environ, on_line=said.append, quiet_s=_MAKE_QUIET_S):
            raise InfrastructureError(_failed("docker import", said, settings))


def apt_sources(settings: Settings, pins: Pins) -> tuple[apt.Source, ...]:
    """Where the base's packages come from; empty: mmdebstrap knows the distribution's own."""
    if settings.apt_sources:
        return apt.setting_sources(settings.apt_sources, pins.base_suite)
    return apt.host_sources(pins.base_suite)


def _failed(program: str, said: list[str], settings: Settings) -> str:
    errors = [line for line in said if line.startswith(("E:", "Err:", "Error"))] or said[-8:]
    text = "\n".join(f"    {line}" for line in errors[-8:])
    if any("No space left on device" in line for line in said):
        advice = "The disk is full; TMPDIR names another place for what mmdebstrap unpacks."
    elif settings.apt_sources:
        advice = "Check LH_APT_SOURCES, or name a base image in LH_BASE_IMAGE."
    else:
        advice = "Name a mirror in LH_APT_SOURCES, or a base image in LH_BASE_IMAGE."
    return f"the base image could not be made: {program} failed:\n{text}\n{advice}"
