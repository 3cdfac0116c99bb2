"""A bundle in a process of its own: a driver that crashes or hangs is told, not suffered."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orchestrator
from orchestrator.engines.base import Exit
from orchestrator.engines.process import ProcessSession
from orchestrator.errors import InfrastructureError
from orchestrator.harness.gpu.runner import Report
from orchestrator.job import Done, Event, Hello, Outcome, StageBegan
from orchestrator.text import one_line

_RUNNER = "orchestrator.harness.gpu.runner"
_TICK_S = 0.2
_MAX_FILE_BYTES = 8 << 30
"""Larger than any bundle's code, and than what drivers keep in their caches."""
_FAULTS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP")
"""What a process brings upon itself; other signals come from outside."""


@dataclass(kw_only=True)
class _Heard:
    """What the runner has told so far."""

    cell: str = ""
    stage: str = "ingress"
    device: Mapping[str, str | int] = field(default_factory=dict)
    outcome: Outcome | None = None
    late: bool = False

    def take(self, event: Event) -> None:
        match event:
            case StageBegan(cell=cell, stage=stage):
                self.cell, self.stage = cell or self.cell, stage
            case Hello(hardware=hardware):
                self.device = hardware
            case Done(cell=cell, outcome=outcome):
                self.cell, self.outcome = cell or self.cell, outcome


def execute(
    path: Path,
    *,
    environ: Mapping[str, str],
    timeout_s: float,
    chip: str = "",
    repeat: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Executes a bundle on this machine's GPU, whatever becomes of the process that does it.

    Args:
        path: of the bundle.
        environ: of this process: drivers are found and devices chosen through it.
        timeout_s: after so many seconds the process is killed.
        chip: whose code to take; empty: what fits the device.
        repeat: how often to call the program, for its times.
        clock: seconds.

    Raises:
        InfrastructureError: no process could be started.
    """
    argv = [sys.executable, "-m", _RUNNER, str(path.absolute()), "--events"]
    argv += [f"--repeat={repeat}", f"--chip={chip}"]
    scratch = _scratch()
    work = scratch / "work"
    deadline = clock() + timeout_s
    heard = _Heard()
    session = ProcessSession(
        tuple(argv),
        env=_environment(environ, work),
        cwd=work,
        scratch=scratch,
        max_file_bytes=_MAX_FILE_BYTES,
    )
    with session:
        for event in session.events(_TICK_S):
            if event is not None:
                heard.take(event)
            if clock() > deadline and not heard.late:
                heard.late = True
                session.kill()
        end = session.exit()
    outcome = heard.outcome or _verdict(heard, end, timeout_s)
    return Report(bundle=str(path), cell=heard.cell, outcome=outcome)


def _scratch() -> Path:
    try:
        scratch = Path(tempfile.mkdtemp(prefix="lh-execute-"))
        (scratch / "work").mkdir()
    except OSError as error:
        raise InfrastructureError(f"{tempfile.gettempdir()}: {error.strerror or error}") from error
    return scratch


def _environment(environ: Mapping[str, str], work: Path) -> dict[str, str]:
    """As it is, but for where our package is found and where temporary files go."""
    package = str(Path(orchestrator.__file__).parents[1])
    paths = [package, *filter(None, [environ.get("PYTHONPATH")])]
    return {
        **environ,
        "HOME": str(work),  # the guard knows the process by it
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(work),
    }


def _verdict(heard: _Heard, end: Exit, timeout_s: float) -> Outcome:
    """The outcome of a process that ended without telling one.

    A hang is the device's or its driver's; a crash while the program ran is the program's.
    """
    status: Literal["fail", "miss"] = "miss"
    if heard.late:
        message = f"no answer within {timeout_s:g} s: killed"
    elif end.code is not None and end.code < 0:
        name = signal.Signals(-end.code).name
        message = f"died of {name}"
        if name in _FAULTS and heard.stage == "execute":
            status = "fail"
    else:
        message = f"ended with {end.reason} and no verdict"
    words = [line for line in end.stderr_tail.splitlines() if line.strip()]
    if words:
        message += f"; its last words: {one_line(words[-1], 200)}"
    return Outcome(
        status=status,
        phase=heard.stage,
        message=message,
        device=heard.device,
        last_words=end.stderr_tail,
    )
