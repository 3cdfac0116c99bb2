"""`lh-ci run` with machines elsewhere: the farm stands for them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.backends.base import Go
from orchestrator.backends.buildbot.fleet import Fleet, make_fleet, parse_worker
from orchestrator.cli import remote
from orchestrator.errors import InfrastructureError
from orchestrator.fleet.serving import RegisteredMachines
from tests.backends.farm import Farm
from tests.backends.test_placing import agent
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.fakes import Play, fail

WORDS = ("run", "torch_cpu", "--backend", "buildbot", "--master", "http://farm/", "--unsigned")
EXPECTED = fail("failed to legalize", "lower:to-llvm")


class Served(Farm):
    """A farm that says what it serves."""

    def fleet(self) -> Fleet:
        pools = self.tree.load().matrix.pools
        return make_fleet(pools, [parse_worker("one=intel-cpu"), parse_worker("two=intel-cpu")])


@pytest.fixture
def farm(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    lab.engine.script = Play({MLP_F16: [EXPECTED]})
    farm = Served(lab.tree, tmp_path / "farm", lab.engine)
    monkeypatch.setattr(remote, "connect", lambda app, backend, master, say: farm)
    return farm


def test_cells_run_elsewhere_and_are_shown_as_ever(lab: Lab, farm: Served) -> None:
    done = lab(*WORDS)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "2 pass · 1 xfail" in done.stdout
    assert "http://farm/" in done.stdout
    assert "no worker of http://127.0.0.1:8010/ serves pool amd-cpu" in done.stdout
    assert lab.asked_for == []  # no engine of this machine
    assert set(lab.last.latest()) == {MLP, MLP_F16, SUM}
    info = lab.last.info()
    assert (info.engine, info.ended is not None) == ("elsewhere", True)
    assert [environment.stack for environment in info.environments] == ["pytorch"]


def test_the_document_is_the_same_as_of_a_run_here(lab: Lab, farm: Served) -> None:
    document = lab.json(*WORDS)
    assert {cell["cell"]: cell["status"] for cell in document["cells"]} == {
        MLP: "pass",
        MLP_F16: "xfail",
        SUM: "pass",
    }


def test_options_travel_with_the_order(lab: Lab, farm: Served) -> None:
    lab(*WORDS, "--retries", "0", "--workers", "3", "--timeout", "7s", "--keep", "always")
    (folder,) = (lab.last.folder / "jobs").iterdir()
    order = json.loads((folder / "order.json").read_text())
    job = json.loads((folder / "job.json").read_text())
    assert (order["retries"], order["workers"], order["engine"]) == (0, 3, "auto")
    assert {(cell["timeout_s"], cell["keep"]) for cell in job["cells"]} == {(7.0, "always")}


def test_ctrl_c_leaves_jobs_alone_and_resume_collects_them(
    lab: Lab, farm: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.idle = True
    with monkeypatch.context() as patch:
        patch.setattr(lab.engine.time, "advance", _interrupt)
        done = lab(*WORDS)
    assert done.exit_code == 130
    assert "Go on with: lh-ci run --resume" in done.stderr
    assert len(farm.submissions) == 1
    farm.idle = False
    done = lab("run", "--resume")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert len(farm.submissions) == 1
    assert set(lab.last.latest()) == {MLP, MLP_F16, SUM}


def _interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_what_was_missed_is_dispatched_anew_by_resume(lab: Lab, farm: Served) -> None:
    farm.fates = ["lost"] * 3
    assert lab(*WORDS).exit_code == 4
    assert len(farm.submissions) == 1
    assert lab("run", "--resume").exit_code == 0
    assert len(farm.submissions) == 2
    attempts = {r.cell: r.attempt for r in lab.last.latest().values()}
    assert attempts == {MLP: 4, MLP_F16: 4, SUM: 4}


def test_a_backend_that_is_gone_ends_the_run_and_it_can_be_resumed(
    lab: Lab, farm: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(tickets: object) -> dict[str, Go]:
        raise InfrastructureError("http://farm/ did not answer for 900 s")

    with monkeypatch.context() as patch:
        patch.setattr(farm, "watch", gone)
        done = lab(*WORDS)
    assert done.exit_code == 4
    assert "did not answer for 900 s" in done.stderr
    assert lab("run", "--resume").exit_code == 0
    assert len(farm.submissions) == 1


def test_many_cells_are_shared_out(lab: Lab, farm: Served) -> None:
    from tests.backends.samples import job

    whole = job(*(f"cell{n}" for n in range(9)))
    parts = list(remote._split([whole], {"intel-cpu": 2}))
    assert [len(part.cells) for part in parts] == [5, 4]
    assert len({part.id for part in parts}) == 2
    assert [cell for part in parts for cell in part.cells] == list(whole.cells)
    assert list(remote._split([whole], {"intel-cpu": 1})) == [whole]
    assert len(list(remote._split([job("a", "b")], {"intel-cpu": 5}))) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--backend", "github"], "which GitHub repository? --master OWNER/NAME, or LH_GITHUB_"),
        (["--backend", "buildkite"], "which Buildkite pipeline? --master OWNER/NAME, or LH_BUILD"),
        (["--backend", "github", "--master", "x"], "expected the GitHub repository as OWNER/NAME"),
        (["--backend", "github", "--master", "o/r"], "GitHub wants a token. LH_GITHUB_TOKEN"),
        (["--backend", "buildkite", "--master", "o/p"], "Buildkite wants a token. LH_BUILDKITE"),
        (["--master", "o/r"], "--master needs a --backend elsewhere"),
    ],
)
def test_what_a_service_needs_is_told(lab: Lab, words: list[str], says: str) -> None:
    done = lab("run", "torch_cpu", *words)
    assert done.exit_code == 2
    assert says in done.stderr


@pytest.mark.process
def test_machines_elsewhere_work_in_a_checkout_of_a_commit(lab: Lab) -> None:
    lab.environ["LH_GITHUB_TOKEN"] = "t"
    done = lab("run", "torch_cpu", "--backend", "github", "--master", "o/r")
    assert done.exit_code == 2
    assert "is no checkout with a commit" in done.stderr
    for words in (
        ["init", "-q", "-b", "trunk"],
        ["-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "--allow-empty"],
    ):
        argv = [
            "git",
            "-C",
            str(lab.tree.root),
            *words,
            *(["-m", "x"] if "commit" in words else []),
        ]
        subprocess.run(argv, check=True)
    done = lab("run", "torch_cpu", "--backend", "github", "--master", "o/r")
    assert "no agent is registered for pool intel-cpu with backend github" in done.stderr


def test_cells_that_no_owner_wants_are_skipped_with_the_reason(
    lab: Lab, farm: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    shy = agent("shy", pools=["intel-cpu"], terms={"pipelines": ["other"]})
    fleet = RegisteredMachines({shy.id: shy}, "github", "main")
    monkeypatch.setattr(farm, "fleet", lambda: fleet)
    done = lab(*WORDS)
    assert done.exit_code == 2
    assert "no agent of pool intel-cpu runs torch_cpu" in done.stderr


def test_on_this_machine_as_an_agent(lab: Lab, farm: Served) -> None:
    done = lab("run", "torch_cpu", "--as-agent")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert lab.asked_for == []  # not in this process
    assert lab.last.plan().options.master == str(lab.tree.root / ".lh" / "agent")
    assert lab.last.info().engine == "elsewhere"
    assert set(lab.last.latest()) == {MLP, MLP_F16, SUM}
    (sent,) = farm.submissions.values()
    assert sent.parcel.pool == "intel-cpu"


def test_agents_elsewhere_need_not_be_asked_to_be_agents(lab: Lab) -> None:
    done = lab(*WORDS, "--as-agent")
    assert done.exit_code == 2
    assert "--as-agent is for --backend local" in done.stderr
