"""A job in a container: the `Session` of the `docker` engine."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import CancellableStream

from orchestrator.engines.base import Exit
from orchestrator.engines.container import Container
from orchestrator.engines.docker_host import brief, engine_errors
from orchestrator.engines.stream import Chunk, EventStream
from orchestrator.errors import InfrastructureError
from orchestrator.job import Event

END_S = 15
"""How long the engine may take to notice that a job has ended."""
DRAIN_S = 20.0
"""How long after a kill its output may still come."""
_LATE_CREATE_S = 2.0
_GONE_S, _GONE_LOOKS = 0.2, 10
"""Pause between looks at a container that somebody killed, and how many."""

_SILENCE = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError)


class DockerSession:
    """One running job. See `engines.base.Session`; the container exists only inside `with`."""

    def __init__(
        self,
        client: docker.APIClient,
        container: Container,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Asks nothing of the engine yet. `clock` and `sleep`: in seconds."""
        self.isolation = container.isolation()
        self.argv = container.argv()
        self._client = client
        self._container = container
        self._clock = clock
        self._sleep = sleep
        self._attached: CancellableStream[Chunk] | None = None
        self._stream: EventStream | None = None
        self._killed_at: float | None = None
        self._lost = ""
        self._exit: Exit | None = None

    def __enter__(self) -> DockerSession:
        """Creates and starts the container.

        Raises:
            InfrastructureError: the engine refused, or failed; nothing is left.
        """
        created = False
        try:
            with engine_errors(f"starting the container of job {self._container.name}"):
                self._create()
                created = True
                # before the start, so that not a byte is missed
                self._attached = self._client.attach(
                    self._container.name, stdout=True, stderr=True, stream=True, demux=True
                )
                self._stream = EventStream([self._attached])
                self._client.start(self._container.name)
        except BaseException as error:
            answered = created or isinstance(error, InfrastructureError)
            self._leave(late_s=0.0 if answered else _LATE_CREATE_S)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        """Kills and removes the container, whatever state it is in."""
        self._leave()

    def events(self, tick_s: float) -> Iterator[Event | None]:
        """The harness's events; None at least every `tick_s` seconds without one."""
        stream = self._stream
        if stream is None:
            return
        for event in stream.events(tick_s):
            yield event
            if self._killed_at is not None and self._clock() > self._killed_at + DRAIN_S:
                self._hang_up()

    def kill(self) -> None:
        """Kills all processes in the container; safe to call twice, and from any thread."""
        if self._killed_at is None:
            self._killed_at = self._clock()
        try:
            self._client.kill(self._container.name)
        except APIError:  # it has ended by itself, or is gone
            return
        except _SILENCE as error:
            self._lost = brief(error)
            self._hang_up()

    def exit(self) -> Exit:
        """How it ended; only after `events` has ended."""
        if self._exit is None:
            self._exit = self._find_out()
        return self._exit

    def _create(self) -> None:
        options = self._container.options()
        host_config = self._client.create_host_config(**self._container.host_options())
        try:
            self._client.create_container(**options, host_config=host_config)
        except ImageNotFound as error:
            raise InfrastructureError(
                f"image {self._container.image} is no longer there: it was removed after it was "
                "made ready. Run the command again."
            ) from error
        except APIError as error:
            if "bind source path does not exist" in str(error.explanation):
                raise InfrastructureError(
                    f"the engine does not see this machine's folder {self._container.job_dir}: is "
                    "it on another machine? Use one here, or `--engine venv`."
                ) from error
            raise

    def _find_out(self) -> Exit:
        tail = self._stream.tail if self._stream else ""
        name = self._container.name
        if self._lost:  # asking again would only take as long again
            reason = f"the engine stopped answering: {self._lost}"
            return Exit(code=None, reason=reason, stderr_tail=tail)
        try:
            self._client.wait(name, timeout=END_S)
            state = self._settled(name)
        except NotFound:
            return Exit(
                code=None, reason="its container was removed from outside", stderr_tail=tail
            )
        except requests.Timeout:
            reason = "its output ended, but its container did not"
            return Exit(code=None, reason=reason, stderr_tail=tail)
        except _SILENCE as error:
            reason = f"the engine stopped answering: {brief(error)}"
            return Exit(code=None, reason=reason, stderr_tail=tail)
        killed = self._killed_at is not None
        memory = self._container.limits.memory_bytes
        return Exit(
            code=int(state["ExitCode"]),
            reason=exit_reason(state, killed=killed, memory_bytes=memory),
            stderr_tail=tail,
        )

    def _settled(self, name: str) -> Mapping[str, Any]:
        """Its `State` once that changes no more.

        Whoever removes a running container has it killed first: a moment later it is gone.

        Raises:
            NotFound: it is gone.
        """
        for _ in range(_GONE_LOOKS):
            state: Mapping[str, Any] = self._client.inspect_container(name)["State"]
            ours = self._killed_at is not None or state.get("OOMKilled")
            if ours or int(state["ExitCode"]) != 128 + signal.SIGKILL:
                break
            self._sleep(_GONE_S)
        return state

    def _leave(self, late_s: float = 0.0) -> None:
        """Removes everything, even if Ctrl-C is pressed meanwhile.

        `late_s`: how long to look for a container that the engine may still be creating.
        """
        interrupted = False
        deadline = self._clock() + late_s
        while True:
            try:
                self._hang_up()
                if self._removed() or self._clock() >= deadline:
                    break
                self._sleep(0.2)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
        if self._stream is not None:
            self._stream.close()
        if self._attached is not None:
            # the SDK shuts the connection down and keeps its descriptor
            self._attached._response.close()  # type: ignore[attr-defined]  # noqa: SLF001
        if interrupted:
            raise KeyboardInterrupt

    def _removed(self) -> bool:
        """False when there was none to remove."""
        try:
            self._client.remove_container(self._container.name, v=True, force=True)
        except NotFound:
            return False
        except _SILENCE:
            # being removed already, or nobody to ask: the next sweep finds what is left
            return True
        return True

    def _hang_up(self) -> None:
        if self._attached is not None:
            # the SDK reaches for the socket, which may be gone in many ways
            with contextlib.suppress(OSError, AttributeError, *_SILENCE):
                self._attached.close()


def exit_reason(state: Mapping[str, Any], *, killed: bool, memory_bytes: int | None) -> str:
    """In words, from the `State` of a container that has ended.

    `killed`: we did it.
    """
    code = int(state["ExitCode"])
    if state.get("Error"):
        return f"it could not run: {state['Error']}"
    if killed and code == 128 + signal.SIGKILL:
        return "killed by the orchestrator"
    if state.get("OOMKilled") and code != 0:
        limit = f" (limit {memory_bytes / (1 << 30):.1f} GiB)" if memory_bytes else ""
        return f"killed: out of memory{limit}"
    if code in {128 + signal.SIGKILL, 128 + signal.SIGTERM}:
        return f"killed from outside ({signal.Signals(code - 128).name})"
    if code > 128 and code - 128 in set(signal.Signals):
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exit {code}"
