"""Programs whose output people want to follow while they run: builds, pulls, mmdebstrap."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from orchestrator.errors import InfrastructureError

TERMINATE_S = 10.0
"""How long a program may take to clean up after itself before it is killed."""


class ProgramTimeoutError(InfrastructureError):
    """A program said or did too little for too long, and was ended."""


def follow(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    on_line: Callable[[str], None],
    first_s: float | None = None,
    quiet_s: float | None = None,
    total_s: float | None = None,
) -> int:
    """Runs a program to its end, line by line; returns its exit status (negative: a signal).

    It runs in a process group of its own. Whatever ends this call early (a deadline, Ctrl-C, an
    error in `on_line`) ends the whole group: first politely, then not.

    Args:
        argv: the program and its arguments; no shell.
        environ: its whole environment.
        on_line: gets each line of both its streams, without the newline.
        first_s: seconds until its first line, at most.
        quiet_s: seconds between two lines, at most.
        total_s: seconds for all of it, at most.

    Raises:
        ProgramTimeoutError: a deadline passed.
        InfrastructureError: it could not be started.
    """
    try:
        process = subprocess.Popen(
            argv,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(
            f"{argv[0]} could not be started: {error.strerror or error}."
        ) from error
    try:
        _pass_on(process, argv[0], on_line, first_s, quiet_s, total_s)
        return process.wait()
    finally:
        end_group(process)


def _pass_on(
    process: subprocess.Popen[str],
    program: str,
    on_line: Callable[[str], None],
    first_s: float | None,
    quiet_s: float | None,
    total_s: float | None,
) -> None:
    lines: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(
        target=_read, args=(process.stdout, lines), daemon=True, name="lh-follow"
    ).start()
    start = time.monotonic()
    silence = first_s if first_s is not None else quiet_s
    while True:
        left = None if total_s is None else start + total_s - time.monotonic()
        waits = [max(0.0, wait) for wait in (silence, left) if wait is not None]
        try:
            line = lines.get(timeout=min(waits, default=None))
        except queue.Empty:
            raise ProgramTimeoutError(
                f"{program} was stopped: it took longer than {total_s:g} s."
                if left is not None and (silence is None or left <= silence)
                else f"{program} was stopped: it said nothing for {silence:g} s."
            ) from None
        if line is None:
            return
        silence = quiet_s
        on_line(line)


def _read(pipe: IO[str], lines: queue.Queue[str | None]) -> None:
    try:
        for line in pipe:
            lines.put(line.rstrip("\n"))
    except ValueError:  # closed under us: nobody listens any more
        pass
    finally:
        lines.put(None)


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends a process that leads its group, and whatever is left of the group."""
    try:
        if process.poll() is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TERMINATE_S)
    finally:
        _signal(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
