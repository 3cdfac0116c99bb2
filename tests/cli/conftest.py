"""A sample repository, an engine without containers, and a command line over both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli import cli
from orchestrator.cli.app import EngineName, Services
from orchestrator.cli.images import Images
from orchestrator.config import schema
from orchestrator.config.load import load
from orchestrator.engines.base import Engine
from orchestrator.errors import InfrastructureError
from orchestrator.host import Host
from orchestrator.results.store import Run, Runs
from orchestrator.settings import Settings
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeEngine, FakeGpus

INTEL = Host(
    arch="x86_64",
    cpu_vendor="GenuineIntel",
    cpu_model="Intel Xeon",
    cpu_flags="avx2 avx512f",
    cpus=2,
    memory_bytes=16 << 30,
    kernel="Linux 6.1",
)
NOTE = "docker (Docker 27 at unix:///run/docker.sock)"
MLP = "torch_cpu.mlp.f32@intel-cpu"
MLP_F16 = "torch_cpu.mlp.f16@intel-cpu"
SUM = "torch_cpu.sum.f32@intel-cpu"


@dataclass
class Lab:
    """Runs command lines."""

    tree: Tree
    engine: FakeEngine = field(default_factory=FakeEngine)
    host: Host = INTEL
    environ: dict[str, str] = field(default_factory=dict)
    no_engine: set[str] = field(default_factory=set)
    asked_for: list[str] = field(default_factory=list)
    images: Any = None

    def __call__(self, *words: str, stdin: str | None = None) -> Result:
        """The outcome of `lh-ci *words` in the repository."""
        services = Services(
            load=load,
            detect=lambda: self.host,
            choose=self._choose,
            open_images=self._open_images,
            clock=self.engine.time.clock(),
            monitors=FakeGpus(self.engine.time),
            environ=self.environ,
        )
        return CliRunner().invoke(cli, list(words), obj=services, input=stdin)

    def json(self, *words: str) -> Any:
        """Standard output as JSON; nothing else may be on it."""
        return json.loads(self(*words, "--json").stdout)

    @property
    def runs(self) -> Runs:
        """All runs."""
        return Runs(self.tree.root / ".lh")

    @property
    def last(self) -> Run:
        """The newest run."""
        return self.runs.find("last")

    def _choose(self, name: EngineName, root: Path, settings: Settings) -> tuple[Engine, str]:
        self.asked_for.append(name)
        if name in self.no_engine:
            raise InfrastructureError(f"engine {name} does not answer")
        return self.engine, NOTE

    @contextlib.contextmanager
    def _open_images(self, environ: Mapping[str, str]) -> Iterator[Images]:
        if self.images is None:
            raise InfrastructureError("no engine answers")
        yield self.images


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A repository that is in order, without a run."""
    root = tmp_path / "repo"
    root.mkdir()
    tree = make_tree(root)
    schema.write(root)
    monkeypatch.chdir(root)
    return Lab(tree)
