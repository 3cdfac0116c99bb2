"""A cell's process as the supervisor sees it: its pipes, its stages, its end."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.harness import cell as cells
from orchestrator.harness.blame import killed_from_outside
from orchestrator.harness.context import Blame
from orchestrator.job import Cell, Outcome, StageTime

LAST_WORDS = 16 << 10
"""Bytes kept from the end of what a cell prints."""
ARTIFACT_BYTES = 64 << 20
"""Bytes of files that one cell may send back."""


@dataclass(kw_only=True)
class Child:
    """A running cell."""

    cell: Cell
    pid: int
    scratch: Path
    deadline: float
    began: float
    marks: bytearray = field(default_factory=bytearray)
    marked: int = 0
    words: deque[bytes] = field(default_factory=deque)
    kept: int = 0
    printed: int = 0
    open_pipes: int = 2
    stage: str = "ingress"
    blame: Blame = "error"
    stage_began: float = 0.0
    stages: list[StageTime] = field(default_factory=list)
    outcome: Outcome | None = None
    timed_out: bool = False
    flooded: bool = False
    """It sent more marks than it may, and was killed for it."""


def listen(child: Child, data: bytes) -> None:
    """Keeps the end of what a cell prints."""
    child.printed += len(data)
    child.words.append(data)
    child.kept += len(data)
    while child.kept - len(child.words[0]) >= LAST_WORDS:
        child.kept -= len(child.words.popleft())


def end_stage(child: Child, word: str) -> None:
    """Notes how long the stage took that ends now, and how it ended."""
    now = time.monotonic()
    child.stages.append(
        StageTime(stage=child.stage, seconds=round(now - child.stage_began, 4), exit=word)
    )
    child.stage_began = now


def exit_word(child: Child, status: int, outcome: Outcome) -> str:
    """How the last stage ended, in a word."""
    if child.timed_out:
        return "timeout"
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    if child.outcome is None:
        return f"exit {os.WEXITSTATUS(status)}"
    return "ok" if outcome.status == "pass" else outcome.status


def verdict_of_death(child: Child, status: int) -> Outcome:
    """The outcome of a process that ended without saying one."""
    ours = child.timed_out or child.flooded
    outside = killed_from_outside(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else ""
    if outside and not ours:
        return Outcome(status="miss", phase=child.stage, message=f"the cell was {outside}")
    words = b"".join(child.words)[-LAST_WORDS:].decode(errors="replace")
    loading = ""
    if child.stage == "ingress" and child.blame == "error":
        loading = " while the workload was loaded"
    if child.timed_out:
        limit_s = f"{child.cell.timeout_s:g} s"
        message = f"no answer within {limit_s}: killed at its deadline{loading}"
    elif any(sign in words for sign in ("bad_alloc", "LLVM ERROR: out of memory")):
        message = cells.out_of_memory(child.cell)
    elif os.WIFSIGNALED(status):
        message = f"died of {signal.Signals(os.WTERMSIG(status)).name}{loading}"
    else:
        message = f"ended with exit code {os.WEXITSTATUS(status)} and no verdict{loading}"
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")
    if last and not child.timed_out:
        message += f"; its last words: {last[:200]}"
    return Outcome(status=child.blame, phase=child.stage, message=message)


def kill(pid: int) -> None:
    """Kills a child's whole process group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def close_all_but(descriptor: int) -> None:
    """Closes what the supervisor has open, the event stream first of all."""
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def read(descriptor: int) -> bytes:
    """What lies in a pipe right now; empty when there is nothing."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Regular files below a folder with their relative names, up to the bound."""
    left = ARTIFACT_BYTES
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        size = path.stat().st_size
        if size > left:
            continue
        left -= size
        yield path.relative_to(folder).as_posix(), path.read_bytes()
