"""Runs the cells of a job, each in a forked child: a crash, a hang or a flood is its own.

The frontend is imported once, before the fork, so a cell pays only for itself. A child gets its
own process group, limits and deadline; its output is drained, bounded, and never reaches the
event stream.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator import records
from orchestrator.harness import cell as cells
from orchestrator.harness.ingress.base import Ingress
from orchestrator.harness.limits import die_with_parent, limit
from orchestrator.harness.toolchains.base import Toolchain
from orchestrator.job import (
    Alive,
    Artifact,
    Cell,
    Done,
    Event,
    Job,
    Outcome,
    StageBegan,
    StageTime,
    Started,
)

HEARTBEAT_S = 5.0
LAST_WORDS = 16 << 10
"""Bytes kept from the end of what a cell prints."""
ARTIFACT_BYTES = 64 << 20
"""Bytes of files that one cell may send back."""
MARK_BYTES = 8 << 20
"""Bytes of marks that one cell may send: more is a runaway."""

Emit = Callable[[Event], None]
Frontends = Mapping[str, Ingress]


@dataclass(kw_only=True)
class _Child:
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
    blame: cells.Blame = "error"
    stage_began: float = 0.0
    stages: list[StageTime] = field(default_factory=list)
    outcome: Outcome | None = None
    timed_out: bool = False


def run(job: Job, folder: Path, frontends: Frontends, toolchain: Toolchain, emit: Emit) -> None:
    """Runs every cell of a job, at most `job.workers` at a time."""
    Supervisor(job, folder, frontends, toolchain, emit).run()


class Supervisor:
    """The loop over children, their pipes and their deadlines."""

    def __init__(
        self, job: Job, folder: Path, frontends: Frontends, toolchain: Toolchain, emit: Emit
    ) -> None:
        """Takes frontends that are warm, by name, and a toolchain that answered."""
        self.job, self.folder = job, folder
        self.frontends, self.toolchain = frontends, toolchain
        self.emit = emit
        self.waiting = deque(job.cells)
        self.children: dict[int, _Child] = {}
        self.selector = selectors.DefaultSelector()
        self.said_alive = time.monotonic()

    def run(self) -> None:
        """Until every cell is done; kills what runs when it is left early."""
        try:
            while self.waiting or self.children:
                while self.waiting and len(self.children) < self.job.workers:
                    self._start(self.waiting.popleft())
                self._drain()
                self._enforce()
                self._heartbeat()
        finally:
            for child in list(self.children.values()):
                _kill(child.pid)
                os.waitpid(child.pid, 0)
                shutil.rmtree(child.scratch, ignore_errors=True)
            self.selector.close()

    def _start(self, cell: Cell) -> None:
        scratch = Path(tempfile.mkdtemp(prefix="cell-"))
        marks_read, marks_write = os.pipe()
        words_read, words_write = os.pipe()
        now = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.close(marks_read)
            os.close(words_read)
            self._child(cell, scratch, marks_write, words_write)
        os.close(marks_write)
        os.close(words_write)
        child = _Child(
            cell=cell,
            pid=pid,
            scratch=scratch,
            deadline=now + cell.timeout_s,
            began=now,
            stage_began=now,
        )
        self.children[pid] = child
        for descriptor, kind in ((marks_read, "marks"), (words_read, "words")):
            os.set_blocking(descriptor, False)
            self.selector.register(descriptor, selectors.EVENT_READ, (child, kind))
        self.emit(Started(cell=cell.id))

    def _child(self, cell: Cell, scratch: Path, marks: int, words: int) -> None:
        """The forked process; never returns."""
        status = 1
        try:
            os.setsid()
            die_with_parent()
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (words, 1), (words, 2)):
                os.dup2(source, target)
            _close_all_but(marks)
            sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
            os.chdir(scratch)
            os.environ["TMPDIR"] = str(scratch)
            tempfile.tempdir = None  # it was settled before the fork
            limit(cell.memory_bytes)
            context = cells.Context(
                folder=self.folder,
                scratch=scratch,
                marks=marks,
                ingress=self.frontends[cell.ingress],
                toolchain=self.toolchain,
            )
            work = cells.record if self.job.mode == "record" else cells.run
            context.done(cell.id, work(cell, context))
            status = 0
        finally:
            sys.stdout.flush()
            # never back into the parent's loop, nor through its exit handlers
            os._exit(status)

    def _drain(self) -> None:
        for key, _ in self.selector.select(timeout=0.2):
            child, kind = key.data
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if not data:
                self.selector.unregister(key.fileobj)
                os.close(key.fd)
                child.open_pipes -= 1
            elif kind == "words":
                _listen(child, data)
            else:
                self._marked(child, data)

    def _marked(self, child: _Child, data: bytes) -> None:
        child.marked += len(data)
        if child.marked > MARK_BYTES:
            _kill(child.pid)
            return
        child.marks += data
        while (end := child.marks.find(b"\n")) >= 0:
            line = bytes(child.marks[:end])
            del child.marks[: end + 1]
            self._mark(child, line)

    def _mark(self, child: _Child, line: bytes) -> None:
        """One line of a child; what is no mark was written by the workload, and is ignored."""
        try:
            mark = json.loads(line)
            if "stage" in mark:
                stage = str(mark["stage"])
                child.blame = "fail" if mark["blame"] == "fail" else "error"
            else:
                child.outcome = records.decode(Done, mark).outcome
                return
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if stage != child.stage:
            _end_stage(child, "ok")
            child.stage = stage
        self.emit(StageBegan(cell=child.cell.id, stage=stage))

    def _enforce(self) -> None:
        """Reaps who has ended and kills who is late."""
        now = time.monotonic()
        for child in list(self.children.values()):
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                self._finish(child, status, usage)
            elif now > child.deadline and not child.timed_out:
                child.timed_out = True
                _kill(child.pid)

    def _finish(self, child: _Child, status: int, usage: resource.struct_rusage) -> None:
        """Turns the end of a process into the cell's outcome."""
        _kill(child.pid)  # what it started and left behind
        self._drain_rest(child)
        del self.children[child.pid]
        outcome = child.outcome or _verdict_of_death(child, status)
        _end_stage(child, _exit_word(child, status, outcome))
        outcome = Outcome(
            status=outcome.status,
            phase=outcome.phase,
            message=outcome.message,
            stages=tuple(child.stages),
            errors=outcome.errors,
            golden=outcome.golden,
            inputs_sha256=outcome.inputs_sha256,
            peak_memory_bytes=usage.ru_maxrss * 1024,
            last_words=b"".join(child.words)[-LAST_WORDS:].decode(errors="replace"),
            dropped_bytes=max(0, child.printed - LAST_WORDS),
        )
        self._send_kept(child, outcome)
        shutil.rmtree(child.scratch, ignore_errors=True)
        self.emit(Done(cell=child.cell.id, outcome=outcome))

    def _drain_rest(self, child: _Child) -> None:
        """Reads what still lies in the pipes of a process that has ended."""
        for key in list(self.selector.get_map().values()):
            owner, kind = key.data
            if owner is not child:
                continue
            while data := _read(key.fd):
                if kind == "words":
                    _listen(child, data)
                else:
                    self._marked(child, data)
            self.selector.unregister(key.fileobj)
            os.close(key.fd)

    def _send_kept(self, child: _Child, outcome: Outcome) -> None:
        keep = child.cell.keep
        wanted = (
            self.job.mode == "record"
            or keep == "always"
            or (keep == "failed" and outcome.status != "pass")
        )
        if not wanted:
            return
        for name, data in _files(child.scratch / "kept"):
            packed = base64.b64encode(zlib.compress(data)).decode()
            self.emit(Artifact(cell=child.cell.id, name=name, data=packed))

    def _heartbeat(self) -> None:
        now = time.monotonic()
        if now - self.said_alive >= HEARTBEAT_S:
            self.said_alive = now
            self.emit(Alive(running=tuple(c.cell.id for c in self.children.values())))


def _close_all_but(descriptor: int) -> None:
    """Closes what the supervisor has open, the event stream first of all."""
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _listen(child: _Child, data: bytes) -> None:
    """Keeps the end of what a cell prints."""
    child.printed += len(data)
    child.words.append(data)
    child.kept += len(data)
    while child.kept - len(child.words[0]) >= LAST_WORDS:
        child.kept -= len(child.words.popleft())


def _end_stage(child: _Child, word: str) -> None:
    now = time.monotonic()
    child.stages.append(
        StageTime(stage=child.stage, seconds=round(now - child.stage_began, 4), exit=word)
    )
    child.stage_began = now


def _exit_word(child: _Child, status: int, outcome: Outcome) -> str:
    if child.timed_out:
        return "timeout"
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    if child.outcome is None:
        return f"exit {os.WEXITSTATUS(status)}"
    return "ok" if outcome.status == "pass" else outcome.status


def _verdict_of_death(child: _Child, status: int) -> Outcome:
    """The outcome of a process that ended without saying one."""
    words = b"".join(child.words)[-LAST_WORDS:].decode(errors="replace")
    loading = " while the workload was loaded" if child.blame == "error" else ""
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


def _kill(pid: int) -> None:
    """Kills a child's whole process group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
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
