"""A vendor moves from one backend to another by one line of `agents/`, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from orchestrator.backends import ordering
from orchestrator.backends.buildbot.fleet import make_fleet, registered
from orchestrator.backends.local_machine import ThisMachine
from orchestrator.config.load import Config
from orchestrator.fleet import public
from orchestrator.fleet.agents import load_fleet
from orchestrator.fleet.models import AgentFile, BackendName
from orchestrator.fleet.serving import BothMachines, RegisteredMachines
from orchestrator.job import Job
from orchestrator.plan import Where, make_jobs, plan_cells
from orchestrator.workflows.files import render
from tests.backends.conformance.stub import digests
from tests.backends.farm import HOST, terms
from tests.config.tree import Tree, make_tree
from tests.fakes import FakeTime

NAMES: tuple[BackendName, ...] = get_args(BackendName)
FILE = f"""\
schema: 1
vendor: lab
name: one
owner: us
contact: ci@example.org
backend: BACKEND
pools: [intel-cpu]
level: trusted
keys:
  - key: {public.to_text(bytes(32))}
    from: 2026-11-01
terms: {{disk: 20GiB, time: 6h}}
"""


def move(tree: Tree, backend: BackendName) -> dict[str, AgentFile]:
    """The vendor's only edit; all agents as they are then."""
    tree.write("agents/lab-one.yaml", FILE.replace("BACKEND", backend))
    return dict(load_fleet(tree.root).agents)


def where(backend: BackendName, agents: dict[str, AgentFile], config: Config) -> Where:
    """What a dispatcher of that backend plans for."""
    machines = RegisteredMachines(agents, backend, "main")
    found: dict[BackendName, Where] = {
        "buildbot": make_fleet(config.matrix.pools, registered(agents)),
        "buildkite": machines,
        "github": BothMachines(machines),
        "local": ThisMachine(HOST),
    }
    return found[backend]


def planned(tree: Tree, backend: BackendName, agents: dict[str, AgentFile]) -> tuple[Job, ...]:
    """Jobs of a run called `r`."""
    config = tree.load()
    cells = [each for each in plan_cells(config, where(backend, agents, config)) if each.runnable]
    return make_jobs(cells, workers=1, toolchain="auto", keep="failed", mode="run", run="r")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "repo").mkdir()
    return make_tree(tmp_path / "repo")


def test_jobs_are_the_same_on_every_backend(tree: Tree, tmp_path: Path) -> None:
    found = {}
    for backend in NAMES:
        (job,) = planned(tree, backend, move(tree, backend))
        folder = tmp_path / backend / job.id
        folder.mkdir(parents=True)
        ordering.write(folder, job, terms(tree, "r", FakeTime()))
        found[backend] = (job, digests(folder))
    assert len(found) == 4
    assert found["local"][0].cells
    for backend in NAMES:
        assert found[backend] == found["local"], backend


def test_only_the_agents_line_differs(tree: Tree) -> None:
    states = {}
    for backend in NAMES:
        agents = move(tree, backend)
        assert agents["lab-one"].backend == backend
        files = {
            path.relative_to(tree.root).as_posix(): path.read_text(errors="replace").splitlines()
            for path in tree.root.rglob("*")
            if path.is_file()
        }
        states[backend] = (files, render(tree.load().matrix))
    first = states["local"]
    for backend in NAMES[:-1]:
        files, workflows = states[backend]
        assert workflows == first[1]
        assert set(files) == set(first[0])
        changed = [
            (name, before, after)
            for name in files
            for before, after in zip(first[0][name], files[name], strict=True)
            if before != after
        ]
        assert changed == [("agents/lab-one.yaml", "backend: local", f"backend: {backend}")]


def test_a_vendor_that_moved_is_nobodys_elsewhere(tree: Tree) -> None:
    agents = move(tree, "buildkite")
    assert [job.pool for job in planned(tree, "buildkite", agents)] == ["intel-cpu"]
    assert planned(tree, "buildbot", agents) == ()
    assert planned(tree, "github", agents) == ()
