"""Runs the cells of a job, each in a forked child: a crash, a hang or a flood is its own.

The frontend is imported once, before the fork, so a cell pays only for itself. A child gets its
own process group, limits and deadline; its output is drained, bounded, and never reaches the
event stream.
"""

from __future__ import annotations

import base64
import dataclasses
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
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestrator import records
from orchestrator.harness import cell as cells
from orchestrator.harness.child import (
    LAST_WORDS,
    Child,
    close_all_but,
    end_stage,
    exit_word,
    files,
    kill,
    listen,
    read,
    verdict_of_death,
)
from orchestrator.harness.context import Context
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
    Started,
)

HEARTBEAT_S = 5.0
PAUSE_S = 5.0
"""A round of the loop takes less than a second: who notices a longer one was stopped meanwhile."""
MARK_BYTES = 8 << 20
"""Bytes of marks that one cell may send: more is a runaway."""

Emit = Callable[[Event], None]
Frontends = Mapping[str, Ingress]


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
        self.children: dict[int, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.said_alive = self.looked = time.monotonic()

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
                kill(child.pid)
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
        child = Child(
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
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the harness's own is not a cell's
            null = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (words, 1), (words, 2)):
                os.dup2(source, target)
            close_all_but(marks)
            sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
            os.chdir(scratch)
            os.environ["TMPDIR"] = str(scratch)
            tempfile.tempdir = None  # it was settled before the fork
            limit(cell.memory_bytes)
            context = Context(
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
            try:
                sys.stdout.flush()  # which the workload may have closed, or replaced
            finally:
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
                listen(child, data)
            else:
                self._marked(child, data)

    def _marked(self, child: Child, data: bytes) -> None:
        child.marked += len(data)
        if child.marked > MARK_BYTES:
            child.flooded = True
            kill(child.pid)
            return
        child.marks += data
        while (end := child.marks.find(b"\n")) >= 0:
            line = bytes(child.marks[:end])
            del child.marks[: end + 1]
            self._mark(child, line)

    def _mark(self, child: Child, line: bytes) -> None:
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
            end_stage(child, "ok")
            child.stage = stage
        self.emit(StageBegan(cell=child.cell.id, stage=stage))

    def _enforce(self) -> None:
        """Reaps who has ended and kills who is late."""
        now = time.monotonic()
        self._excuse(now)
        for child in list(self.children.values()):
            # looked at before it is reaped: until then nobody else can have its number
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                kill(child.pid)  # what it started and left behind
                _, status, usage = os.wait4(child.pid, 0)
                self._finish(child, status, usage)
            elif now > child.deadline and not child.timed_out:
                child.timed_out = True
                kill(child.pid)

    def _excuse(self, now: float) -> None:
        """Time in which all of this stood still, such as a paused machine's, is nobody's."""
        pause, self.looked = now - self.looked, now
        if pause > PAUSE_S:
            for child in self.children.values():
                child.deadline += pause

    def _finish(self, child: Child, status: int, usage: resource.struct_rusage) -> None:
        """Turns the end of a process into the cell's outcome."""
        self._drain_rest(child)
        del self.children[child.pid]
        outcome = child.outcome or verdict_of_death(child, status)
        end_stage(child, exit_word(child, status, outcome))
        outcome = dataclasses.replace(
            outcome,
            stages=tuple(child.stages),
            peak_memory_bytes=usage.ru_maxrss * 1024,
            last_words=b"".join(child.words)[-LAST_WORDS:].decode(errors="replace"),
            dropped_bytes=max(0, child.printed - LAST_WORDS),
        )
        self._send_kept(child, outcome)
        shutil.rmtree(child.scratch, ignore_errors=True)
        self.emit(Done(cell=child.cell.id, outcome=outcome))

    def _drain_rest(self, child: Child) -> None:
        """Reads what still lies in the pipes of a process that has ended."""
        for key in list(self.selector.get_map().values()):
            owner, kind = key.data
            if owner is not child:
                continue
            while data := read(key.fd):
                if kind == "words":
                    listen(child, data)
                else:
                    self._marked(child, data)
            self.selector.unregister(key.fileobj)
            os.close(key.fd)

    def _send_kept(self, child: Child, outcome: Outcome) -> None:
        keep = child.cell.keep
        wanted = (
            self.job.mode == "record"
            or keep == "always"
            or (keep == "failed" and outcome.status != "pass")
        )
        if not wanted:
            return
        for name, data in files(child.scratch / "kept"):
            packed = base64.b64encode(zlib.compress(data)).decode()
            self.emit(Artifact(cell=child.cell.id, name=name, data=packed))

    def _heartbeat(self) -> None:
        now = time.monotonic()
        if now - self.said_alive >= HEARTBEAT_S:
            self.said_alive = now
            self.emit(Alive(running=tuple(c.cell.id for c in self.children.values())))
