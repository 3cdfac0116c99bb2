"""`lh-ci clean`: only what is ours, only what was asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.images import Images
from orchestrator.engines.locks import take
from tests.cli.conftest import SUM, Lab


class FakeDocker:
    """As much of Docker's client as removing images needs."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def images(self) -> list[dict[str, Any]]:
        """Ours and others'."""
        return [
            {"RepoTags": ["lh/llvm:1", "someone/llvm:1"], "Size": 800 << 20},
            {"RepoTags": ["lh/pytorch:2"], "Size": 2 << 30},
            {"RepoTags": ["debian:bookworm"], "Size": 100},
            {"RepoTags": None, "Size": 100},
        ]

    def remove_image(self, tag: str) -> None:
        """Noted."""
        self.removed.append(tag)


@pytest.fixture
def docker(lab: Lab) -> FakeDocker:
    """An engine with images."""
    client = FakeDocker()
    lab.images = Images(client)  # type: ignore[arg-type]
    return client


@pytest.fixture
def state(lab: Lab, docker: FakeDocker) -> Path:
    """A state folder with a run, an environment and a crash report."""
    lab("run", SUM)
    state = lab.tree.root / ".lh"
    for name in ("venvs/pytorch-1/bin/python", "llvm/22.1.8/x", "crashes/c.txt", "mine/x"):
        (state / name).parent.mkdir(parents=True)
        (state / name).write_bytes(b"x" * 1024)
    return state


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_by_itself_it_sweeps_and_says_what_can_go(lab: Lab, state: Path) -> None:
    lab.engine.left_behind = ("container lh-1",)
    before = names(state)
    done = lab("clean")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:3] == [
        "docker: removed container lh-1",
        "venv: nothing was left behind",
        "freed 0 B",
    ]
    assert "lh-ci clean --venvs  would free 2.0 KiB\n" in done.stdout
    assert names(state) == before
    assert lab.asked_for[-2:] == ["docker", "venv"]


def test_runs(lab: Lab, state: Path) -> None:
    done = lab("clean", "--runs")
    assert "removed .lh/runs/2026-11-20T21-04-11   " in done.stdout
    assert lab.runs.all() == ()
    assert {"venvs", "llvm", "crashes", "mine"} <= names(state)


def test_a_run_that_runs_now_stays(lab: Lab, state: Path) -> None:
    run = lab.last
    with run.claimed():
        done = lab("clean", "--runs")
    assert f".lh/runs/{run.name}   stays: it is running" in done.stdout
    assert lab.last.name == run.name


def test_jobs_of_agents_go_unless_they_run(lab: Lab, state: Path) -> None:
    for name in ("r.dead", "r.alive"):
        (state / "agent" / name).mkdir(parents=True)
        (state / "agent" / name / "submission.json").write_text("{}")
    held = take(state / "agent" / "r.alive" / "alive")
    assert held is not None
    try:
        done = lab("clean", "--runs")
    finally:
        os.close(held)
    assert "r.alive   stays: it is running" in done.stdout
    assert names(state / "agent") == {"r.alive"}


def test_venvs(lab: Lab, state: Path) -> None:
    done = lab("clean", "--venvs")
    assert "removed .lh/venvs   1.0 KiB\nremoved .lh/llvm   1.0 KiB\nfreed 2.0 KiB\n" in done.stdout
    assert not {"venvs", "llvm"} & names(state)
    assert lab.runs.all()


def test_images_of_ours_alone_stacks_first(lab: Lab, docker: FakeDocker) -> None:
    done = lab("clean", "--images")
    assert docker.removed == ["lh/pytorch:2", "lh/llvm:1"]
    assert "removed lh/pytorch:2   2.0 GiB\n" in done.stdout
    assert done.stdout.endswith("freed 2.8 GiB\n")


def test_all_leaves_what_is_not_ours(lab: Lab, state: Path, docker: FakeDocker) -> None:
    assert lab("clean", "--all").exit_code == 0
    assert names(state) == {"runs", "mine"}
    assert names(state / "runs") == set()
    assert len(docker.removed) == 2


def test_a_dry_run_removes_nothing(lab: Lab, state: Path, docker: FakeDocker) -> None:
    lab.engine.left_behind = ("container lh-1",)
    before = sorted(state.rglob("*"))
    done = lab("clean", "--all", "--dry-run")
    assert "would remove .lh/venvs   1.0 KiB\n" in done.stdout
    assert "would remove lh/llvm:1   800.0 MiB\n" in done.stdout
    assert "would free 2.8 GiB\n" in done.stdout
    assert sorted(state.rglob("*")) == before
    assert docker.removed == []
    assert lab.engine.left_behind == ("container lh-1",)


def test_an_engine_that_does_not_answer_stops_nothing(lab: Lab, state: Path) -> None:
    lab.no_engine = {"docker"}
    lab.images = None
    done = lab("clean", "--all")
    assert done.exit_code == 0
    assert "docker: nothing swept: engine docker does not answer\n" in done.stdout
    assert "images: no engine answers\n" in done.stdout
    assert not lab.runs.all()
