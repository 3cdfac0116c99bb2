"""FileCheck directives of recipes, held by the real tool where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.harness import lowering
from orchestrator.harness.blame import CompilerFault, MachineFault
from orchestrator.job import RecipeRun

RECIPE = RecipeRun(name="outline", steps=(), check='CHECK: "gpu.launch_func"(\n')


def fake(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FileCheck that is a shell script."""
    program = folder / "FileCheck"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(lowering, "tool", lambda _: program)


def test_the_ir_and_the_directives_reach_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, f'cp "$1" {tmp_path}/directives; cat > {tmp_path}/ir', monkeypatch)
    lowering.file_check(RECIPE, "the IR")
    assert (tmp_path / "directives").read_text() == RECIPE.check
    assert (tmp_path / "ir").read_text() == "the IR"


def test_what_does_not_match_is_the_compilers_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "/x/outline.check:1:8: error: CHECK: expected string not found in input"
    fake(
        tmp_path,
        f"cat > /dev/null; echo '{said}' >&2; echo 'CHECK: launch' >&2; exit 1",
        monkeypatch,
    )
    with pytest.raises(CompilerFault) as caught:
        lowering.file_check(RECIPE, "nothing of the kind")
    assert caught.value.message == (
        "outline: what it left is not what its check expects: outline.check:1:8: error: CHECK: "
        "expected string not found in input; CHECK: launch"
    )


def test_a_stack_without_the_tool_reaches_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("orchestrator.harness.tools._folders", lambda: iter(()))
    with pytest.raises(MachineFault, match="this stack has no FileCheck"):
        lowering.file_check(RECIPE, "the IR")
