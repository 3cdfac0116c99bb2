"""Scripts of agents, run with stand-ins for the service's program and for ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from orchestrator.backends.contract import ARGV, PACK

ROOT = Path(__file__).parents[2]
JOB = "r.pytorch.amd-cpu.1"

AGENT = """\
#!/bin/sh
# files stand for artifacts and meta-data
echo "buildkite-agent $*" >>"$STORE/calls"
case "$1 $2" in
"meta-data get") cat "$STORE/meta/$3" 2>/dev/null || : ;;
"artifact upload")
  for file in $3; do
    mkdir -p "$STORE/$(dirname "$file")" && cp "$file" "$STORE/$file"
  done ;;
"artifact download")
  here=$PWD
  cd "$STORE"
  found=0
  for file in $3; do
    [ -e "$file" ] || continue
    found=1
    mkdir -p "$here/$(dirname "$file")" && cp "$file" "$here/$file"
  done
  [ "$found" = 1 ] ;;
"pipeline upload") cat "${4:--}" >"$STORE/pipeline" ;;
"annotate "*) cat >"$STORE/annotation" ;;
esac
"""
LH_CI = """\
#!/bin/sh
echo "lh-ci $*" >>"$STORE/calls"
case $1 in
plan) mkdir -p plan/slips plan/runs/r && echo slip >plan/slips/JOB.txt && echo '{"steps":[]}' ;;
receive) mkdir job && cp "$2" job/job.json ;;
exec) mkdir out && echo done >out/exec.json && exit "${EXIT:-0}" ;;
pack) tar -czf "$3" -C "$2" . ;;
collect) ls "$4" >"$STORE/back-at-collect"; echo summary >summary.md; exit "${EXIT:-0}" ;;
esac
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the scripts, and a store beside it."""
    repo, store, programs = (tmp_path / name for name in ("repo", "store", "programs"))
    shutil.copytree(ROOT / ".buildkite", repo / ".buildkite")
    (repo / ".ci").mkdir()
    programs.mkdir()
    (store / "meta").mkdir(parents=True)
    texts = {
        repo / ".ci/setup": f'#!/bin/sh\necho "{programs}"\n',
        programs / "buildkite-agent": AGENT,
        programs / "lh-ci": LH_CI.replace("JOB", JOB),
    }
    for path, text in texts.items():
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("STORE", str(store))
    return tmp_path


def run(shop: Path, script: str, job: str = JOB) -> int:
    """The exit code of a script."""
    env = {**os.environ, "LIGHTHOUSE_JOB": job}
    argv = [f".buildkite/{script}.sh"]
    done = subprocess.run(argv, cwd=shop / "repo", env=env, check=False, capture_output=True)
    return done.returncode


def calls(shop: Path) -> list[str]:
    """What was called, in order."""
    return (shop / "store/calls").read_text().splitlines()


pytestmark = pytest.mark.process


@pytest.mark.parametrize("code", [0, 1, 4])
def test_a_job_runs_the_one_argv_and_its_results_are_uploaded(
    shop: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    run(shop, "plan")
    monkeypatch.setenv("EXIT", str(code))
    for _ in range(2):  # a checkout that an earlier job worked in is fine
        assert run(shop, "job") == code
        assert [" ".join(ARGV), " ".join(PACK)] == calls(shop)[-3:-1]
    with tarfile.open(shop / f"store/back/{JOB}.tar.gz") as archive:
        assert "./exec.json" in archive.getnames()
    assert (shop / "repo/job/job.json").read_text() == "slip\n"


def test_a_job_that_was_handed_over_needs_no_plan(shop: Path) -> None:
    (shop / "store/meta/lighthouse-slip").write_text("handed over")
    (shop / "store/meta/lighthouse-steps").write_text('{"steps": [1]}')
    assert run(shop, "plan") == 0
    assert (shop / "store/pipeline").read_text() == '{"steps": [1]}'
    assert run(shop, "job") == 0
    assert (shop / "repo/job/job.json").read_text() == "handed over"
    assert not any(call.startswith("lh-ci plan") for call in calls(shop))


@pytest.mark.parametrize("name", ["", "a b", "../x", "$(touch x)", "a/b"])
def test_what_is_no_id_of_a_job_is_refused(shop: Path, name: str) -> None:
    assert run(shop, "job", name) == 2
    assert not (shop / "store/calls").exists()


def test_a_selection_is_words_and_no_options(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELECTION", "pytorch_* --out")
    (shop / "repo/pytorch_file").touch()
    assert run(shop, "plan") == 0
    (line,) = [call for call in calls(shop) if call.startswith("lh-ci plan")]
    assert line == "lh-ci plan --branch main --format buildkite --out plan -- pytorch_* --out"


@pytest.mark.parametrize(("code", "style"), [(0, "success"), (1, "error"), (4, "warning")])
def test_what_came_back_is_collected_and_shown(
    shop: Path, monkeypatch: pytest.MonkeyPatch, code: int, style: str
) -> None:
    run(shop, "plan")
    run(shop, "job")
    monkeypatch.setenv("EXIT", str(code))
    assert run(shop, "collect") == code
    assert (shop / "store/back-at-collect").read_text() == f"{JOB}.tar.gz\n"
    assert (shop / "store/annotation").read_text() == "summary\n"
    assert any(f"--style {style}" in call for call in calls(shop))
    assert (shop / "store/run.tar.gz").exists()


def test_nothing_that_came_back_is_collected_too(shop: Path) -> None:
    run(shop, "plan")
    assert run(shop, "collect") == 0
    assert (shop / "store/back-at-collect").read_text() == ""


class TestHistory:
    """Nights of the past, on a branch."""

    @pytest.fixture
    def clone(self, tmp_path: Path) -> Path:
        """A checkout of a repository that has no such branch."""
        git = ["git", "-c", "init.defaultBranch=main"]
        subprocess.run([*git, "init", "-q", "--bare", str(tmp_path / "origin")], check=True)
        clone = tmp_path / "clone"
        subprocess.run([*git, "clone", "-q", str(tmp_path / "origin"), str(clone)], check=True)
        (clone / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/history", clone / ".ci/history")
        return clone

    def history(self, clone: Path, *words: str) -> int:
        """The exit code of the script."""
        argv = [".ci/history", *words]
        return subprocess.run(argv, cwd=clone, check=False, capture_output=True).returncode

    def test_files_are_added_and_stay(self, clone: Path) -> None:
        assert self.history(clone, "pull", "before") == 0
        assert list((clone / "before").iterdir()) == []
        for night, text in (("a", "first"), ("b", "second")):
            (clone / f"{night}.parquet").write_text(text)
            assert self.history(clone, "push", f"{night}.parquet") == 0
        (clone / "a.parquet").write_text("another")
        assert self.history(clone, "push", "a.parquet") == 0
        assert self.history(clone, "pull", "after") == 0
        found = {path.name: path.read_text() for path in (clone / "after").iterdir()}
        assert found == {"a.parquet": "first", "b.parquet": "second"}

    def test_a_repository_that_does_not_answer_is_no_empty_past(
        self, clone: Path, tmp_path: Path
    ) -> None:
        shutil.rmtree(tmp_path / "origin")
        (clone / "a.parquet").write_text("first")
        assert self.history(clone, "pull", "x") != 0
        assert self.history(clone, "push", "a.parquet") != 0
