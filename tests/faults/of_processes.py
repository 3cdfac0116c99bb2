"""Faults of a job's processes, caused for real: the guard, the harness and its cells all run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from orchestrator.backends.clock import Clock
from orchestrator.backends.watch import Limits
from orchestrator.engines.base import Environment
from orchestrator.engines.process import ProcessSession
from orchestrator.engines.venv import VenvEngine
from orchestrator.fleet.misses import Kind
from orchestrator.job import Job
from orchestrator.settings import Settings
from tests.faults.bench import Bench, Table

fault = Table("processes")
REPOSITORY = Path(__file__).parents[2]
_ENTER = """\
import sys
sys.path.append({repository!r})
from tests.faults import inside
sys.exit(inside.enter({fault!r}, {mark!r}, {folder!r}))
"""


class Processes(VenvEngine):
    """The engine `venv`, whose environment is this interpreter, and its harness one of `inside`."""

    def __init__(self, bench: Bench, fault: str) -> None:
        """Strikes once."""
        settings = Settings.from_environment({"LH_STATE": str(bench.state)})
        super().__init__(bench.tree.root, settings, {})
        self._bench = bench
        self._fault = fault
        self._python = bench.folder / "venv" / "bin" / "python"
        self.prepared = 0
        self.wrapped: Callable[[str], str] = lambda main: main
        """Changes the harness's main file."""

    def prepare(self, stack: str, *args: Any, **kwargs: Any) -> Environment:
        """A wrapper of this interpreter, which finds what is installed beside it."""
        self.prepared += 1
        self._python.parent.mkdir(parents=True, exist_ok=True)
        self._python.unlink(missing_ok=True)
        self._python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self._python.chmod(0o755)
        return Environment(
            stack=stack,
            engine="venv",
            reference=str(self._python.parents[1]),
            digest="sha256:1",
            cached=True,
            facts={},
        )

    def start(self, job: Job, job_dir: Path, environment: Environment) -> ProcessSession:
        """With another frontend and another toolchain."""
        harness = job_dir / "orchestrator" / "harness"
        (harness / "__main__.py").rename(harness / "real.py")
        text = _ENTER.format(
            repository=str(REPOSITORY),
            fault=self._fault,
            mark=str(self._bench.folder / "struck"),
            folder=str(job_dir),
        )
        (harness / "__main__.py").write_text(self.wrapped(text))
        return super().start(job, job_dir, environment)

    def left(self) -> list[str]:
        """Scratch folders, and processes at home in one."""
        found = [str(path) for path in (self._bench.state / "scratch").glob("*")]
        mark = f"HOME={self._bench.state}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if mark in (entry / "environ").read_bytes():
                        found.append(f"process {entry.name}")
                except OSError:
                    continue
        return found


def real(bench: Bench, fault: str) -> Processes:
    """Cells run for real on this bench, and this strikes the first one."""
    bench.engine = Processes(bench, fault)
    bench.clock = Clock()
    bench.leaves.append(bench.engine.left)
    return bench.engine  # type: ignore[no-any-return]


def _struck(name: str) -> Callable[[Bench], Iterator[None]]:
    def cause(bench: Bench) -> Iterator[None]:
        real(bench, name)
        yield

    return cause


fault("the harness is killed", Kind.MEMORY)(_struck("harness killed"))
fault("the process that guards a job is killed", Kind.DAEMON)(_struck("guard killed"))
fault("a cell is killed by the kernel, which needs memory", Kind.MEMORY)(_struck("cell killed"))
fault("a cell is ended by somebody else", Kind.DAEMON)(_struck("cell terminated"))
fault("a compiler's tool is killed by the kernel", Kind.MEMORY)(_struck("tool killed"))
fault("the scratch disk is full: a tool meets a full device", Kind.DISK)(_struck("disk full"))
fault("a tool is gone from the environment", Kind.DAEMON)(_struck("tool gone"))
fault("the job's files are deleted under it", Kind.RESULT)(_struck("files gone"))
fault("the job's files are damaged under it", Kind.RESULT)(_struck("files damaged"))


@fault("the harness is stopped and stays so", Kind.STALL)
def stopped(bench: Bench) -> Iterator[None]:
    real(bench, "harness stopped")
    bench.limits = Limits(silence_s=1.0, drain_s=10.0)
    yield


@fault("the environment is deleted after it was made ready", Kind.DAEMON)
def environment_gone(bench: Bench) -> Iterator[None]:
    engine = real(bench, "")
    prepare = engine.prepare

    def once(*args: Any, **kwargs: Any) -> Environment:
        made = prepare(*args, **kwargs)
        if engine.prepared == 1:
            shutil.rmtree(made.reference)
        return made

    bench.patch.setattr(engine, "prepare", once)
    yield


_NOISE = """\
import os
_write = os.write
def _noisy(descriptor, data):
    if data.startswith(b'{"'):
        _write(descriptor, b'\\x00\\xff garbage {"event": "done"}\\n{"event": 5}\\n')
        _write(descriptor, data)
    return _write(descriptor, data)
os.write = _noisy
"""


@fault("every event comes twice, with garbage in between")
def doubled(bench: Bench) -> Iterator[None]:
    real(bench, "").wrapped = lambda main: _NOISE + main
    yield


_CUT = """\
import os
_write, _said, _me = os.write, [], os.getpid()
def _cutting(descriptor, data):
    if os.getpid() == _me and b'"done"' in data:
        _said.append(1)
        if len(_said) == 2 and not os.path.exists({mark!r}):
            open({mark!r}, "x").close()
            _write(descriptor, data[:len(data) // 2])
            os._exit(0)
    return _write(descriptor, data)
os.write = _cutting
"""


@fault("a result is cut short on its way out of the harness", Kind.RESULT)
def cut(bench: Bench) -> Iterator[None]:
    head = _CUT.format(mark=str(bench.folder / "cut"))
    real(bench, "").wrapped = lambda main: head + main
    yield
