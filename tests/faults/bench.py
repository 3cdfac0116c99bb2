"""Where faults happen: a repository, an engine or machines elsewhere, `lh-ci` over it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.backends.clock import Clock
from orchestrator.backends.watch import Limits
from orchestrator.cli import cli, remote
from orchestrator.cli.app import Services
from orchestrator.fleet.misses import Kind
from orchestrator.results.store import Run, Runs
from tests.backends.farm import HOST
from tests.config.tree import Tree
from tests.fakes import FakeEngine
from tests.faults import sixty
from tests.faults.judging import Aftermath

CELLS = 3
PLANNED = tuple(f"torch_cpu.w{number:02}.f32@intel-cpu" for number in range(CELLS))


@dataclass
class Bench:
    """A machine on which all cells pass, before something is done to it."""

    folder: Path
    patch: pytest.MonkeyPatch
    engine: Any = field(default_factory=FakeEngine)
    clock: Clock | None = None
    """None: the fake engine's."""
    limits: Limits = field(default_factory=Limits)
    monitors: Any = None
    backend: Any = None
    """Machines elsewhere; None: cells run here."""
    codes: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    leaves: list[Callable[[], list[str]]] = field(default_factory=list)
    """Each tells what is left of something."""

    def __post_init__(self) -> None:
        """Makes the repository."""
        self.tree: Tree = sixty.repository(self.folder / "repo", CELLS)
        self.state = self.folder / "state"

    @property
    def run(self) -> Run:
        """The record."""
        return Runs(self.state).find("last")

    def lh_ci(self, *words: str) -> int:
        """A command, in this process."""
        services = Services(
            detect=lambda: HOST,
            choose=lambda name, root, settings: (self.engine, "an engine of tests"),
            clock=self.clock or self.engine.time.clock(),
            limits=self.limits,
            monitors=self.monitors,
            environ={"LH_STATE": str(self.state), "LH_ROOT": str(self.tree.root)},
        )
        if self.backend is not None:
            self.patch.setattr(remote, "connect", lambda *asked: self.backend)
        done = CliRunner().invoke(cli, list(words), obj=services)
        self.said.append(done.output)
        self.codes.append(done.exit_code)
        return done.exit_code

    def start(self) -> int:
        """Begins the run."""
        words = ["run", "torch_cpu"]
        if self.backend is not None:
            words += ["--backend", "buildbot", "--master", "http://nowhere/", "--unsigned"]
        return self.lh_ci(*words)

    def aftermath(self, kind: Kind | None) -> Aftermath:
        """For the judgement."""
        left = [str(p.relative_to(self.state)) for p in self.state.rglob(".*.tmp")]
        left += [what for leave in self.leaves for what in leave()]
        return Aftermath(
            run=self.run, planned=PLANNED, codes=tuple(self.codes), kind=kind, left=tuple(left)
        )


Cause = Callable[[Bench], Iterator[None]]
"""Brings a fault about, gives, and does what people would do against it before they go on."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One kind."""

    name: str
    layer: str
    cause: Cause
    kind: Kind | None
    """Of the misses that it leaves; None: it leaves none."""
    resumes: bool
    """Whether somebody has to go on with the run."""


@dataclass
class Table:
    """All kinds of one layer."""

    layer: str
    faults: list[Fault] = field(default_factory=list)

    def __call__(
        self, name: str, kind: Kind | None = None, *, resumes: bool = False
    ) -> Callable[[Cause], Cause]:
        """Adds one."""

        def add(cause: Cause) -> Cause:
            self.faults.append(
                Fault(name=name, layer=self.layer, cause=cause, kind=kind, resumes=resumes)
            )
            return cause

        return add


def carry_out(fault: Fault, bench: Bench) -> None:
    """The whole story: the run begins, the fault strikes, somebody goes on if need be."""
    steps = fault.cause(bench)
    next(steps)
    bench.start()
    next(steps, None)
    if fault.resumes:
        bench.lh_ci("run", "--resume")
