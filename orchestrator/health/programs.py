"""Programs that ask a driver something, and may never come back from it.

A process that sleeps in a driver cannot be killed, not even by SIGKILL, before the driver wakes
it. So nothing here waits for the end of a process: one that does not end is left behind, and no
other is started while it is there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_END_S = 2.0
"""For a process to end after SIGKILL: longer means that it sleeps in the kernel."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What came of asking a program."""

    end: Literal["exit", "missing", "slow", "stuck"]
    """`slow`: killed at its limit. `stuck`: it cannot be killed."""
    code: int = 0
    """Exit status, for `exit`; negative for a signal."""
    text: str = ""
    """Both its streams."""


class Programs:
    """Runs one program at a time, each within a limit. Only `stop` may come from another thread."""

    def __init__(self, *, end_s: float = _END_S) -> None:
        """`end_s`: how long a killed process may take to end."""
        self._end_s = end_s
        self._lock = threading.Lock()
        self._now: subprocess.Popen[str] | None = None
        self._stuck: subprocess.Popen[str] | None = None
        self._stopped = False

    def ask(self, argv: Sequence[str], limit_s: float) -> Said:
        """Runs a program from PATH and gives what it said within `limit_s` seconds."""
        if self._stuck is not None:
            if self._stuck.poll() is None:
                return Said(end="stuck")
            _LEFT_BEHIND.remove(self._stuck)
            self._stuck = None
        program = shutil.which(argv[0])
        if program is None:
            return Said(end="missing")
        try:
            process = self._start([program, *argv[1:]])
        except OSError as error:
            return Said(end="exit", code=127, text=f"{argv[0]}: {error.strerror or error}")
        if process is None:
            return Said(end="missing")
        try:
            text, _ = process.communicate(timeout=limit_s)
            return Said(end="exit", code=process.returncode, text=text)
        except subprocess.TimeoutExpired:
            return Said(end="slow" if self._ended(process) else "stuck")
        finally:
            self._now = None

    def stop(self) -> None:
        """Kills what runs, and lets nothing start any more."""
        with self._lock:
            self._stopped = True
            if self._now is not None:
                _kill(self._now)

    def _start(self, argv: list[str]) -> subprocess.Popen[str] | None:
        """None: it is too late."""
        with self._lock:
            if self._stopped:
                return None
            self._now = subprocess.Popen(
                argv,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            return self._now

    def _ended(self, process: subprocess.Popen[str]) -> bool:
        """Kills a process; False when it stays, and is left behind."""
        _kill(process)
        assert process.stdout is not None
        process.stdout.close()
        try:
            process.wait(self._end_s)
        except subprocess.TimeoutExpired:
            self._stuck = process
            _LEFT_BEHIND.append(process)
            return False
        return True


_LEFT_BEHIND: list[subprocess.Popen[str]] = []
"""Processes that did not end. Kept, so that the interpreter reaps them if they ever do."""


def _kill(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
