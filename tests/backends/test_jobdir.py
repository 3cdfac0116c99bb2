"""A job's folder has all that the harness needs, and nothing may change unseen."""

from __future__ import annotations

import ast
import dataclasses
import errno
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from orchestrator import records
from orchestrator.backends import jobdir
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.job import Golden, Job, Workload
from tests.backends.samples import cell


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    """Files that a job names, outside of its folder."""
    program, golden = tmp_path / "mlp.py", tmp_path / "f32.npz"
    program.write_text("class Model: ...\n")
    golden.write_bytes(b"numbers")
    return {"workloads/mlp.py": str(program), "golden/mlp/f32.npz": str(golden)}


@pytest.fixture
def sample(sources: dict[str, str]) -> Job:
    """A job with one cell that names them."""

    def sha256(name: str) -> str:
        return hashlib.sha256(Path(sources[name]).read_bytes()).hexdigest()

    one = dataclasses.replace(
        cell("mlp"),
        workload=Workload(name="mlp", file="workloads/mlp.py", sha256=sha256("workloads/mlp.py")),
        golden=Golden(
            file="golden/mlp/f32.npz",
            sha256=sha256("golden/mlp/f32.npz"),
            size=7,
            inputs_sha256="",
        ),
    )
    return Job(id="run.pytorch", stack="pytorch", pool="intel-cpu", cells=(one,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one."""
    path = tmp_path / "jobs" / "run.pytorch-2"
    path.mkdir(parents=True)
    return path


def test_it_holds_job_workloads_goldens_and_harness(
    folder: Path, sample: Job, sources: dict[str, str]
) -> None:
    written = jobdir.write(folder, sample, sources)
    assert written.id == "run.pytorch-2"
    document = json.loads((folder / "job.json").read_text())
    assert records.decode(Job, document) == written
    assert (folder / "workloads/mlp.py").read_text() == "class Model: ...\n"
    assert (folder / "golden/mlp/f32.npz").read_bytes() == b"numbers"
    assert (folder / "orchestrator/harness/__main__.py").is_file()
    assert not list(folder.rglob("__pycache__"))
    assert not (folder / "orchestrator/cli").exists()


def test_everybody_may_read_it_whatever_the_umask(
    folder: Path, sample: Job, sources: dict[str, str]
) -> None:
    before = os.umask(0o077)
    try:
        jobdir.write(folder, sample, sources)
    finally:
        os.umask(before)
    for path in [folder, *folder.rglob("*")]:
        wanted = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.parametrize("name", ["workloads/mlp.py", "golden/mlp/f32.npz"])
def test_a_file_that_changed_since_planning_is_refused(
    folder: Path, sample: Job, sources: dict[str, str], name: str
) -> None:
    Path(sources[name]).write_text("edited")
    with pytest.raises(DefinitionError, match="changed since this run was planned") as caught:
        jobdir.write(folder, sample, sources)
    assert sources[name] in str(caught.value)


def test_a_file_that_is_gone_is_refused(folder: Path, sample: Job, sources: dict[str, str]) -> None:
    Path(sources["workloads/mlp.py"]).unlink()
    with pytest.raises(DefinitionError, match=r"mlp\.py: No such file"):
        jobdir.write(folder, sample, sources)


def test_a_full_disk_is_infrastructure(
    folder: Path, sample: Job, sources: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InfrastructureError, match="No space left on device"):
        jobdir.write(folder, sample, sources)


def test_the_harness_imports_nothing_of_ours_that_is_not_copied() -> None:
    copied = {part.removesuffix(".py") for part in jobdir.HARNESS_PARTS}
    for part in jobdir.HARNESS_PARTS:
        path = jobdir.PACKAGE / part
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            for module in _imports(file):
                head, _, rest = module.partition(".")
                if head == "orchestrator" and rest:
                    assert rest.partition(".")[0] in copied, f"{file} imports {module}"


def _imports(file: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "orchestrator":
            found += [f"orchestrator.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


def test_the_harness_has_one_digest() -> None:
    assert jobdir.harness_sha256() == jobdir.harness_sha256()
    assert len(jobdir.harness_sha256()) == 64
