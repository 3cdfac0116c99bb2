"""What services read: as matrix and templates make it, valid, and found safe by an auditor."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from orchestrator.backends.contract import ARGV, PACK
from orchestrator.config.load import load
from orchestrator.workflows import files
from orchestrator.workflows.pins import ACTIONS
from tests.cli.conftest import Lab, lab

__all__ = ["lab"]

ROOT = Path(__file__).parents[2]
MATRIX = load(ROOT, goldens=False).matrix
FILES = files.render(MATRIX)
WORKFLOWS = {path: yaml.safe_load(text) for path, text in FILES.items() if "workflows/" in path}


def jobs(path: str) -> dict[str, Any]:
    """The jobs of a workflow."""
    found: dict[str, Any] = WORKFLOWS[f".github/workflows/{path}.yml"]["jobs"]
    return found


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step of every workflow, and of the action."""
    for path, workflow in WORKFLOWS.items():
        for job in workflow["jobs"].values():
            yield from ((path, step) for step in job.get("steps", []))
    action = yaml.safe_load(FILES[".github/actions/exec/action.yml"])
    yield from (("action", step) for step in action["runs"]["steps"])


def test_the_files_in_the_repository_are_those_that_would_be_written() -> None:
    assert files.drift(ROOT, MATRIX) == [], "run: lh-ci workflows --write"


@pytest.mark.parametrize("path", sorted(FILES))
def test_they_are_what_the_services_take(path: str) -> None:
    if path.endswith(".sh"):
        assert FILES[path].startswith("#!/bin/sh\n")
        return
    kind = "buildkite" if "buildkite" in path else "github-workflows"
    kind = "github-actions" if path.endswith("action.yml") else kind
    argv = ["--builtin-schema", f"vendor.{kind}", str(ROOT / path)]
    checked = CliRunner().invoke(check_jsonschema, argv)
    assert checked.exit_code == 0, checked.output


@pytest.mark.process
def test_an_auditor_finds_nothing() -> None:
    found = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    assert found is not None
    argv = [found, "--offline", "--no-progress", "--persona=auditor", str(ROOT / ".github")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_actions_are_those_that_are_pinned() -> None:
    used = {step["uses"] for _, step in steps() if "uses" in step}
    theirs = {name for name in used if not name.startswith("$/")}
    assert theirs == {f"actions/{name}@{pin.split()[0]}" for name, pin in ACTIONS.items()}
    assert all(re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin) for pin in ACTIONS.values())


def test_nothing_that_others_write_is_in_a_script() -> None:
    scripts = [(path, step["run"]) for path, step in steps() if "run" in step]
    assert scripts
    assert [path for path, script in scripts if "${{" in script] == []


def test_jobs_may_read_and_two_may_write() -> None:
    writing = {}
    for path, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {}, path
        for name, job in workflow["jobs"].items():
            granted = {k for k, v in job["permissions"].items() if v == "write"}
            if granted:
                writing[name] = granted
    assert writing == {"record": {"contents"}, "publish": {"pages", "id-token"}}
    assert [s["run"] for s in jobs("nightly")["record"]["steps"] if "run" in s] == [
        ".ci/history push archives/*.parquet"
    ]


def test_code_of_others_runs_on_hosted_machines_alone() -> None:
    for path, workflow in WORKFLOWS.items():
        on = workflow[True]  # YAML 1.1 reads `on` as a truth
        hosted = all(
            job.get("runs-on", "ubuntu-24.04") == "ubuntu-24.04"
            for job in workflow["jobs"].values()
        )
        calls = any("uses" in job for job in workflow["jobs"].values())
        assert {"pull_request_target", "workflow_run", "issue_comment"}.isdisjoint(on), path
        if "pull_request" in on:
            assert hosted, path
            assert not calls, path
    pipeline = yaml.safe_load(FILES[".buildkite/pipeline.yml"])
    assert pipeline["steps"][0]["if"] == "build.pull_request.repository.fork != true"


def test_ci_does_what_the_script_does() -> None:
    script = (ROOT / ".ci/run").read_text()
    include = jobs("ci")["pipelines"]["strategy"]["matrix"]["include"]
    assert {entry["pipeline"] for entry in include} == set(MATRIX.pipelines)
    for name in MATRIX.pipelines:
        assert name in script
    run = [step["run"] for job in jobs("ci").values() for step in job["steps"] if "run" in step]
    for session in ("lint", "tests"):
        assert f"nox -s {session}" in run
        assert f"nox -s {session}\n" in script
    engines = {entry["engine"] for entry in include if entry["pipeline"] == "pytorch_cpu"}
    assert engines == {"docker", "venv"}


def test_every_backend_runs_one_argv() -> None:
    line = shlex.join(ARGV)
    assert line == "lh-ci exec job/job.json --out out"
    script = FILES[".buildkite/job.sh"].splitlines()
    assert f"{line} || code=$?" in script
    assert shlex.join(PACK) == "lh-ci pack out out.tar.gz"
    assert shlex.join(PACK) in script
    action = yaml.safe_load(FILES[".github/actions/exec/action.yml"])["runs"]["steps"]
    runs = [step.get("run", "") for step in action]
    assert [run.partition(" && ")[2] for run in runs if "exec" in run] == [line]
    assert any(f" && {shlex.join(PACK)} && " in run for run in runs)


@pytest.mark.parametrize("path", ["nightly", "vendor"])
class TestSecondGo:
    """What was missed is tried once more, before a run is closed."""

    def test_only_who_plans_sees_the_key(self, path: str) -> None:
        found = {
            name for name, job in jobs(path).items() if job.get("environment") == "orchestrator"
        }
        seen = {
            name
            for name, job in jobs(path).items()
            if any("LH_ORCHESTRATOR_KEY" in step.get("env", {}) for step in job.get("steps", []))
        }
        assert found == seen == {"plan", "second"}
        # what machines sent is read by others
        for name in seen:
            assert all("pattern" not in step.get("with", {}) for step in jobs(path)[name]["steps"])

    def test_plans_are_found_by_id(self, path: str) -> None:
        found = {}
        for name in ("first", "second", "collect"):
            (step,) = (
                s
                for s in jobs(path)[name]["steps"]
                if s.get("with", {}).get("path") == "plan" and "download-artifact" in s["uses"]
            )
            assert "name" not in step["with"]
            found[name] = step["with"]["artifact-ids"]
        assert found == {
            "first": "${{ needs.plan.outputs.plan }}",
            "second": "${{ needs.first.outputs.plan }}",
            "collect": "${{ needs.second.result == 'success' && needs.second.outputs.plan "
            "|| needs.plan.outputs.plan }}",
        }
        for name in ("plan", "first", "second"):
            assert jobs(path)[name]["outputs"]["plan"] == "${{ steps.upload.outputs.artifact-id }}"

    def test_goes_have_texts_of_their_own(self, path: str) -> None:
        slips = {name: jobs(path)[name]["with"]["slips"] for name in ("cells", "cells-second")}
        assert slips == {"cells": "slips", "cells-second": "slips-second"}
        uploaded = [
            step["with"]["name"]
            for job in jobs(path).values()
            for step in job.get("steps", [])
            if "upload-artifact" in step.get("uses", "")
        ]
        assert len(set(uploaded)) == len(uploaded)
        assert set(slips.values()) < set(uploaded)

    def test_everything_is_collected_whatever_became_of_the_goes(self, path: str) -> None:
        collect = jobs(path)["collect"]
        assert collect["needs"] == ["plan", "cells", "first", "second", "cells-second"]
        assert collect["if"] == "${{ !cancelled() && needs.plan.result == 'success' }}"
        for name in ("first", "collect"):
            patterns = [s["with"].get("pattern") for s in jobs(path)[name]["steps"] if "with" in s]
            assert {"results-*", "taken-*"} < set(patterns)
        # a job that others need may have failed: none of these waits for success of them all
        for name in ("cells", "first", "second", "cells-second"):
            assert jobs(path)[name]["if"].startswith("${{ !cancelled() && needs.")


def test_who_begins_a_job_says_so_before_anything_else() -> None:
    said, told, *_ = yaml.safe_load(FILES[".github/actions/exec/action.yml"])["runs"]["steps"]
    assert said["run"].endswith('"${LH_AGENT:-$RUNNER_NAME}" > "taken/$JOB.taken"')
    assert told["with"]["name"] == "taken-${{ inputs.job }}"
    assert told["continue-on-error"] is True


def test_vendors_choose_among_the_pools() -> None:
    inputs = WORKFLOWS[".github/workflows/vendor.yml"][True]["workflow_dispatch"]["inputs"]
    assert inputs["pool"]["options"] == list(MATRIX.pools)


def test_the_command_compares_and_writes(lab: Lab) -> None:
    first = lab("workflows")
    assert first.exit_code == 3
    assert "Write them again: lh-ci workflows --write" in first.stdout
    assert lab("workflows", "--write").stdout.count("written") == len(FILES)
    assert lab("workflows", "--check").exit_code == 0
    script = lab.tree.root / ".buildkite/job.sh"
    assert script.stat().st_mode & 0o100
    script.chmod(0o644)
    assert lab("workflows", "--check").stdout.startswith("differs .buildkite/job.sh")
    assert lab("workflows", "--check", "--write").exit_code == 2
