"""Keys, warrants and signatures, as people and agents meet them on the command line."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import jobdir
from orchestrator.backends.contract import ARGV, PACK
from orchestrator.cli import lending, remote, trust
from orchestrator.fleet import keys
from orchestrator.results.store import Run
from tests.backends.farm import Farm
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.cli.test_remote import Served
from tests.fakes import FakeEngine
from tests.fleet.samples import AGENT, FILE, KEY_A

ONE = "intel-lab-1"
BUILDBOT = ("run", "torch_cpu", "--backend", "buildbot", "--master", "http://farm/")
REPOSITORY = "https://example.org/lighthouse"


@pytest.fixture(autouse=True)
def _small_harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    jobdir.harness_sha256.cache_clear()
    yield
    jobdir.harness_sha256.cache_clear()


@pytest.fixture
def farm(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Farm:
    farm = Served(lab.tree, tmp_path / "farm", lab.engine)
    monkeypatch.setattr(remote, "connect", lambda app, backend, master, say: farm)
    for module in (trust, lending):
        monkeypatch.setattr(module, "head", lambda app: ("c" * 40, "main"))
    return farm


def register(lab: Lab, backend: str = "buildbot") -> None:
    """One agent, whose key is in a state folder of its own."""
    own = keys.make(theirs(lab), ONE)
    text = AGENT.replace(KEY_A, own.public).replace("backend: buildbot", f"backend: {backend}")
    path = lab.tree.root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace('["torch_*"]', '["*"]').replace("22:00-06:00", "00:00-24:00"))


def theirs(lab: Lab) -> Path:
    """The agent's state folder."""
    return lab.tree.root.parent / "agent"


def as_agent(lab: Lab, *words: str) -> Any:
    """A command on the agent's machine."""
    lab.environ.update(LH_AGENT=ONE, LH_STATE=str(theirs(lab)))
    try:
        return lab(*words)
    finally:
        del lab.environ["LH_AGENT"], lab.environ["LH_STATE"]


def orchestrate(lab: Lab, *repositories: str) -> None:
    """Makes the orchestrator's key, and lists it as `lh-ci keys` says."""
    done = lab("keys", "rotate", "orchestrator")
    assert done.exit_code == 0, done.stderr
    head, _, lines = done.stdout.partition("keys:\n")
    assert "schema: 1" in head
    listed = "\n".join(lines.splitlines()[:2])
    named = ", ".join(repositories or (REPOSITORY,))
    (lab.tree.root / "agents/_orchestrator.yaml").write_text(
        f"schema: 1\nrepositories: [{named}]\nkeys:\n{listed}\n"
    )


class TestRun:
    """`lh-ci run` with machines elsewhere."""

    def refused(self, lab: Lab, farm: Farm) -> str:
        """Why nothing was submitted."""
        done = lab(*BUILDBOT)
        assert done.exit_code == 2, done.stdout
        assert farm.submissions == {}
        assert not (lab.tree.root / ".lh/runs").exists()
        return done.stderr

    def test_nobody_is_registered(self, lab: Lab, farm: Farm) -> None:
        said = self.refused(lab, farm)
        assert "no agent with backend buildbot is registered" in said
        assert "--unsigned" in said

    def test_there_is_no_key(self, lab: Lab, farm: Farm) -> None:
        register(lab)
        said = self.refused(lab, farm)
        assert "it has no key on this machine" in said
        assert "lh-ci keys rotate orchestrator" in said

    def test_the_key_is_not_listed(self, lab: Lab, farm: Farm) -> None:
        register(lab)
        lab("keys", "rotate", "orchestrator")
        assert "there is no agents/_orchestrator.yaml" in self.refused(lab, farm)
        orchestrate(lab)
        for path in (lab.tree.root / ".lh/keys/orchestrator").iterdir():
            path.unlink()
        keys.make(lab.tree.root / ".lh", "orchestrator")
        assert "lists no key of this machine: " in self.refused(lab, farm)

    def test_several_repositories_are_told_apart_by_git(
        self, lab: Lab, farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(lab)
        orchestrate(lab, REPOSITORY, "https://example.org/other")
        monkeypatch.setattr(trust, "git", lambda app, *words: "https://example.org/fork")
        assert "a clone of https://example.org/fork, which agents/_orc" in self.refused(lab, farm)
        monkeypatch.setattr(trust, "git", lambda app, *words: "https://example.org/other")
        assert self.warrant(lab, farm)["repository"] == "https://example.org/other"

    def test_what_is_handed_out_is_signed(self, lab: Lab, farm: Farm) -> None:
        register(lab)
        orchestrate(lab)
        warrant = self.warrant(lab, farm)
        assert (warrant["agent"], warrant["pool"]) == (ONE, "intel-cpu")
        assert (warrant["repository"], warrant["commit"]) == (REPOSITORY, "c" * 40)

    def test_a_key_may_be_a_secret(self, lab: Lab, farm: Farm) -> None:
        register(lab)
        orchestrate(lab)
        (path,) = (lab.tree.root / ".lh/keys/orchestrator").iterdir()
        lab.environ["LH_ORCHESTRATOR_KEY"] = path.read_text().splitlines()[1]
        path.unlink()
        assert self.warrant(lab, farm)["agent"] == ONE
        lab.environ["LH_ORCHESTRATOR_KEY"] = "bm8ga2V5"
        done = lab(*BUILDBOT)
        assert done.exit_code == 2
        assert "LH_ORCHESTRATOR_KEY is no Ed25519 key" in done.stderr
        assert "bm8ga2V5" not in done.stderr

    def warrant(self, lab: Lab, farm: Farm) -> dict[str, str]:
        """That the one agent is given."""
        farm.idle = True
        original = lab.engine.time.advance

        def until_submitted(seconds: float) -> None:
            if farm.submissions:
                raise KeyboardInterrupt
            original(seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lab.engine.time, "advance", until_submitted)
            assert lab(*BUILDBOT).exit_code == 130
        (submission,) = farm.submissions.values()  # a health job comes first
        assert submission.parcel.agents == (ONE,)
        work = farm.folder / "opened"
        work.mkdir(parents=True)
        (work / "job.tar.gz").write_bytes(submission.data)
        with tarfile.open(work / "job.tar.gz") as archive:
            member = archive.extractfile(f"warrants/{ONE}.json")
            assert member is not None
            payload = base64.b64decode(json.load(member)["payload"])
        found: dict[str, str] = json.loads(payload)
        return found

    def test_trials_are_told(self, lab: Lab, farm: Farm) -> None:
        done = lab(*BUILDBOT, "--unsigned")
        assert "results of machines that are not registered are taken" in done.stdout
        assert lab.last.info().engine_note == "farm at nowhere, --unsigned"
        assert lab.last.plan().options.unsigned
        done = lab("run", "torch_cpu", "--unsigned")
        assert (done.exit_code, "needs a --backend elsewhere" in done.stderr) == (2, True)


class TestAgent:
    """Planned and signed here, run and signed there, collected."""

    @pytest.fixture(autouse=True)
    def fleet(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trust, "head", lambda app: ("c" * 40, "main"))
        register(lab, "github")
        orchestrate(lab)

    def plan(self, lab: Lab) -> str:
        """What was told on standard error."""
        words = ("--format", "github", "--machines", "both", "--pool", "intel-cpu")
        done = lab("plan", *words, "--out", str(lab.tree.root.parent / "plan"))
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["chunk"]
        return str(done.stderr)

    def work(self, lab: Lab, name: str, *, agent: bool = True) -> tuple[int, str]:
        """Receives, runs and packs the one job; the exit code, and what was told."""
        call = as_agent if agent else Lab.__call__
        base = lab.tree.root.parent
        (slip,) = (base / "plan/slips").iterdir()
        work = base / name
        assert call(lab, "receive", str(slip), str(work / "job")).exit_code == 0
        argv = [word if "/" not in word else str(work / word) for word in ARGV[1:]]
        ran = call(lab, *argv[:-1], str(work / "out"))
        sent = base / "back" / name / f"{slip.stem}.tar.gz"
        sent.parent.mkdir(parents=True)
        packed = call(lab, PACK[1], str(work / PACK[2]), str(sent))
        assert packed.exit_code == 0, packed.stderr
        return ran.exit_code, ran.stderr

    def collect(self, lab: Lab) -> tuple[str, dict[str, tuple[str, str]]]:
        """What was told, and each cell's status and agent."""
        base = lab.tree.root.parent
        done = lab("collect", str(base / "plan"), "--results", str(base / "back"))
        (run,) = (base / "plan/runs").iterdir()
        latest = Run(run).latest()
        return done.stdout, {cell: (r.status, r.agent) for cell, r in latest.items()}

    def test_the_whole_way(self, lab: Lab) -> None:
        assert self.plan(lab) == ""
        assert self.work(lab, "one")[0] == 1  # f16 is xpass
        said, found = self.collect(lab)
        assert found == {MLP: ("pass", ONE), MLP_F16: ("xpass", ONE), SUM: ("pass", ONE)}, said

    def test_who_is_nobody_is_not_taken(self, lab: Lab) -> None:
        self.plan(lab)
        assert self.work(lab, "one", agent=False)[0] == 1
        said, found = self.collect(lab)
        assert "refused (unsigned)" in said
        assert set(found.values()) == {("miss", "")}

    def test_a_job_is_run_once(self, lab: Lab) -> None:
        self.plan(lab)
        assert self.work(lab, "first")[0] == 1
        code, said = self.work(lab, "second")
        assert code == 4
        assert "refused (replay)" in said
        assert len(lab.engine.jobs) == 1
        said, found = self.collect(lab)
        assert found[MLP] == ("pass", ONE)

    def test_what_was_refused_is_a_miss_that_says_so(self, lab: Lab) -> None:
        self.plan(lab)
        (lab.tree.root / "agents/_orchestrator.yaml").write_text(
            f"schema: 1\nrepositories: [x]\nkeys:\n  - {{key: '{KEY_A}', from: 2026-11-01}}\n"
        )
        code, said = self.work(lab, "one")
        assert code == 4
        assert "refused (unregistered)" in said
        assert lab.engine.jobs == []
        said, found = self.collect(lab)
        assert f"refused: {ONE} would not run it (unregistered)" in said
        assert set(found.values()) == {("miss", "")}

    def test_without_a_key_nothing_is_signed_and_it_is_told(self, lab: Lab) -> None:
        for path in (lab.tree.root / ".lh/keys/orchestrator").iterdir():
            path.unlink()
        assert "1 job for registered agents not signed" in self.plan(lab)
        code, said = self.work(lab, "one")
        assert (code, "refused (unsigned)" in said) == (4, True)
        assert self.work(lab, "two", agent=False)[0] == 1
        said, found = self.collect(lab)
        assert found[MLP] == ("pass", "")

    def test_what_was_interrupted_goes_on(self, lab: Lab) -> None:
        self.plan(lab)
        base = lab.tree.root.parent
        (slip,) = (base / "plan/slips").iterdir()
        as_agent(lab, "receive", str(slip), str(base / "w/job"))
        words = ("exec", str(base / "w/job/job.json"), "--out", str(base / "w/out"))
        lab.engine.script = lambda _: [KeyboardInterrupt()]
        assert as_agent(lab, *words).exit_code == 130
        lab.engine.script = FakeEngine().script
        assert as_agent(lab, *words).exit_code == 1
        assert "was finished before" in as_agent(lab, *words).stdout

    def test_an_unknown_agent_is_told(self, lab: Lab) -> None:
        self.plan(lab)
        lab.environ["LH_AGENT"] = "intel-lab-7"
        (lab.tree.root / "out").mkdir()
        done = lab("pack", "out", "x.tar.gz")
        assert done.exit_code == 2
        assert "Did you mean `intel-lab-1`?" in done.stderr


def test_what_another_job_left_is_not_sent(lab: Lab) -> None:
    stale = lab.tree.root / "out.tar.gz"
    stale.write_text("of yesterday")
    done = lab("pack", "out", "out.tar.gz")
    assert done.exit_code == 4
    assert "out is not there: lh-ci exec makes it" in done.stderr
    assert not stale.exists()


def test_a_plain_file_has_no_locks_and_no_jobs(lab: Lab) -> None:
    out = lab.tree.root / "out"
    for name in ("lock", "jobs/a/job.json", "results/a.json", ".hidden"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name)
    assert lab("pack", "out", "out.tar.gz").exit_code == 0
    with tarfile.open(lab.tree.root / "out.tar.gz") as archive:
        assert archive.getnames() == ["results/a.json"]
