"""Finding Docker's engine, talking to it, and saying in words why it does not answer."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import requests
import urllib3
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, ImageNotFound
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env

from orchestrator.errors import InfrastructureError

DEFAULT_SOCKET = "/var/run/docker.sock"
CALL_S = 60
"""For one call to the engine: a loaded one takes its time."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Where the engine is, for the SDK and for the command-line client alike."""

    url: str
    origin: str
    """Who said so, in words."""
    tls: TLSConfig | None = None
    context: str = "default"
    """Docker's name for it, which is also the name of its BuildKit builder."""

    def __str__(self) -> str:
        return f"{self.url} ({self.origin})"

    def cli_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment in which Docker's command-line client talks to the same engine."""
        result = dict(environ)
        if self.context != "default":
            result.pop("DOCKER_HOST", None)
            return result | {"DOCKER_CONTEXT": self.context}
        result.pop("DOCKER_CONTEXT", None)
        return result | {"DOCKER_HOST": self.url}


def find_host(environ: Mapping[str, str]) -> Host:
    """Where Docker's own tools would look: `DOCKER_HOST`, the current context, the usual sockets.

    Raises:
        InfrastructureError: what these say makes no sense.
    """
    try:
        if environ.get("DOCKER_HOST"):
            named = kwargs_from_env(dict(environ))
            return Host(url=named["base_url"], origin="DOCKER_HOST", tls=named.get("tls"))
        context = ContextAPI.get_context(environ.get("DOCKER_CONTEXT") or None)
        if context is not None and context.Name != "default" and context.Host:
            return Host(
                url=context.Host,
                origin=f"Docker context {context.Name}",
                tls=context.TLSConfig,
                context=context.Name,
            )
    except Exception as error:
        # the SDK raises bare Exceptions for a broken context file
        raise InfrastructureError(f"Docker's own configuration is broken: {error}") from error
    rootless = Path(environ.get("XDG_RUNTIME_DIR", "/nonexistent")) / "docker.sock"
    if not Path(DEFAULT_SOCKET).exists() and rootless.exists():
        return Host(url=f"unix://{rootless}", origin="rootless; DOCKER_HOST is not set")
    return Host(url=f"unix://{DEFAULT_SOCKET}", origin="DOCKER_HOST is not set")


def connect(host: Host, timeout_s: int = CALL_S) -> docker.APIClient:
    """A client of the engine, once it answered.

    Raises:
        InfrastructureError: it does not; says what to do about it.
    """
    if host.url.startswith("unix://"):
        _knock(host)
    try:
        return docker.APIClient(
            base_url=host.url, version="auto", timeout=timeout_s, tls=host.tls or False
        )
    except (DockerException, requests.RequestException, OSError, ValueError) as error:
        raise InfrastructureError(f"no engine answers at {host}: {brief(error)}.") from error


def _knock(host: Host) -> None:
    """The plain cause, which the SDK buries in several layers of exceptions."""
    path = host.url.removeprefix("unix://")
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(3.0)
        try:
            door.connect(path)
        except PermissionError as error:
            raise InfrastructureError(
                f"{_user()} may not use the engine at {host}. Join the group that may: "
                f"`sudo usermod -aG docker {_user()}`, then log in again."
            ) from error
        except FileNotFoundError as error:
            raise InfrastructureError(
                f"no engine at {host}: there is no such socket. Start Docker, or say in "
                "DOCKER_HOST where it is."
            ) from error
        except OSError as error:
            raise InfrastructureError(
                f"no engine answers at {host}: {error.strerror or error}. The socket is there: "
                "is Docker's daemon running?"
            ) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@contextlib.contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns what the SDK raises into our error: `doing: what happened`."""
    try:
        yield
    except APIError as error:
        text = str(error.explanation or error)
        if "no space left on device" in text:
            text = "the engine's disk is full. `docker system df` shows what is on it"
        elif "could not select device driver" in text:
            text = (
                "the engine has no NVIDIA runtime to hand the GPU over with: install the NVIDIA "
                "Container Toolkit, run `nvidia-ctk runtime configure`, and restart the engine"
            )
        raise InfrastructureError(f"{doing}: {text.rstrip('.')}.") from error
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise InfrastructureError(
            f"{doing}: the engine stopped answering: {brief(error)}."
        ) from error


def brief(error: BaseException) -> str:
    """The innermost cause, in one line."""
    seen: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None and inner not in seen:
        seen.append(inner)
        inside = next((a for a in inner.args if isinstance(a, BaseException)), None)
        inner = inside or inner.__cause__ or inner.__context__
    last = seen[-1]
    text = last.strerror if isinstance(last, OSError) and last.strerror else str(last)
    return (text.strip().splitlines() or [type(last).__name__])[0][:300].rstrip(".")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that the engine has."""

    id: str
    size: int
    """Bytes, of all its layers."""
    pulled: bool
    """It came from a registry."""


def find_image(client: docker.APIClient, reference: str) -> Image | None:
    """The image of that name or id, if the engine has it.

    Raises:
        InfrastructureError: the engine failed.
    """
    with engine_errors(f"looking for image {reference}"):
        try:
            found: dict[str, Any] = client.inspect_image(reference)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None
    return Image(
        id=found["Id"], size=int(found.get("Size") or 0), pulled=bool(found.get("RepoDigests"))
    )


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """What the engine can do, and with what."""

    version: str
    arch: str
    """As `uname -m` says."""
    cpus: int
    memory_bytes: int
    memory_limit: bool
    """It can limit a container's memory."""
    cpu_limit: bool
    pids_limit: bool
    remapped: bool
    """User ids inside are not those outside (rootless, or user namespaces)."""
    selinux: bool
    cdi: bool = False
    """It knows the Container Device Interface, and it is turned on."""


def engine_info(client: docker.APIClient) -> EngineInfo:
    """Asks the engine about itself.

    Raises:
        InfrastructureError: it failed.
    """
    with engine_errors("asking the engine about itself"):
        info = client.info()
    security = " ".join(info.get("SecurityOptions") or ())
    return EngineInfo(
        version=str(info.get("ServerVersion", "?")),
        arch=str(info.get("Architecture", "")),
        cpus=int(info.get("NCPU") or 1),
        memory_bytes=int(info.get("MemTotal") or 0),
        memory_limit=bool(info.get("MemoryLimit")),
        cpu_limit=bool(info.get("CpuCfsQuota")),
        pids_limit=bool(info.get("PidsLimit")),
        remapped="name=rootless" in security or "name=userns" in security,
        selinux="name=selinux" in security,
        cdi=bool(info.get("CDISpecDirs")),
    )
