"""What was missed of a plan is given out once more: a night of GitHub, without GitHub."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import handed, jobdir, planned
from orchestrator.backends.contract import ARGV, PACK
from orchestrator.cli import trust
from orchestrator.fleet import keys
from orchestrator.job import Outcome
from orchestrator.results.schema import Result
from tests.cli.conftest import MLP, MLP_F16, SUM, Lab
from tests.cli.test_plan import _small_harness
from tests.cli.test_signing import orchestrate
from tests.fakes import Play, fail
from tests.fleet.samples import AGENT, KEY_A

__all__ = ["_small_harness"]

ONE, TWO = "intel-lab-1", "intel-lab-2"


class Night:
    """A plan in a folder, machines with keys, and what they sent."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.base = lab.tree.root.parent
        self.folder = self.base / "plan"
        self.back = self.base / "back"
        self.back.mkdir()

    def register(self, name: str, **changes: str) -> None:
        """A trusted agent of pool `intel-cpu`, with a state folder of its own."""
        own = keys.make(self.base / name, name)
        text = AGENT.replace(KEY_A, own.public).replace("name: lab-1", f"name: {name[6:]}")
        for old, new in {
            "backend": "github",
            "level": "trusted",
            "pipelines": '["*"]',
            "hours": "[20:00-06:00]",
            **changes,
        }.items():
            text = text.replace(f"{old}: ", f"{old}: {new} # ", 1)
        revoked = text.index("revoked:")
        text = text[:revoked] + text[text.index("terms:") :]
        path = self.lab.tree.root / f"agents/{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def plan(self, *words: str) -> list[dict[str, Any]]:
        """The entries of the matrix."""
        return self.matrix(
            *("plan", "--cells-per-job", "1", *words, "--pool", "intel-cpu"),
            *("--machines", "both", "--format", "github", "--out", str(self.folder)),
        )

    def again(self, *words: str) -> list[dict[str, Any]]:
        """Those of the second go."""
        return self.matrix("plan", "--again", str(self.folder), "--format", "github", *words)

    def matrix(self, *words: str) -> list[dict[str, Any]]:
        """What a command prints."""
        done = self.lab(*words)
        assert done.exit_code == 0, done.stderr
        return [entry for chunk in json.loads(done.stdout)["chunk"] for entry in chunk["include"]]

    def take(self, job: str, agent: str) -> Path:
        """A machine says that it begins; the folder of what it sends."""
        sent = self.back / f"taken-{job}"
        sent.mkdir()
        (sent / f"{job}.taken").write_text(f"{agent}\n")
        return sent

    def work(self, job: str, agent: str, *, told: bool = True) -> int:
        """A machine carries a job out, as the workflow does; the exit code of `lh-ci exec`."""
        sent = self.take(job, agent if told else "")
        work = self.base / "work" / job
        slip = self.folder / f"slips/{job}.txt"
        words = [word if "/" not in word else str(work / word) for word in ARGV[1:-1]]
        self.lab.environ.update(LH_AGENT=agent, LH_STATE=str(self.base / agent))
        try:
            assert self.lab("receive", str(slip), str(work / "job")).exit_code == 0
            ran = self.lab(*words, str(work / "out"))
            packed = self.lab(PACK[1], str(work / PACK[2]), str(sent / f"{job}.tar.gz"))
            assert packed.exit_code == 0, packed.stderr
        finally:
            del self.lab.environ["LH_AGENT"], self.lab.environ["LH_STATE"]
        return ran.exit_code

    def collect(self) -> tuple[int, str]:
        """The exit code, and what was told."""
        done = self.lab("collect", str(self.folder), "--results", str(self.back))
        return done.exit_code, done.stdout

    def record(self) -> dict[tuple[str, int], tuple[str, str]]:
        """Status and agent of each attempt."""
        found: tuple[Result, ...] = planned.only_run(self.folder).results()[0]
        return {(r.cell, r.attempt): (r.status, r.agent) for r in found}


@pytest.fixture
def night(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Night:
    """Two agents of one pool, and the orchestrator's key."""
    monkeypatch.setattr(trust, "head", lambda app: ("c" * 40, "main"))
    night = Night(lab)
    night.register(ONE)
    night.register(TWO)
    orchestrate(lab)
    return night


F32 = ("*.f32@*",)


def test_a_night_in_which_a_machine_is_lost(night: Night) -> None:
    first, second = night.plan(*F32)
    assert first["runner"] == ["self-hosted", "lighthouse", "pool-intel-cpu"]
    night.take(first["job"], ONE)
    assert night.work(second["job"], TWO) == 0
    code, said = night.collect()
    assert code == 4
    assert f"nothing came back of it: {ONE} took it, and was lost" in said
    assert night.record() == {(MLP, 1): ("miss", ""), (SUM, 1): ("pass", TWO)}

    (again,) = night.again()
    assert again["job"] == f"{first['job']}.try2"
    assert again["runner"] == [*first["runner"], f"agent-{TWO}"]
    assert night.work(again["job"], TWO) == 0
    expected = {(MLP, 1): ("miss", ""), (MLP, 2): ("pass", TWO), (SUM, 1): ("pass", TWO)}
    for _ in range(2):  # twice puts nothing twice
        assert night.collect()[0] == 0
        assert night.record() == expected
        assert [e.stack for e in planned.only_run(night.folder).info().environments] == ["pytorch"]
    assert night.again() == []


def test_what_it_signs_is_for_the_peer_and_has_a_warrant_of_its_own(night: Night) -> None:
    first, _ = night.plan(*F32)
    night.take(first["job"], ONE)
    night.collect()
    (again,) = night.again()
    warrants = planned.only_run(night.folder).folder / "warrants"
    given = {path.stem: json.loads(path.read_bytes())["warrants"] for path in warrants.iterdir()}
    assert set(given[first["job"]]) == {ONE, TWO}
    assert set(given[again["job"]]) == {TWO}
    assert given[again["job"]][TWO] != given[first["job"]][TWO]
    assert night.work(again["job"], ONE) == 4  # it is not for this one


def test_nobody_took_it_and_nobody_will(night: Night) -> None:
    night.plan(*F32)
    night.collect()
    assert night.again() == []
    done = night.lab("plan", "--again", str(night.folder))
    assert done.stdout.splitlines() == [
        "0 jobs, 0 cells",
        "skip  2 cells: no machine took their job",
    ]


def test_one_that_was_named_and_is_away_has_a_peer(night: Night) -> None:
    night.register("intel-lab-3", branches="[dev]")
    jobs = night.plan(*F32)
    assert [job["runner"][-1] for job in jobs] == [f"agent-{ONE}"] * 2
    night.collect()
    assert [job["runner"][-1] for job in night.again()] == [f"agent-{TWO}"] * 2


def test_a_verdict_is_never_asked_for_again(night: Night, lab: Lab) -> None:
    lab.engine.script = Play({MLP: [fail("wrong")]})
    for job in night.plan():
        night.work(job["job"], ONE)
    assert night.collect()[0] == 1
    assert {status for status, _ in night.record().values()} == {"fail", "pass", "xpass"}
    assert night.again() == []


def test_nothing_is_given_out_that_still_waits(night: Night) -> None:
    night.plan(*F32)
    assert night.again() == []  # nothing was collected yet
    first, second = sorted(handed.read(night.folder).jobs)
    for job in (first, second):
        night.take(job, ONE)
    night.collect()
    assert [job["job"] for job in night.again()] == [f"{first}.try2", f"{second}.try2"]
    done = night.lab("plan", "--again", str(night.folder), "--format", "json")
    assert json.loads(done.stdout) == {
        "schema": 1,
        "jobs": [],
        "skipped": [{"reason": "their results were not collected yet", "cells": 2}],
    }


def test_it_is_shown_and_nothing_is_written(night: Night) -> None:
    first, _ = night.plan(*F32)
    night.take(first["job"], ONE)
    night.collect()
    before = files(night.folder)
    shown = night.again("--dry-run")
    assert [job["job"] for job in shown] == [f"{first['job']}.try2"]
    assert files(night.folder) == before
    assert night.again() == shown


def test_peers_share_what_there_is(night: Night) -> None:
    night.register("intel-lab-3")
    for job in night.plan():
        night.take(job["job"], ONE)
    night.collect()
    named = [job["runner"][-1].removeprefix("agent-") for job in night.again()]
    assert named == [TWO, "intel-lab-3", TWO]


def test_who_did_something_this_night_comes_first(night: Night) -> None:
    night.register("intel-lab-0", priority="9")
    night.register("intel-lab-3", hours="[02:00-06:00]", priority="9")
    first, second = night.plan(*F32)
    night.take(first["job"], ONE)
    night.work(second["job"], TWO)
    night.collect()
    (again,) = night.again()
    assert again["runner"][-1] == f"agent-{TWO}"


def test_a_peer_that_is_asleep_is_none(night: Night) -> None:
    path = night.lab.tree.root / f"agents/{TWO}.yaml"
    path.write_text(path.read_text().replace("20:00-06:00", "02:00-06:00"))
    first, _ = night.plan(*F32)
    night.take(first["job"], ONE)
    night.collect()
    (again,) = night.again()
    assert again["runner"] == first["runner"]


@pytest.mark.parametrize("left", [{"ir/2.mlir": b"new"}, {}])
def test_only_missed_cells_and_not_who_signed_that(
    night: Night, lab: Lab, left: dict[str, bytes]
) -> None:
    lost = Outcome(status="miss", phase="execute", message="killed: out of memory")
    lab.engine.script = Play({MLP: [lost]}, {"ir/1.mlir": b"old"})
    (job,) = night.plan("*.f32@*", "--keep", "always", "--cells-per-job", "5")
    assert night.work(job["job"], ONE, told=False) == 4
    night.collect()
    assert night.record() == {
        **{(MLP, attempt): ("miss", ONE) for attempt in (1, 2, 3)},
        (SUM, 1): ("pass", ONE),
    }
    run = planned.only_run(night.folder)
    assert (run.artifacts(MLP) / "ir/1.mlir").read_bytes() == b"old"

    (again,) = night.again()
    assert (again["name"], again["runner"][-1]) == ("pytorch on intel-cpu (1)", f"agent-{TWO}")
    lab.engine.script = Play({}, left)
    night.work(again["job"], TWO)
    for part in ("all", "all", "of the first go alone"):
        if part != "all":
            shutil.rmtree(night.back / f"taken-{again['job']}")
        assert night.collect()[0] == 0
        assert night.record()[MLP, 4] == ("pass", TWO)
        assert names(run.artifacts(MLP)) == {name.removeprefix("ir/") for name in left}
        assert names(run.artifacts(SUM)) == {"1.mlir"}


def test_what_comes_too_late_is_left_out(night: Night) -> None:
    first, second = night.plan(*F32)
    night.take(second["job"], TWO)
    night.take(first["job"], ONE)
    night.collect()
    for job in night.again():
        night.work(job["job"], job["runner"][-1].removeprefix("agent-"))
    (night.back / f"taken-{first['job']}").rename(night.base / "moved")
    night.work(first["job"], ONE)
    code, said = night.collect()
    assert (code, f"{first['job']}: came too late, and is left out" in said) == (0, True)
    assert night.record() == {
        (MLP, 1): ("miss", ""),
        (MLP, 2): ("pass", TWO),
        (SUM, 1): ("miss", ""),
        (SUM, 2): ("pass", ONE),
    }


def test_a_third_go_by_hand(night: Night) -> None:
    first, second = night.plan(*F32)
    night.work(second["job"], TWO)
    night.take(first["job"], ONE)
    night.collect()
    (again,) = night.again()
    night.take(again["job"], TWO)
    night.collect()
    (third,) = night.again()
    assert third["job"] == f"{first['job']}.try3"
    assert third["runner"][-1] == f"agent-{TWO}"  # both missed it: as it went before
    assert night.work(third["job"], TWO) == 0
    assert night.collect()[0] == 0
    assert night.record()[MLP, 3] == ("pass", TWO)


def test_a_peer_on_probation_is_none_of_trusted_ones(night: Night) -> None:
    path = night.lab.tree.root / f"agents/{TWO}.yaml"
    path.write_text(path.read_text().replace("level: trusted", "level: probation"))
    first, _ = night.plan(*F32)
    night.take(first["job"], ONE)
    night.collect()
    (again,) = night.again()
    assert (again["runner"], again["probation"]) == (first["runner"], False)


@pytest.mark.parametrize("name", ["", "a\nb", "../x", "x" * 200, "\N{SNOWMAN}", "<b>"])
def test_what_is_no_name_of_a_machine_is_nobody(night: Night, name: str) -> None:
    first, _ = night.plan(*F32)
    night.take(first["job"], name)
    night.collect()
    assert handed.read(night.folder).takers == {}


class TestWords:
    """What is said, and refused."""

    def refused(self, night: Night, *words: str) -> str:
        """Why."""
        done = night.lab("plan", *words)
        assert done.exit_code == 2, done.stdout
        return done.stderr

    def test_the_run_says_what_it_is_of(self, night: Night) -> None:
        night.plan(*F32)
        said = self.refused(
            night, "torch_cpu", "--again", str(night.folder), "--branch", "x", "--keep", "always"
        )
        assert "as it was planned, without SELECTION, --branch, --keep" in said

    def test_forms_are_those_of_the_plan(self, night: Night) -> None:
        night.plan(*F32)
        words = ("--again", str(night.folder), "--format", "buildkite")
        assert "Buildkite tries those again" in self.refused(night, *words)
        night.lab("plan", "--out", str(night.base / "other"))
        words = ("--again", str(night.base / "other"), "--format", "github")
        assert "planned with another --format, for local" in self.refused(night, *words)

    def test_a_dry_run_is_of_a_second_go(self, night: Night) -> None:
        assert "--dry-run is for --again" in self.refused(night, "--dry-run")

    def test_another_commit_is_told(self, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
        first, _ = night.plan(*F32)
        night.take(first["job"], ONE)
        night.collect()
        monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("text.py",))
        jobdir.harness_sha256.cache_clear()
        said = self.refused(night, "--again", str(night.folder))
        assert f"job {first['job']} was planned in another commit" in said

    def test_a_folder_that_is_no_plan(self, night: Night) -> None:
        done = night.lab("plan", "--again", str(night.base / "back"))
        assert (done.exit_code, "lh-ci plan --out" in done.stderr) == (4, True)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1}', "[" * 100_000])
def test_a_damaged_plan_is_told(night: Night, text: str) -> None:
    night.plan(*F32)
    (night.folder / "handed.json").write_text(text)
    for words in (("plan", "--again"), ("collect", "--results", str(night.back))):
        done = night.lab(*words, str(night.folder))
        assert (done.exit_code, "handed.json is damaged" in done.stderr) == (4, True)


def test_where_no_agents_are_known_it_goes_where_it_went(lab: Lab) -> None:
    night = Night(lab)
    done = lab("plan", *F32, "--pool", "intel-cpu", "--out", str(night.folder))
    assert done.exit_code == 0, done.stderr
    night.collect()
    (job,) = json.loads(lab("plan", "--again", str(night.folder), "--format", "json").stdout)[
        "jobs"
    ]
    assert (job["job"].endswith("pytorch.intel-cpu.try2"), job["agent"]) == (True, "")
    assert job["cells"] == [MLP, SUM]
    assert MLP_F16 not in job["cells"]


def names(folder: Path) -> set[str]:
    """Of the files below a folder, which need not be there."""
    return {path.name for path in folder.rglob("*") if path.is_file()}


def files(folder: Path) -> Mapping[str, bytes]:
    """Every file of a folder by its name."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
