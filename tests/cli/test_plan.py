"""A run that is planned in one place, run in others and collected in a third."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import jobdir, ordering, parcel, planned
from orchestrator.backends.contract import ARGV
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.fakes import Play, fail
from tests.fleet.samples import AGENT, FILE


@pytest.fixture(autouse=True)
def _small_harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    jobdir.harness_sha256.cache_clear()
    yield
    jobdir.harness_sha256.cache_clear()


def register(lab: Lab, **changes: str) -> None:
    """One agent of pool `intel-cpu`, with lines of its file changed."""
    text = AGENT.replace("backend: buildbot", f"backend: {changes.pop('backend', 'github')}")
    for old, new in changes.items():
        text = text.replace(f"{old}: ", f"{old}: {new} # ", 1)
    (lab.tree.root / "agents").mkdir(exist_ok=True)
    (lab.tree.root / FILE).write_text(text, encoding="utf-8")


def planned_jobs(lab: Lab, *words: str) -> list[dict[str, Any]]:
    """The jobs of `lh-ci plan --format json`."""
    done = lab("plan", "--format", "json", *words)
    assert done.exit_code == 0, done.stderr
    jobs: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return jobs


class TestPlan:
    """Jobs and their pools, without an engine."""

    def test_every_pool_has_jobs_whatever_this_machine_is(self, lab: Lab) -> None:
        jobs = planned_jobs(lab)
        assert [(job["job"], job["pool"]) for job in jobs] == [
            ("run.pytorch.intel-cpu", "intel-cpu"),
            ("run.pytorch.amd-cpu", "amd-cpu"),
        ]
        assert jobs[0]["cells"] == [MLP, MLP_F16, SUM]
        assert lab.asked_for == []

    def test_for_people(self, lab: Lab) -> None:
        done = lab("plan", "--machines", "hosted")
        assert done.stdout.splitlines() == [
            "0 jobs, 0 cells",
            "skip  3 cells: pool intel-cpu needs a CPU of its kind, and hosted machines have any",
            "skip  3 cells: pool amd-cpu needs a CPU of its kind, and hosted machines have any",
        ]

    def test_a_selection_and_small_jobs(self, lab: Lab) -> None:
        jobs = planned_jobs(lab, "--pool", "intel-cpu", "--cells-per-job", "1")
        assert [job["job"] for job in jobs] == [f"run.pytorch.intel-cpu.{n}" for n in (1, 2, 3)]
        assert [job["cells"] for job in jobs] == [[MLP], [MLP_F16], [SUM]]
        assert "Did you mean `intel-cpu`?" in lab("plan", "--pool", "intel-cpi").stderr

    def test_agents_of_another_service_do_not_count(self, lab: Lab) -> None:
        register(lab, backend="buildkite")
        assert json.loads(lab("plan", "--format", "github").stdout) == {"chunk": []}
        (step, _) = json.loads(lab("plan", "--format", "buildkite").stdout)["steps"]
        assert step["agents"] == {"queue": "lighthouse", "pool": "intel-cpu", "docker": "true"}

    def test_probation_turns_nothing_red(self, lab: Lab) -> None:
        register(lab)
        (chunk,) = json.loads(lab("plan", "--format", "github").stdout)["chunk"]
        (entry,) = chunk["include"]
        assert entry == {
            "job": "run.pytorch.intel-cpu",
            "name": "pytorch on intel-cpu (3)",
            "runner": ["self-hosted", "lighthouse", "pool-intel-cpu"],
            "minutes": 50,
            "probation": True,
        }
        register(lab, level="trusted")
        (job,) = planned_jobs(lab, "--machines", "registered")
        assert job["probation"] is False

    def test_terms_of_owners_are_kept(self, lab: Lab) -> None:
        register(lab)
        for words, why in (
            (["--branch", "dev"], "no agent of pool intel-cpu runs branch dev"),
            ([], "no agent is registered for pool amd-cpu with backend github"),
        ):
            document = json.loads(
                lab("plan", "--format", "json", "--machines", "registered", *words).stdout
            )
            reasons = [
                skip["reason"].replace(" with backend github", "") for skip in document["skipped"]
            ]
            assert why.replace(" with backend github", "") in reasons
        register(lab, pipelines='["other*"]')
        assert "Pipelines:" in lab("plan", "--format", "github").stderr

    def test_a_job_takes_no_longer_than_its_machines_owner_allows(self, lab: Lab) -> None:
        register(lab, time="10min")
        (job,) = planned_jobs(lab, "--machines", "registered")
        assert job["timeout_s"] == 600

    def test_a_folder_with_something_in_it_is_left_alone(self, lab: Lab) -> None:
        done = lab("plan", "--out", str(lab.tree.root))
        assert done.exit_code == 2
        assert "there is something in it" in done.stderr

    def test_a_program_from_elsewhere_does_not_travel(self, lab: Lab, tmp_path: Path) -> None:
        source = (lab.tree.root / "recipes/workloads/mlp.py").read_text()
        (tmp_path / "mine.py").write_text(source)
        done = lab(
            *("plan", "torch_cpu", "--workload", str(tmp_path / "mine.py")),
            *("--out", str(tmp_path / "plan")),
        )
        assert done.exit_code == 2
        assert "is not in the repository" in done.stderr


class TestWay:
    """Planned here, run there, collected."""

    def run_all(self, lab: Lab, out: Path, *words: str) -> tuple[Path, Path]:
        """Plans cells of `intel-cpu`, runs each job with the one argv; the plan what came."""
        plan, back = out / "plan", out / "back"
        done = lab("plan", "--pool", "intel-cpu", "--out", str(plan), *words)
        assert done.exit_code == 0, done.stderr
        for slip in sorted((plan / "slips").iterdir()):
            work = out / slip.stem
            assert lab("receive", str(slip), str(work / "job")).exit_code == 0
            argv = [word if "/" not in word else str(work / word) for word in ARGV[1:]]
            lab(*argv[:-1], str(work / argv[-1]))
            parcel.pack(work / "out", back / slip.stem / f"{slip.stem}.tar.gz", ["lock", "jobs"])
        return plan, back

    def test_everything_that_was_run_is_in_the_record(self, lab: Lab, tmp_path: Path) -> None:
        lab.engine.script = Play({SUM: [fail("wrong | <b>`x`")]})
        plan, back = self.run_all(lab, tmp_path, "--cells-per-job", "2")
        summary = tmp_path / "summary.md"
        done = lab("collect", str(plan), "--results", str(back), "--summary", str(summary))
        assert done.exit_code == 1, done.stderr
        run = planned.only_run(plan)
        statuses = {cell: result.status for cell, result in run.latest().items()}
        assert statuses == {MLP: "pass", SUM: "fail", MLP_F16: "xpass"}
        assert run.info().ended is not None
        assert [e.stack for e in run.info().environments] == ["pytorch"]
        text = summary.read_text()
        assert "| intel&#45;cpu | 1 | 1 |" in text
        assert "wrong &#124; &#60;b&#62;&#96;x&#96;" in text
        again = lab("collect", str(plan), "--results", str(back))
        assert (again.exit_code, run.attempts()) == (1, {MLP: 1, SUM: 1, MLP_F16: 1})

    def test_a_job_that_nobody_took_is_a_miss(self, lab: Lab, tmp_path: Path) -> None:
        plan, back = self.run_all(lab, tmp_path, "--cells-per-job", "2")
        lost = min(back.rglob("*.tar.gz"))
        lost.write_bytes(lost.read_bytes()[:-100])
        done = lab("collect", str(plan), "--results", str(back))
        latest = planned.only_run(plan).latest()
        assert {latest[MLP].status, latest[MLP_F16].status} == {"miss"}
        assert "is no parcel" in latest[MLP].message
        assert (latest[SUM].status, done.exit_code) == ("pass", 4)

    def test_nothing_at_all_is_infrastructure(self, lab: Lab, tmp_path: Path) -> None:
        plan, _ = self.run_all(lab, tmp_path)
        done = lab("collect", str(plan), "--results", str(tmp_path / "nowhere"))
        assert done.exit_code == 4
        latest = planned.only_run(plan).latest()
        assert {result.status for result in latest.values()} == {"miss"}
        assert all("no machine took it" in result.message for result in latest.values())

    def test_of_doubles_the_first_whole_one_counts(self, lab: Lab, tmp_path: Path) -> None:
        plan, back = self.run_all(lab, tmp_path)
        (path,) = back.rglob("*.tar.gz")
        for name in ("0-torn", "z-again"):
            (back / name).mkdir()
            (back / name / path.name).write_bytes(path.read_bytes())
        (back / "0-torn" / path.name).write_bytes(b"<html>")
        (back / "stray.tar.gz").write_bytes(b"")
        done = lab("collect", str(plan), "--results", str(back))
        assert "0 results" not in done.stdout
        assert "1 more came back of it" in done.stdout
        assert "stray: results of a job that is not of this run" in done.stdout
        latest = planned.only_run(plan).latest()
        assert [latest[cell].status for cell in (MLP, SUM)] == ["pass", "pass"]

    def test_cells_on_probation_turn_nothing_red(self, lab: Lab, tmp_path: Path) -> None:
        register(lab)
        lab.engine.script = Play({SUM: [fail("wrong")]})
        plan, back = self.run_all(lab, tmp_path, "--machines", "registered")
        assert lab("collect", str(plan), "--results", str(back)).exit_code == 0

    def test_a_folder_that_is_no_plan_is_told(self, lab: Lab, tmp_path: Path) -> None:
        done = lab("collect", str(tmp_path), "--results", str(tmp_path))
        assert done.exit_code == 4
        assert "no folder that `lh-ci plan --out` wrote" in done.stderr


class TestReceive:
    """A job's folder, made again."""

    def test_byte_for_byte_as_if_the_folder_had_travelled(self, lab: Lab, tmp_path: Path) -> None:
        plan = tmp_path / "plan"
        kept: dict[str, bytes] = {}
        original = ordering.write

        def write(folder: Path, *args: Any) -> Any:
            written = original(folder, *args)
            kept.update(files(folder))
            return written

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ordering, "write", write)
            lab("plan", "--pool", "intel-cpu", "--out", str(plan))
        (slip,) = (plan / "slips").iterdir()
        assert lab("receive", str(slip), str(tmp_path / "job")).exit_code == 0
        assert files(tmp_path / "job") == kept
        assert {"job.json", "order.json", "workloads/mlp.py"} <= set(kept)

    def test_another_checkout_is_told(self, lab: Lab, tmp_path: Path) -> None:
        lab("plan", "--pool", "intel-cpu", "--out", str(tmp_path / "plan"))
        (slip,) = (tmp_path / "plan/slips").iterdir()
        path = lab.tree.root / "recipes/workloads/mlp.py"
        path.write_text(path.read_text() + "# changed\n")
        done = lab("receive", str(slip), str(tmp_path / "job"))
        assert done.exit_code == 3
        assert "changed since this run was planned" in done.stderr

    @pytest.mark.parametrize("text", ["", "!!", "AAAA", "eJyrrgUAAXUA+Q=="])
    def test_what_is_no_job_is_told(self, lab: Lab, tmp_path: Path, text: str) -> None:
        (tmp_path / "slip.txt").write_text(text)
        done = lab("receive", str(tmp_path / "slip.txt"), str(tmp_path / "job"))
        assert done.exit_code == 2
        assert "handed over" in done.stderr

    def test_files_of_a_job_stay_in_its_folder(self, lab: Lab, tmp_path: Path) -> None:
        lab("plan", "--pool", "intel-cpu", "--out", str(tmp_path / "plan"))
        (slip,) = (tmp_path / "plan/slips").iterdir()
        documents = json.loads(zlib.decompress(base64.b64decode(slip.read_text())))
        documents["job.json"] = documents["job.json"].replace("workloads/mlp.py", "../../mlp.py")
        packed = zlib.compress(json.dumps(documents).encode())
        slip.write_text(base64.b64encode(packed).decode())
        done = lab("receive", str(slip), str(tmp_path / "job"))
        assert done.exit_code == 2
        assert "'../../mlp.py', no plain path" in done.stderr

    @pytest.mark.parametrize(
        "name",
        ["warrants/../x.json", "warrants/a/b.json", "orchestrator/job.py", "warrants/A.json"],
    )
    def test_nothing_but_warrants_comes_with_a_job(
        self, lab: Lab, tmp_path: Path, name: str
    ) -> None:
        lab("plan", "--pool", "intel-cpu", "--out", str(tmp_path / "plan"))
        (slip,) = (tmp_path / "plan/slips").iterdir()
        documents = json.loads(zlib.decompress(base64.b64decode(slip.read_text())))
        packed = zlib.compress(json.dumps({**documents, name: "x"}).encode())
        slip.write_text(base64.b64encode(packed).decode())
        done = lab("receive", str(slip), str(tmp_path / "job"))
        assert done.exit_code == 2
        assert f"the job that was handed over has '{name}', which no job has" in done.stderr
        assert list((tmp_path / "job").iterdir()) == []

    def test_a_folder_of_something_else_is_left_alone(self, lab: Lab, tmp_path: Path) -> None:
        (tmp_path / "slip.txt").write_text("x")
        done = lab("receive", str(tmp_path / "slip.txt"), str(tmp_path))
        assert done.exit_code == 2
        assert (tmp_path / "slip.txt").exists()


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
