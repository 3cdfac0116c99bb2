"""Docker's engine and its command-line client, played by a few lines of Python and shell."""

from __future__ import annotations

import io
import queue
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import docker
import requests
from docker.errors import APIError, ImageNotFound, NotFound

from orchestrator.engines.docker_host import EngineInfo, Host
from orchestrator.engines.stream import Chunk

HOST = Host(url="unix:///nowhere/docker.sock", origin="a test")
INFO: Mapping[str, Any] = {
    "ServerVersion": "20.10.24",
    "Architecture": "x86_64",
    "NCPU": 4,
    "MemTotal": 16 << 30,
    "MemoryLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


def engine(**changes: Any) -> EngineInfo:
    """What a usual engine says of itself."""
    usual: dict[str, Any] = {
        "version": "20.10.24",
        "arch": "x86_64",
        "cpus": 4,
        "memory_bytes": 16 << 30,
        "memory_limit": True,
        "cpu_limit": True,
        "pids_limit": True,
        "remapped": False,
        "selinux": False,
    }
    return EngineInfo(**usual | changes)


def refusal(status: int, explanation: str) -> APIError:
    """What the SDK raises when the engine says no."""
    response = requests.Response()
    response.status_code = status
    return APIError(explanation, response=response, explanation=explanation)


class FakeOutput:
    """An attached container's output; ends when told to."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[Chunk | None] = queue.Queue()
        self.closed = False
        self._response = requests.Response()
        self._response.raw = io.BytesIO()

    def write(self, out: bytes | None = None, err: bytes | None = None) -> None:
        self._chunks.put((out, err))

    def close(self) -> None:
        self.closed = True
        self._chunks.put(None)

    def __iter__(self) -> Iterator[Chunk]:
        while (chunk := self._chunks.get()) is not None:
            yield chunk


class FakeApi:
    """The calls of the SDK's client that the engine makes; every one is noted."""

    def __init__(self, images: Path | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.existing: list[dict[str, Any]] = []
        self.output = FakeOutput()
        self.state: dict[str, Any] = {"ExitCode": 0, "OOMKilled": False, "Error": ""}
        self.fail: dict[str, BaseException | Callable[[], BaseException | None]] = {}
        self.info_ = dict(INFO)
        self.version_ = {"Version": "20.10.24", "ApiVersion": "1.41", "Os": "linux"}
        self._images = images
        self._alive = False

    def client(self) -> docker.APIClient:
        return cast(docker.APIClient, self)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _call(self, name: str, argument: Any = None) -> None:
        self.calls.append((name, argument))
        failure = self.fail.get(name)
        if callable(failure):
            failure = failure()
        if failure is not None:
            raise failure

    def info(self) -> dict[str, Any]:
        self._call("info")
        return self.info_

    def version(self) -> dict[str, Any]:
        self._call("version")
        return self.version_

    def close(self) -> None:
        self._call("close")

    def inspect_image(self, reference: str) -> dict[str, Any]:
        self._call("inspect_image", reference)
        file = self._images / image_file(reference) if self._images else None
        if file is None or not file.is_file():
            raise ImageNotFound(reference)
        name, _, digests = file.read_text().partition("\n")
        return {"Id": f"sha256:{name.strip()}", "Size": 7, "RepoDigests": digests.split()}

    def remove_image(self, reference: str) -> None:
        self._call("remove_image", reference)

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, **options: Any) -> dict[str, Any]:
        self._call("create_container", options)
        self._alive = True
        return {"Id": "c0ffee", "Warnings": []}

    def attach(self, container: str, **options: Any) -> FakeOutput:
        self._call("attach", (container, options))
        return self.output

    def start(self, container: str) -> None:
        self._call("start", container)

    def kill(self, container: str) -> None:
        self._call("kill", container)
        self.state = {"ExitCode": 137, "OOMKilled": False, "Error": ""}
        self.output.close()

    def wait(self, container: str, timeout: int) -> dict[str, Any]:
        self._call("wait", timeout)
        return {"StatusCode": self.state["ExitCode"]}

    def inspect_container(self, container: str) -> dict[str, Any]:
        self._call("inspect_container", container)
        return {"State": self.state}

    def remove_container(self, container: str, *, v: bool, force: bool) -> None:
        self._call("remove_container", container)
        assert v
        assert force
        if not self._alive and not any(entry["Id"] == container for entry in self.existing):
            raise NotFound(container)
        self._alive = False

    def containers(self, *, all: bool, filters: Mapping[str, Any]) -> list[dict[str, Any]]:  # noqa: A002
        self._call("containers", filters)
        assert all
        return self.existing


def image_file(reference: str) -> str:
    """The name of the file that stands for an image."""
    return reference.replace("/", "_").replace(":", "_")


def add_image(folder: Path, reference: str, identity: str, *, pulled: bool = False) -> None:
    """Lets the engine have an image."""
    digests = "\nregistry@sha256:1" if pulled else ""
    (folder / image_file(reference)).write_text(f"{identity}{digests}\n")


def add_cli(
    folder: Path,
    *,
    version: str = "20.10.24+dfsg1, build 297e128",
    buildx: bool = False,
    build: str = "",
    pull: str = 'echo "no such host"; exit 1',
) -> Path:
    """An executable `docker` in `folder`.

    What it is told to build exists afterwards, as a file in the folder `$IMAGES`; the arguments,
    the context and the secrets of the last build are kept in `$IMAGES/last`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "docker"
    program.write_text(
        textwrap.dedent(
            f"""\
            #!/bin/bash
            set -u
            PATH=/usr/bin:/bin
            case "$*" in
              --version) echo "Docker version {version}"; exit 0 ;;
              "buildx version") {"exit 0" if buildx else "echo no such command >&2; exit 1"} ;;
              pull*) {pull} ;;
              import*) echo imported > "$IMAGES/lh_base_bookworm"; exit 0 ;;
            esac
            {build}
            mkdir -p "$IMAGES/last" && rm -rf "$IMAGES/last/"*
            printf '%s\\n' "$@" > "$IMAGES/last/argv"
            env > "$IMAGES/last/env"
            while [ $# -gt 1 ]; do
              case "$1" in
                --tag) tag="$2" ;;
                --secret) cp "${{2#*src=}}" "$IMAGES/last/$(expr "$2" : 'id=\\([^,]*\\)')" ;;
              esac
              shift
            done
            cp -r "$1" "$IMAGES/last/context"
            echo "#5 [builder 1/1] RUN x"
            echo "built-$RANDOM" > "$IMAGES/$(echo "$tag" | tr '/:' '__')"
            """
        )
    )
    program.chmod(0o755)
    return program
