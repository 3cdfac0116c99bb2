"""`lh-ci dashboard`, from runs of this workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import MLP, Lab
from tests.cli.test_run import play


@pytest.fixture(autouse=True)
def _here(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.tree.root)


def test_runs_become_a_site(lab: Lab) -> None:
    play(lab)
    lab("run", "torch_cpu")
    done = lab("dashboard")
    assert done.exit_code == 0, done.stderr
    assert "site/index.html" in done.stdout
    assert (lab.tree.root / "site" / "cells" / "torch_cpu" / "mlp").is_dir()
    assert MLP in (lab.tree.root / "site" / "cells/torch_cpu/mlp/f32@intel-cpu.html").read_text()


def test_json_says_what_was_made(lab: Lab) -> None:
    play(lab)
    lab("run", "torch_cpu")
    first = lab.json("dashboard", "--out", "here")
    assert first["nights"] == 1
    assert first["written"] == first["files"]
    again = lab.json("dashboard", "--out", "here")
    assert again["written"] == 0
    assert Path(again["index"]).is_file()


def test_no_runs_are_said(lab: Lab) -> None:
    done = lab("dashboard")
    assert done.exit_code == 0
    assert "no results yet" in done.stdout
    assert (lab.tree.root / "site" / "index.html").is_file()


def test_a_folder_that_is_not_there_is_told(lab: Lab) -> None:
    done = lab("dashboard", "--results", "nowhere")
    assert done.exit_code == 2
    assert "no folder" in done.stderr


def test_a_folder_of_others_is_not_overwritten(lab: Lab) -> None:
    done = lab("dashboard", "--out", ".")
    assert done.exit_code == 2
    assert "--out" in done.stderr
