"""Runs on disk."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.plan import PlannedCell
from orchestrator.results import files
from orchestrator.results.artifacts import ArtifactError
from orchestrator.results.declared import Declared
from orchestrator.results.schema import Result, RunInfo, RunOptions, RunPlan
from orchestrator.results.store import Run, Runs, utc
from tests.backends.samples import MOMENT, cell


def result(cell: str = "a", attempt: int = 1, **changed: Any) -> Result:
    values: dict[str, Any] = {
        "run": "r",
        "cell": cell,
        "attempt": attempt,
        "status": "pass",
        "phase": "",
        "message": "",
        "stages": (),
        "errors": (),
        "golden": "recorded",
        "last_words": "",
        "dropped_bytes": 0,
        "peak_memory_bytes": 0,
        "started": utc(MOMENT),
        "seconds": 1.5,
        "engine": "docker",
        "environment": "sha256:1",
        "toolchain": "release",
        "versions": {},
        "hardware": {},
        "isolation": None,
        "argv": (),
        "workload_sha256": "",
        "constants": {},
        "tier": "core",
        "fingerprint": "",
        "reproduce": "nox",
        **changed,
    }
    return Result(**values)


def planned(name: str, *, runnable: bool = True) -> PlannedCell:
    return PlannedCell(cell=cell(name), stack="pytorch", tier="core", runnable=runnable, reason="")


def plan(*cells: PlannedCell) -> RunPlan:
    return RunPlan(selection=("torch_cpu",), cells=cells, files={}, options=RunOptions())


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / ".lh")


@pytest.fixture
def run(runs: Runs) -> Run:
    return runs.create(MOMENT)


def test_a_run_is_named_after_its_time_in_utc(runs: Runs) -> None:
    tokyo = MOMENT.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert runs.create(tokyo).name == "2026-11-20T21-04-11"


def test_runs_of_the_same_second_get_a_suffix_and_stay_in_order(runs: Runs) -> None:
    names = [runs.create(MOMENT).name for _ in range(11)]
    assert names[:3] == ["2026-11-20T21-04-11", "2026-11-20T21-04-11-2", "2026-11-20T21-04-11-3"]
    assert [run.name for run in runs.all()] == names[::-1]
    assert runs.find("last").name == names[-1]


def test_what_is_no_run_is_not_listed(runs: Runs, run: Run) -> None:
    (runs.folder / "notes").mkdir()
    (runs.folder / "2026-11-20T21-04-12").write_text("a file")
    assert [each.name for each in runs.all()] == [run.name]


def test_an_unknown_run_is_answered_with_the_likely_one(runs: Runs, run: Run) -> None:
    with pytest.raises(UsageError, match=rf"no run `2026-11-20T21-04`\. Did you mean {run.name}\?"):
        runs.find("2026-11-20T21-04")


def test_no_run_at_all(runs: Runs) -> None:
    with pytest.raises(UsageError, match=r"no runs in .* yet"):
        runs.find("last")


def test_results_come_back_as_they_were_written(run: Run) -> None:
    first, second = result(attempt=1, status="miss"), result(attempt=2)
    other = result("torch_cpu.mlp.f32@intel-cpu")
    for each in (second, other, first):
        run.add(each)
    assert run.results() == ((first, second, other), ())
    assert run.latest() == {"a": second, other.cell: other}
    assert run.attempts() == {"a": 2, other.cell: 1}


def test_a_result_is_for_everyone_to_read_and_leaves_no_temporary_file(run: Run) -> None:
    path = run.add(result())
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["a.1.json"]


def test_an_attempt_is_never_written_twice(run: Run) -> None:
    run.add(result())
    with pytest.raises(InfrastructureError, match="exists already"):
        run.add(result(status="fail"))
    assert run.latest()["a"].status == "pass"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (b'{"cell": "b"', "delimiter"),
        (b"\xff\xfe\x00", "decode"),
        (b"[]", "expected an object"),
        (b'{"cell": "b", "colour": 1}', "unknown key 'colour'"),
    ],
)
def test_a_damaged_result_is_reported_and_costs_no_other(
    run: Run, content: bytes, why: str
) -> None:
    good = result()
    run.add(good)
    (run.folder / "results" / "b.1.json").write_bytes(content)
    found, (problem,) = run.results()
    assert found == (good,)
    assert "b.1.json is damaged" in problem
    assert why in problem
    assert run.attempts()["b"] == 1


def test_a_result_under_another_name_is_reported(run: Run) -> None:
    path = run.add(result())
    path.rename(path.with_name("b.1.json"))
    assert run.results()[0] == ()
    assert "does not fit" in run.results()[1][0]


def test_unfinished_are_runnable_cells_without_a_verdict(run: Run) -> None:
    run.write_plan(plan(*map(planned, "abc"), planned("d", runnable=False)))
    run.add(result("a"))
    run.add(result("b", status="miss"))
    assert run.unfinished() == ("b", "c")
    run.add(result("b", attempt=2, status="fail"))
    run.add(result("c", status="error"))
    assert run.unfinished() == ()


def test_plan_and_info_come_back_as_they_were_written(run: Run) -> None:
    info = RunInfo(run=run.name, started=utc(MOMENT), engine="docker", engine_note="", version="0")
    run.write_plan(plan(planned("a")))
    run.write_info(info)
    assert run.plan() == plan(planned("a"))
    assert run.info() == info


def test_a_missing_plan_says_so(run: Run) -> None:
    with pytest.raises(InfrastructureError, match=r"plan\.json is missing"):
        run.plan()


def test_a_full_disk_loses_nothing_that_was_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.add(result("a"))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InfrastructureError, match=r"No space left on device.*lh-ci clean"):
        run.add(result("b"))
    assert [p.name for p in (run.folder / "results").iterdir()] == ["a.1.json"]
    assert set(run.latest()) == {"a"}


def test_a_failing_write_keeps_the_old_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_plan(plan(planned("a")))
    monkeypatch.setattr(Path, "replace", _full)
    with pytest.raises(InfrastructureError):
        run.write_plan(plan(planned("b")))
    assert run.plan() == plan(planned("a"))
    assert [p.name for p in run.folder.iterdir()] == ["plan.json"]


def _full(*args: object) -> None:
    raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def test_artifacts_stay_inside_their_folder(run: Run) -> None:
    path = run.write_artifact("a@b", "ir/00-ingress.mlir", b"module")
    assert path == run.folder / "artifacts" / "a@b" / "ir" / "00-ingress.mlir"
    assert path.read_bytes() == b"module"
    for name in ("../../plan.json", "/etc/x", "ir/../../../x"):
        with pytest.raises(ArtifactError):
            run.write_artifact("a", name, b"")
    run.clear_artifacts("a")
    assert not run.artifacts("a").exists()


def test_job_folders_are_new_and_empty(run: Run) -> None:
    first, second = run.job_folder("r.pytorch"), run.job_folder("r.pytorch")
    assert (first.name, second.name) == ("r.pytorch", "r.pytorch-2")
    assert list(second.iterdir()) == []


def test_a_run_belongs_to_one_process_at_a_time(run: Run) -> None:
    with (
        run.claimed(),
        pytest.raises(UsageError, match="is being run by another process"),
        run.claimed(),
    ):
        pass
    with run.claimed():
        pass


def test_what_was_half_written_is_gone_when_somebody_goes_on(run: Run) -> None:
    run.add(result("a"))
    halves = [run.folder / "results/.x.tmp", run.folder / ".y.tmp", run.folder / "parcels/.z.tmp"]
    for half in halves:
        half.parent.mkdir(exist_ok=True)
        half.write_text("{")
    halves[2].unlink()
    halves[2].mkdir()
    (halves[2] / "file").touch()
    with run.claimed():
        assert [half for half in halves if half.exists()] == []
    assert set(run.latest()) == {"a"}


def test_a_run_with_a_plan_has_its_declaration(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(Run, "_write", lambda self, name, record: order.append(name))
    run.begin(plan(), Declared(pipelines={}, recipes={}, pools={}, stacks={}))
    assert order == ["declared.json", "plan.json"]


def test_documents_are_stable_json(run: Run) -> None:
    path = run.add(result())
    text = path.read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


def test_sizes_of_trees(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"123")
    (tmp_path / "y").write_bytes(b"4567")
    (tmp_path / "z").symlink_to("/")
    assert files.tree_bytes(tmp_path) == 7 + len("/")
    assert files.tree_bytes(tmp_path / "gone") == 0
