"""A job as processes of this machine: the `Session` of the `venv` engine."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from orchestrator.engines import guard
from orchestrator.engines.base import Exit, Isolation
from orchestrator.engines.stream import Chunk, EventStream
from orchestrator.errors import InfrastructureError
from orchestrator.job import Event

_START_S = 60.0
_END_S = 20.0
"""Longer than the guard waits for processes that do not die."""
_GUARD_DIED = "the process that guards the job died"


class ProcessSession:
    """One running job below a guard process. See `engines.base.Session`."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: Path,
        scratch: Path,
        max_file_bytes: int,
    ) -> None:
        """Starts it. `scratch` is gone when the session is; `cwd`, in it, is the job's home.

        Raises:
            InfrastructureError: it could not be started.
        """
        self.argv = argv
        self._home = cwd
        self._scratch = scratch
        self._lock = threading.Lock()
        self._exit: Exit | None = None
        self._last_resort: threading.Timer | None = None
        lifeline, self._lifeline = os.pipe()
        self._status, status = os.pipe()
        spec = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd),
            "remove": str(scratch),
            "max_file_bytes": max_file_bytes,
            "lifeline": lifeline,
            "status": status,
        }
        try:
            self._guard = _spawn_guard(spec, (lifeline, status))
        except OSError as error:
            self._close_pipes()
            raise InfrastructureError(f"the job could not be started: {error}") from error
        finally:
            os.close(lifeline)
            os.close(status)
        assert self._guard.stdout is not None  # it was asked for
        assert self._guard.stderr is not None
        self._stream = EventStream([_out(self._guard.stdout), _err(self._guard.stderr)])
        self._told = b""
        self.isolation = self._isolation(max_file_bytes)

    def __enter__(self) -> ProcessSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        try:
            self._guard.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
        if self.exit().reason == _GUARD_DIED:
            guard.end_processes_at(self._home)
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._stream.close()
        self._close_pipes()
        for pipe in (self._guard.stdout, self._guard.stderr):
            if pipe is not None:
                pipe.close()
        guard.remove_tree(self._scratch)

    def events(self, tick_s: float) -> Iterator[Event | None]:
        """The harness's events; None at least every `tick_s` seconds without one."""
        yield from self._stream.events(tick_s)

    def kill(self) -> None:
        """Has the guard end every process of the job; safe to call twice, and from any thread."""
        with self._lock:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
                self._last_resort = threading.Timer(_END_S, self._guard.kill)
                self._last_resort.daemon = True
                self._last_resort.start()

    def exit(self) -> Exit:
        """How it ended; only after `events` has ended."""
        if self._exit is None:
            self._guard.wait()
            while part := os.read(self._status, 4096):
                self._told += part
            lines = self._told.splitlines()
            end = json.loads(lines[-1]) if lines else {}
            self._exit = Exit(code=end.get("code"), reason=self._reason(end))
        return dataclasses.replace(self._exit, stderr_tail=self._stream.tail)

    @staticmethod
    def _reason(end: Mapping[str, Any]) -> str:
        code = end.get("code")
        if end.get("stopped"):
            return "killed by the orchestrator"
        if code is None:
            return _GUARD_DIED
        if code >= 0:
            return f"exit {code}"
        name = signal.Signals(-code).name
        hint = " (most likely the machine ran out of memory)" if name == "SIGKILL" else ""
        return f"killed by {name}{hint}"

    def _isolation(self, max_file_bytes: int) -> Isolation:
        """Waits for the guard's first words.

        Raises:
            InfrastructureError: they tell that the job could not be started.
        """
        while b"\n" not in self._told:
            ready, _, _ = select.select([self._status], [], [], _START_S)
            part = os.read(self._status, 4096) if ready else b""
            if not part:
                break
            self._told += part
        said = json.loads(self._told.split(b"\n")[0]) if b"\n" in self._told else {}
        if "network" not in said:
            self.__exit__()
            why = said.get("error") or self._stream.tail.strip() or "its guard process died"
            raise InfrastructureError(f"the job could not be started: {why}")
        return Isolation(
            contained=False,
            network=said["network"],
            root="the machine's, with the user's rights",
            user=f"uid {os.geteuid()}",
            limits={"core_bytes": 0, "file_bytes": max_file_bytes},
        )

    def _close_pipes(self) -> None:
        with self._lock:
            for name in ("_lifeline", "_status"):
                if (descriptor := getattr(self, name)) >= 0:
                    os.close(descriptor)
                    setattr(self, name, -1)


def _spawn_guard(spec: Mapping[str, Any], descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, json.dumps(spec)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        cwd="/",
        env={"LANG": "C.UTF-8"},
        start_new_session=True,  # Ctrl-C in the terminal is the orchestrator's to handle
        bufsize=0,
    )


def _parts(pipe: IO[bytes]) -> Iterable[bytes]:
    with contextlib.suppress(ValueError):  # closed while it was read
        while part := os.read(pipe.fileno(), 1 << 16):
            yield part


def _out(pipe: IO[bytes]) -> Iterator[Chunk]:
    return ((part, None) for part in _parts(pipe))


def _err(pipe: IO[bytes]) -> Iterator[Chunk]:
    return ((None, part) for part in _parts(pipe))
