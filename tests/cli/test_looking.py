"""`check`, `list`, `schema`, `build`, `show`: commands that judge or show."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.job import Job, Outcome, OutputError, StageTime
from orchestrator.results.attribution import Attributed, write
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.fakes import HELLO, PASS, Play, Step, cell_steps, fail

FAILED = fail(
    "8 of 24 elements off",
    stages=(
        StageTime(stage="ingress", seconds=1.25, exit="ok"),
        StageTime(stage="compare", seconds=0.01, exit="fail"),
    ),
    errors=(
        OutputError(
            index=0,
            shape=(4, 6),
            dtype="f32",
            elements=24,
            mismatches=8,
            max_abs=0.41,
            max_rel=math.inf,
            worst=(3, 5),
            worst_got=1.3907,
            worst_golden=0.9801,
            rtol=1.3e-6,
            atol=1e-5,
            reason="table",
            pattern="last column",
        ),
    ),
    last_words="warning: \x1b[31mred\x1b[0m\nbye",
    dropped_bytes=2048,
    peak_memory_bytes=300 << 20,
    golden="recorded",
)


class TestCheck:
    """`lh-ci check`."""

    def test_all_in_order(self, lab: Lab) -> None:
        done = lab("check")
        assert done.exit_code == 0, done.output
        assert done.stdout == (
            "ok: 1 pipeline, 6 cells, 3 workloads, 4 recipes, 3 goldens, 1 stack, 3 pools, "
            "0 agents\n"
        )

    def test_all_problems_of_all_kinds_at_once(self, lab: Lab) -> None:
        lab.tree.edit("matrix.yaml", "recipe: torch_cpu", "recipe: troch_cpu")
        lab.tree.edit("golden/tolerances.yaml", "rtol: 0.01", "rotl: 0.01")
        (lab.tree.root / "golden/mlp/f32.npz").write_bytes(b"x")
        (lab.tree.root / "schemas/pins.schema.json").write_text("{}")
        done = lab("check")
        assert done.exit_code == 3
        assert "Did you mean `torch_cpu`?" in done.stdout
        assert "rotl" in done.stdout
        assert "golden/mlp/f32.npz  truncated at 1 of " in done.stdout
        assert (
            "schemas/pins.schema.json  differs from the models. Write it again: "
            "lh-ci schema --write\n"
        ) in done.stdout
        problems = len(done.stdout.splitlines()) - 1
        assert problems >= 4
        assert done.stdout.splitlines()[-1] == f"{problems} problems"

    def test_an_expired_expectation_is_a_problem_here_only(self, lab: Lab) -> None:
        lab.tree.edit("matrix.yaml", "expires: 2027-01-31", "expires: 2026-11-19")
        assert lab("check").exit_code == 3
        lab.engine.script = Play({MLP_F16: [fail("failed to legalize x", "lower:to-llvm")]})
        done = lab("run", MLP_F16)
        assert done.exit_code == 1
        assert "does not apply: it expired on 2026-11-19" in done.stdout

    def test_for_machines(self, lab: Lab) -> None:
        assert lab.json("check") == {
            "problems": [],
            "counts": {
                "pipeline": 1,
                "cell": 6,
                "workload": 3,
                "recipe": 4,
                "golden": 3,
                "stack": 1,
                "pool": 3,
                "agent": 0,
            },
        }
        lab.tree.edit("matrix.yaml", "recipe: torch_cpu", "recipe: troch_cpu")
        (problem,) = lab.json("check")["problems"]
        assert (problem["file"], problem["line"] > 0) == ("matrix.yaml", True)
        assert lab("check", "--json").exit_code == 3


class TestSchema:
    """`lh-ci schema`."""

    def test_drift_is_told_and_mended(self, lab: Lab) -> None:
        assert lab("schema").exit_code == 0
        (lab.tree.root / "schemas/matrix.schema.json").unlink()
        done = lab("schema")
        assert done.exit_code == 3
        assert "differs schemas/matrix.schema.json\n" in done.stdout
        assert lab("schema", "--write").stdout == "written schemas/matrix.schema.json\n"
        assert lab("schema").exit_code == 0
        assert lab("schema", "--write").stdout == ""


class TestList:
    """`lh-ci list`."""

    def test_every_cell_and_why_it_can_run_or_not(self, lab: Lab) -> None:
        done = lab("list")
        assert done.exit_code == 0
        lines = done.stdout.splitlines()
        assert lines[0].split() == ["cell", "stack", "tier", "here"]
        assert lines[1].split() == [MLP, "pytorch", "core", "yes"]
        assert lines[2].split(maxsplit=3) == [
            "torch_cpu.mlp.f32@amd-cpu",
            "pytorch",
            "core",
            "no: pool amd-cpu is AMD x86_64; this machine is Intel x86_64 (Intel Xeon)",
        ]
        assert lines[-1] == "6 cells, 3 can run here"

    def test_a_selection(self, lab: Lab) -> None:
        done = lab("list", "*.f16@*", "--pool", "intel-cpu")
        assert done.stdout.splitlines()[1].split()[0] == MLP_F16
        assert done.stdout.splitlines()[-1] == "1 cell, 1 can run here"

    def test_it_needs_no_goldens(self, lab: Lab) -> None:
        (lab.tree.root / "golden/mlp/f32.npz").unlink()
        assert lab("list").exit_code == 0

    def test_for_machines(self, lab: Lab) -> None:
        cells = lab.json("list", "--workload", "sum")
        assert [(c["cell"], c["runnable"]) for c in cells] == [
            (SUM, True),
            ("torch_cpu.sum.f32@amd-cpu", False),
        ]
        assert set(cells[0]) == {
            "cell",
            "pipeline",
            "workload",
            "variant",
            "pool",
            "stack",
            "tier",
            "runnable",
            "reason",
            "timeout_s",
        }

    def test_a_typo(self, lab: Lab) -> None:
        done = lab("list", "--tier", "cor")
        assert done.exit_code == 2
        assert "'core'" in done.stderr


class TestBuild:
    """`lh-ci build`."""

    def test_it_makes_stacks_ready(self, lab: Lab) -> None:
        lab.engine.left_behind = ("container lh-1",)
        versions = "torch 2.13.0 · LLVM 22.1.8"
        done = lab("build", "pytorch", "--force")
        assert done.exit_code == 0
        assert done.stdout.splitlines() == [
            "engine docker (Docker 27 at unix:///run/docker.sock)",
            "note  left behind by an earlier run, now removed: container lh-1",
            "      building pytorch",
            f"stack pytorch       {versions}   image lh/pytorch:3f9c2a1 (built in 5.00 s)",
        ]
        assert lab.engine.prepared == [("pytorch", True)]

    def test_typos_and_nothing(self, lab: Lab) -> None:
        done = lab("build", "pytroch")
        assert done.exit_code == 2
        assert "no stack `pytroch`. Did you mean `pytorch`?" in done.stderr
        done = lab("build")
        assert (done.exit_code, done.stderr) == (2, "lh-ci: which stack? Stacks: pytorch\n")

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (DefinitionError("torch 9.9.9 is on no index"), 3),
            (InfrastructureError("no index answers"), 4),
            (KeyboardInterrupt(), 130),
        ],
    )
    def test_what_goes_wrong(self, lab: Lab, error: BaseException, code: int) -> None:
        lab.engine.prepare_error = error
        done = lab("build", "pytorch")
        assert done.exit_code == code
        assert str(error) in done.stderr
        assert "Traceback" not in done.output


class TestShow:
    """`lh-ci show`."""

    @pytest.fixture
    def lab(self, lab: Lab) -> Lab:
        lab.engine.script = Play(
            {
                MLP_F16: [fail("failed to legalize x", "lower:to-llvm")],
                SUM: [FAILED],
                MLP: [Outcome(status="miss", phase="execute", message="gone"), PASS],
            },
            files={"ir/00-ingress.mlir": b"module {}"},
        )
        lab("run", "torch_cpu")
        return lab

    def test_a_run(self, lab: Lab) -> None:
        done = lab("show")
        assert done.exit_code == 0
        name = lab.last.name
        assert done.stdout.startswith(
            f"run     {name}\n"
            "        started 2026-11-20T21:04:11Z, ended 2026-11-20T21:04:18Z, took 7.20 s\n"
        )
        assert "stack   pytorch   lh/pytorch:3f9c2a1\n" in done.stdout
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
        assert ["pass", MLP, "0.40", "s", "attempt", "2"] in rows
        assert ["fail", SUM, "compare", "0.40", "s"] in rows
        assert f"look    lh-ci show {name} {SUM}\n" in done.stdout
        last = done.stdout.splitlines()[-1]
        assert last == f"1 pass · 1 xfail · 1 fail · 3 skip      results .lh/runs/{name}"

    def test_a_cell_has_its_whole_story(self, lab: Lab) -> None:
        done = lab("show", "last", SUM)
        assert done.exit_code == 0
        text = done.stdout
        assert text.startswith(f"fail  {SUM}   compare\n  8 of 24 elements off\n")
        assert "stages\n  ingress   1.25 s   ok\n  compare   0.01 s   fail\n" in text
        assert (
            "errors\n"
            "  output_0   4x6 f32   8 of 24 elements off\n"
            "    max abs 0.41, max rel inf; allowed 1.3e-06 rel + 1e-05 abs (table)\n"
            "    worst at [3,5]: got 1.3907, golden 0.9801\n"
            "    pattern: last column\n"
        ) in text
        assert (
            "last words\n  (2.0 KiB before this were not kept)\n  | warning: red\n  | bye\n"
        ) in text
        assert "isolation     contained; network none; root read-only; user 65534;" in text
        assert "versions      mlir-opt 22.1.8 · torch 2.13.0\n" in text
        assert "memory        300.0 MiB peak\n" in text
        kept = f".lh/runs/{lab.last.name}/artifacts/{SUM}/ir/00-ingress.mlir"
        assert f"kept\n  {kept}   9 B\n" in text
        assert text.endswith(f"rerun   nox -s torch_cpu -- --cell {SUM}\n")

    def test_earlier_attempts_are_told(self, lab: Lab) -> None:
        assert "earlier attempts\n  1: miss execute, 0." in lab("show", "last", MLP).stdout

    def test_a_glob_or_a_cell_alone_will_do(self, lab: Lab) -> None:
        by_id = lab("show", "last", SUM).stdout
        assert lab("show", "*.sum.*intel*").stdout == by_id
        assert lab("show", SUM).stdout == by_id
        assert lab("show", lab.last.name, SUM).stdout == by_id

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["last", "torch_cpu.sun.f32@intel-cpu"], "Did you mean `torch_cpu.sum.f32@intel-cpu`"),
            (["*.mlp.*"], "`*.mlp.*` fits 4 cells of run "),
            (["torch_cpu.sum.f32@amd-cpu"], "has no result in run"),
            (["2026-11-20T21-04-12"], "Did you mean 2026-11-20T21-04-11?"),
        ],
    )
    def test_what_is_not_there(self, lab: Lab, words: list[str], message: str) -> None:
        done = lab("show", *words)
        assert done.exit_code == 2
        assert message in done.stderr

    def test_a_damaged_result_is_told_and_the_rest_shown(self, lab: Lab) -> None:
        (lab.last.folder / "results" / f"{SUM}.1.json").write_text('{"cell": 1')
        done = lab("show")
        assert done.exit_code == 0
        assert f"{SUM}.1.json is damaged" in done.stdout
        assert f"1 cell without a verdict. Go on with: lh-ci run --resume {lab.last.name}" in (
            done.stdout
        )
        assert MLP in done.stdout

    def test_a_run_that_was_stopped_before_it_began(self, lab: Lab) -> None:
        (lab.last.folder / "run.json").unlink()
        assert "stopped before anything ran" in lab("show").stdout

    def test_for_machines(self, lab: Lab) -> None:
        run = lab.json("show")
        assert (run["run"], run["unfinished"], run["problems"]) == (lab.last.name, [], [])
        assert {c["cell"]: c["status"] for c in run["cells"]} == {
            MLP: "pass",
            MLP_F16: "xfail",
            SUM: "fail",
        }
        attempts = lab.json("show", "last", MLP)
        assert [a["status"] for a in attempts] == ["miss", "pass"]
        done = lab("show", "last", SUM, "--json")
        (story,) = json.loads(done.stdout, parse_constant=pytest.fail)
        assert story["errors"][0]["max_rel"] == "Infinity"

    def test_everything_that_a_cell_said_is_harmless(self, lab: Lab) -> None:
        evil = "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bc[red]\r\x07\u2066end"
        lab.engine.script = Play(
            {SUM: [fail(evil, stages=(StageTime(stage=evil, seconds=1.0, exit=evil),))]}
        )
        lab("run", SUM)
        for words in (["show"], ["show", "last", SUM]):
            shown = lab(*words).stdout
            assert "link [red]??" in shown
            assert not set(shown) & {"\x1b", "\r", "\x07", "\u2066"}

    def test_no_run_yet(self, lab: Lab, tmp_path: Path) -> None:
        lab.environ["LH_STATE"] = str(tmp_path / "empty")
        done = lab("show")
        assert done.exit_code == 2
        assert "there are no runs in" in done.stderr


def test_a_run_that_goes_on_shows_how_far_it_got(lab: Lab) -> None:
    def script(job: Job) -> Iterator[Step]:
        yield HELLO
        yield from cell_steps(MLP, PASS)
        yield KeyboardInterrupt()

    lab.engine.script = script
    lab("run", "torch_cpu")
    done = lab("show")
    assert "not ended, took 5.50 s\n" in done.stdout
    assert "2 cells without a verdict." in done.stdout
    assert lab.json("show")["unfinished"] == [MLP_F16, SUM]


class TestWhatChanged:
    """What was seen of a GPU, and what differs since a cell was green."""

    @pytest.fixture(autouse=True)
    def _runs(self, lab: Lab) -> None:
        lab("run", SUM)
        newer = dataclasses.replace(HELLO, versions={**HELLO.versions, "torch": "2.14.0"})

        def script(job: Job) -> Iterator[Step]:
            yield newer
            yield from cell_steps(SUM, FAILED)

        lab.engine.script = script
        lab("run", SUM)
        path = lab.last.folder / "results" / f"{SUM}.1.json"
        document = json.loads(path.read_text())
        document["evidence"] = [
            {"kind": "xid", "blame": "program", "text": "NVRM: Xid 31\x1b[31m", "code": "31"},
            {"kind": "busy", "blame": "nobody", "text": "no GPU was busy"},
        ]
        document["hardware"] |= {"gpu_name": "NVIDIA H100", "gpu_driver": "550.54"}
        path.write_text(json.dumps(document))

    def test_it_is_in_the_story_of_a_cell_that_is_not_green(self, lab: Lab) -> None:
        green = lab.runs.all()[1].name
        text = lab("show", "last", SUM).stdout
        assert f"since the last green attempt, in {green}\n  torch 2.13.0 -> 2.14.0\n" in text
        assert "seen from outside\n  program   NVRM: Xid 31\n  nobody    no GPU was busy\n" in text
        assert "GPU           NVIDIA H100, driver 550.54\n" in text
        assert "since the last green" not in lab("show", green, SUM).stdout

    def test_a_run_shows_what_was_seen(self, lab: Lab) -> None:
        shown = lab("show").stdout
        assert "        seen    NVRM: Xid 31\n        seen    no GPU was busy\n" in shown
        assert [piece["code"] for piece in lab.json("show")["cells"][0]["evidence"]] == ["31", ""]

    def test_for_machines(self, lab: Lab) -> None:
        (story,) = lab.json("show", "last", SUM)
        green = lab.runs.all()[1]
        assert story["since_green"] == {
            "run": green.name,
            "attempt": 1,
            "started": green.latest()[SUM].started,
            "changes": [{"what": "torch", "before": "2.13.0", "after": "2.14.0", "digest": False}],
        }
        (before,) = lab.json("show", green.name, SUM)
        assert before["since_green"] is None

    def test_whose_fault_it_is_is_told_of_the_attempt_that_it_is_about(self, lab: Lab) -> None:
        told = Attributed(
            cell=SUM,
            attempt=1,
            agent="intel-one",
            verdict="undecided",
            left=("driver", "flaky"),
            evidence=("the same image on intel-two passed: clears our definitions",),
        )
        write(lab.last, told)
        assert (
            "whose fault\n  undecided: driver or flaky, by control runs\n"
            "  the same image on intel-two passed: clears our definitions\n"
        ) in lab("show", "last", SUM).stdout
        (story,) = lab.json("show", "last", SUM)
        assert story["attribution"]["left"] == ["driver", "flaky"]
        write(lab.last, dataclasses.replace(told, attempt=2))
        assert "whose fault" not in lab("show", "last", SUM).stdout

    def test_chance_is_named_when_nothing_changed(self, lab: Lab) -> None:
        lab.engine.script = Play({SUM: [FAILED]})
        lab("run", SUM)
        assert "\n  nothing that is recorded has changed\n" in lab("show", "last", SUM).stdout

    def test_a_failure_that_is_not_news(self, lab: Lab) -> None:
        first = lab.last.name
        assert "in other runs" not in lab("show", "last", SUM).stdout
        assert lab.json("show", "last", SUM)[-1]["known"]["kind"] == "new"
        lab.engine.script = Play({SUM: [FAILED]})
        lab("run", SUM)
        text = lab("show", "last", SUM).stdout
        assert f"in other runs\n  known: it fails like this since {first} (1 verdict)\n" in text
        (story,) = lab.json("show", "last", SUM)
        assert (story["known"]["kind"], story["known"]["since"]) == ("known", first)
        assert lab.json("show", lab.runs.all()[-1].name, SUM)[-1]["known"] is None
