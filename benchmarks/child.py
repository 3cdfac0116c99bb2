"""A command as a child process: how long it takes, and how much memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a command took."""

    wall_s: float
    cpu_s: float
    """Of all its processes, in user mode and in the kernel: tells of a busy machine."""
    peak_bytes: int
    """Resident memory of its largest process."""


def measured(argv: Sequence[str], cwd: Path) -> Cost:
    """Runs a command to its end.

    Raises:
        RuntimeError: it failed; with the end of what it printed.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {child.returncode}\n{said[-4000:]}")
    return Cost(
        wall_s=round(time.perf_counter() - began, 2),
        cpu_s=round(usage.ru_utime + usage.ru_stime, 2),
        peak_bytes=usage.ru_maxrss * 1024,
    )
