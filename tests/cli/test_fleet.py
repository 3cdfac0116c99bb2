"""Registering a machine, its keys, and the list of all."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestrator.backends.signing import REFUSALS, RefusedBundle
from orchestrator.fleet import keys, public
from orchestrator.fleet.agents import load_fleet
from orchestrator.fleet.quarantine import JOURNAL, Seen
from orchestrator.host import Gpu
from orchestrator.job import Outcome
from orchestrator.results.lines import Lines
from orchestrator.results.store import utc
from tests.cli.conftest import MLP, NOTE, SUM, Lab
from tests.cli.test_run import play
from tests.fakes import fail
from tests.fleet.samples import AGENT, FILE, KEY_A, ORCHESTRATOR

REGISTER = (
    *("register", "--pool", "intel-cpu", "--backend", "buildbot", "--owner", "The team: #1"),
    *("--contact", "ci@example.org", "--name", "lab-1"),
)


class Usage(NamedTuple):
    """What `shutil.disk_usage` gives."""

    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def _disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 80 << 30))


def state(lab: Lab) -> Path:
    return lab.tree.root / ".lh"


class TestRegister:
    """A machine offers itself."""

    def test_without_a_pool_it_only_looks(self, lab: Lab) -> None:
        done = lab("register")
        assert done.exit_code == 0
        assert done.stdout.splitlines() == [
            "cpu      Intel Xeon, x86_64, 2 cores",
            "flags    avx2 avx512f",
            "memory   16.0 GiB",
            "disk     80.0 GiB free",
            f"engine   {NOTE}",
            "",
            "pool        can serve it",
            "intel-cpu   yes: torch_cpu",
            "amd-cpu     no: pool amd-cpu is AMD x86_64; this machine is Intel x86_64 (Intel Xeon)",
            "arm-cpu     no: no pipeline runs on it",
            "",
            "nothing is written. To offer it: lh-ci register --pool NAME …",
        ]
        assert not (lab.tree.root / "agents").exists()
        assert not (state(lab) / "keys").exists()

    def test_a_machine_is_offered(self, lab: Lab) -> None:
        done = lab(*REGISTER)
        assert done.exit_code == 0, done.stderr
        agent = load_fleet(lab.tree.root).agents["intel-lab-1"]
        (key,) = keys.own(state(lab), "intel-lab-1")
        assert [each.key for each in agent.keys] == [key.public]
        assert (agent.owner, agent.contact) == ("The team: #1", "ci@example.org")
        assert (agent.level, agent.terms.forks) == ("probation", "never")
        assert agent.terms.disk == 40 << 30
        assert "written   agents/intel-lab-1.yaml" in done.stdout
        assert key.fingerprint in done.stdout
        assert "PRIVATE" not in done.stdout
        private = key.path.read_text().splitlines()[1]
        assert private not in (lab.tree.root / FILE).read_text()
        assert lab("check").exit_code == 0

    def test_again_changes_nothing(self, lab: Lab) -> None:
        lab(*REGISTER)
        lab.tree.edit(FILE, "jobs: 1 #", "jobs: 3 #")
        before = (lab.tree.root / FILE).read_text()
        done = lab(*REGISTER)
        assert done.exit_code == 0
        assert "as it was   agents/intel-lab-1.yaml" in done.stdout
        assert (lab.tree.root / FILE).read_text() == before
        assert len(keys.own(state(lab), "intel-lab-1")) == 1

    def test_a_file_that_was_lost_is_written_with_the_same_key(self, lab: Lab) -> None:
        lab(*REGISTER)
        before = (lab.tree.root / FILE).read_text()
        (lab.tree.root / FILE).unlink()
        lab(*REGISTER)
        assert (lab.tree.root / FILE).read_text() == before

    def test_for_machines(self, lab: Lab) -> None:
        document = lab.json(*REGISTER)
        (key,) = keys.own(state(lab), "intel-lab-1")
        assert document["agent"] == "intel-lab-1"
        assert document["file"] == FILE
        assert document["keys"] == [key.public]
        assert document["host"]["cpu_model"] == "Intel Xeon"
        assert [pool["pool"] for pool in document["pools"] if not pool["reason"]] == ["intel-cpu"]

    def test_all_that_is_wrong_at_once(self, lab: Lab) -> None:
        done = lab("register", "--pool", "amd-cpu", "--pool", "inter-cpu", "--owner", "\u202ex")
        assert done.exit_code == 2
        assert done.stderr.splitlines() == [
            (
                "lh-ci: this machine cannot serve pool amd-cpu: pool amd-cpu is AMD x86_64; this "
                "machine is Intel x86_64 (Intel Xeon)"
            ),
            "no pool `inter-cpu`. Did you mean `intel-cpu`? Pools: amd-cpu, arm-cpu, intel-cpu",
            "to register, also give --backend, --contact",
            "--owner has characters that cannot be shown",
        ]
        assert not (lab.tree.root / "agents").exists()

    @pytest.mark.parametrize(
        ("option", "value"), [("--name", "../x"), ("--name", "Lab"), ("--vendor", "a-b")]
    )
    def test_names_that_cannot_be(self, lab: Lab, option: str, value: str) -> None:
        done = lab(*REGISTER, option, value)
        assert done.exit_code == 2
        assert f"{option} {value}: use lower-case letters" in done.stderr
        assert not (state(lab) / "keys").exists()

    def test_without_an_engine(self, lab: Lab) -> None:
        lab.no_engine.add("auto")
        done = lab(*REGISTER)
        assert done.exit_code == 4
        assert "engine auto does not answer" in done.stderr
        assert not (lab.tree.root / "agents").exists()

    def test_without_containers_only_if_asked_to(self, lab: Lab) -> None:
        lab.engine.name = "venv"
        done = lab(*REGISTER)
        assert done.exit_code == 4
        assert "need a container engine" in done.stderr
        lab.no_engine.add("docker")
        said = lab(*REGISTER).stderr
        assert "engine docker does not answer. Or give --uncontained to run them as you" in said
        assert lab(*REGISTER, "--uncontained").exit_code == 0

    def test_a_disk_that_is_too_small(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 19 << 30))
        done = lab(*REGISTER)
        assert done.exit_code == 4
        assert "19.0 GiB of disk are free, and images and jobs need 20.0 GiB" in done.stderr

    def test_too_little_memory(self, lab: Lab) -> None:
        lab.host = dataclasses.replace(lab.host, memory_bytes=2 << 30)
        done = lab(*REGISTER)
        assert done.exit_code == 2
        assert "a cell may take 4.0 GiB of memory; this machine has 2.0 GiB" in done.stderr

    def test_the_name_of_another_machine(self, lab: Lab) -> None:
        lab.tree.write(FILE, AGENT)
        done = lab(*REGISTER)
        assert done.exit_code == 2
        assert "is registered with a key that is not on this machine" in done.stderr
        assert (lab.tree.root / FILE).read_text() == AGENT
        assert not (state(lab) / "keys").exists()

    def test_other_pools_are_the_owners_to_edit(self, lab: Lab) -> None:
        lab(*REGISTER)
        lab.tree.edit(
            "matrix.yaml", "pools: [intel-cpu, amd-cpu]", "pools: [intel-cpu, amd-cpu, x-cpu]"
        )
        lab.tree.edit("matrix.yaml", "  arm-cpu:", "  x-cpu: {tier: core, about: x}\n  arm-cpu:")
        done = lab(*REGISTER, "--pool", "x-cpu")
        assert done.exit_code == 2
        assert "Edit agents/intel-lab-1.yaml to change that" in done.stderr

    def test_its_name_and_vendor_are_found(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("platform.node", lambda: "Epyc_07.lab.example.org")
        words = [w for w in REGISTER if w not in ("--name", "lab-1")]
        assert lab.json(*words)["agent"] == "intel-epyc-07"

    def test_gpus_and_what_is_wrong_with_them(self, lab: Lab) -> None:
        nodes = ("/dev/kfd", "/dev/dri/renderD128")
        well = Gpu(vendor="amd", name="MI300X", chip="gfx942", driver_version="6.12", nodes=nodes)
        sick = Gpu(vendor="amd", name="AMD GPU", problem="/dev/kfd is missing")
        lab.host = dataclasses.replace(lab.host, gpus=(well, sick))
        said = lab("register").stdout
        assert "gpu      MI300X gfx942, driver 6.12, /dev/kfd /dev/dri/renderD128\n" in said
        assert "gpu      AMD GPU, /dev/kfd is missing\n" in said


class TestHealthJob:
    """Before a machine is registered, it shows that it works."""

    def test_it_runs_cells_that_should_pass(self, lab: Lab) -> None:
        done = lab(*REGISTER)
        assert done.exit_code == 0, done.stderr
        (job,) = lab.engine.jobs
        assert [cell.id for cell in job.cells] == [MLP, SUM]
        assert "health    well: 2 cells passed in" in done.stdout
        assert f"pass  {MLP}" in done.stdout
        assert lab.last.latest().keys() == {SUM, MLP}

    def test_for_machines(self, lab: Lab) -> None:
        document = lab.json(*REGISTER)
        assert document["health"]["verdict"] == "healthy"
        assert document["health"]["cells"] == [MLP, SUM]

    def test_a_machine_that_is_sick_is_not_registered(self, lab: Lab) -> None:
        play(lab, sum=fail("wrong \x1b[31mnumbers"))
        done = lab(*REGISTER)
        assert done.exit_code == 4
        assert f"the health job failed, so nothing is registered: {SUM}: fail" in done.stderr
        assert "its memory, its GPU and driver" in done.stderr
        assert f"lh-ci show {lab.last.name} {SUM}" in done.stderr
        assert "\x1b" not in done.stderr
        assert not (lab.tree.root / FILE).exists()
        assert not (state(lab) / "keys").exists()
        assert lab("show", lab.last.name, SUM).exit_code == 0

    @pytest.mark.parametrize(
        ("message", "said", "look"),
        [
            ("no space left on the device", "failed", "The disk is full"),
            ("failed to pull", "came to no verdict", "look at the network"),
        ],
    )
    def test_what_to_look_at_follows_from_the_miss(
        self, lab: Lab, message: str, said: str, look: str
    ) -> None:
        play(lab, sum=Outcome(status="miss", phase="execute", message=message))
        done = lab(*REGISTER)
        assert done.exit_code == 4
        assert f"the health job {said}" in done.stderr
        assert look in done.stderr

    def test_it_can_be_left_out_and_that_is_said(self, lab: Lab) -> None:
        play(lab, sum=fail())
        done = lab(*REGISTER, "--no-health-job")
        assert done.exit_code == 0, done.stderr
        assert "no health job was run, as asked" in done.stdout
        assert lab.engine.jobs == []
        assert lab.json(*REGISTER, "--no-health-job")["health"] is None

    def test_a_pool_without_core_cells_has_none(self, lab: Lab) -> None:
        core = "  torch_cpu:\n    tier: core"
        lab.tree.edit("matrix.yaml", core, core.replace("core", "peripheral"))
        done = lab(*REGISTER)
        assert done.exit_code == 0, done.stderr
        assert "no core cell runs in intel-cpu, so none was run" in done.stdout

    def test_nothing_is_run_when_it_only_looks_or_cannot_work(self, lab: Lab) -> None:
        lab("register")
        lab(*REGISTER, "--pool", "amd-cpu")
        assert lab.engine.jobs == []


class TestKeys:
    """Keys of this machine."""

    def test_none(self, lab: Lab) -> None:
        assert "no keys here" in lab("keys", "show").stdout

    def test_rotation_from_end_to_end(self, lab: Lab) -> None:
        lab(*REGISTER)
        (old,) = keys.fingerprints(state(lab), "intel-lab-1")
        done = lab("keys", "rotate", "intel-lab-1")
        assert done.exit_code == 0
        entry = "\n".join(line for line in done.stdout.splitlines() if line.startswith("  "))
        states = {row["fingerprint"]: row["state"] for row in lab.json("keys", "show")}
        assert sorted(states.values()) == ["unknown", "valid"]
        lab.tree.edit(FILE, "keys:\n", f"keys:\n{entry}\n")
        states = {row["fingerprint"]: row["state"] for row in lab.json("keys", "show")}
        assert list(states.values()) == ["valid", "valid"]
        assert f"lh-ci keys retire intel-lab-1 {old}" in done.stdout
        assert lab("keys", "retire", "intel-lab-1", old[:8]).exit_code == 0
        assert old not in keys.fingerprints(state(lab), "intel-lab-1")
        assert lab(*REGISTER).exit_code == 0  # it is still the same machine

    def test_the_orchestrators(self, lab: Lab) -> None:
        done = lab("keys", "rotate", "orchestrator")
        text = done.stdout.partition("\n\n")[2].partition("\n\n")[0]
        lab.tree.write("agents/_orchestrator.yaml", text.replace("https://…", "https://a.example"))
        fleet = load_fleet(lab.tree.root)
        assert fleet.orchestrator is not None
        (key,) = keys.own(state(lab), "orchestrator")
        assert fleet.orchestrator.keys[0].key == key.public
        assert lab.json("keys", "show", "orchestrator")[0]["state"] == "valid"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("rotate", "intel-lab2"), "no agent `intel-lab2`"),
            (("retire", "../x", "0"), "no owner of keys here `../x`"),
            (("show", "intel-lab-2"), "no owner of keys here `intel-lab-2`. Did you mean `intel-"),
            (("retire", "intel-lab-1", "zz"), "intel-lab-1 has no key `zz` here"),
        ],
    )
    def test_what_is_not_there(self, lab: Lab, words: tuple[str, ...], said: str) -> None:
        lab(*REGISTER)
        done = lab("keys", *words)
        assert done.exit_code == 2
        assert said in done.stderr

    def test_cleaning_up_leaves_them(self, lab: Lab) -> None:
        lab(*REGISTER)
        lab("clean", "--runs", "--venvs", "--all")
        assert len(keys.own(state(lab), "intel-lab-1")) == 1

    def test_a_beginning_that_several_keys_have(self, lab: Lab) -> None:
        lab(*REGISTER)
        lab("keys", "rotate", "intel-lab-1")
        done = lab("keys", "retire", "intel-lab-1", "")
        assert done.exit_code == 2
        assert "several keys of intel-lab-1 begin with" in done.stderr
        assert len(keys.fingerprints(state(lab), "intel-lab-1")) == 2


class TestAgents:
    """All of them."""

    @pytest.fixture(autouse=True)
    def _registered(self, lab: Lab) -> None:
        lab.tree.write(FILE, AGENT)
        lab.tree.write("agents/_orchestrator.yaml", ORCHESTRATOR)

    def test_a_table(self, lab: Lab) -> None:
        done = lab("agents")
        assert done.exit_code == 0
        title, row, standing, count = done.stdout.splitlines()
        assert standing == ("intel-lab-1: a health job comes first: it has not run anything yet")
        assert title.split() == ["agent", "owner", "pools", "backend", "level", "key", "terms"]
        assert row.split("   ") == [
            "intel-lab-1",
            "The compiler team",
            "intel-cpu",
            "buildbot",
            "probation",
            public.fingerprint(KEY_A)[:12],
            (
                "torch_*, main release/*, 22:00-06:00, 2 jobs, priority 5, 20.0 GiB, "
                "1 h 00 min, approved forks"
            ),
        ]
        assert count == "1 agent"

    def test_for_machines(self, lab: Lab) -> None:
        (document,) = lab.json("agents")
        assert document["id"] == "intel-lab-1"
        assert document["keys"] == [public.fingerprint(KEY_A)]
        assert document["terms"]["hours"] == ["22:00-06:00"]
        assert "advice" not in document

    def test_what_blocks_promotion(self, lab: Lab) -> None:
        play(lab)
        lab("run", "torch_cpu")
        for path in (lab.last.folder / "results").iterdir():
            path.write_text(path.read_text().replace('"agent": ""', '"agent": "intel-lab-1"'))
        at = lab.engine.time.start.isoformat()
        lines = Lines(state(lab) / JOURNAL, Seen)
        lines.add(Seen(agent="intel-lab-1", event="sick", at=at))
        lines.add(Seen(agent="intel-lab-1", event="healthy", at=at))
        assert lab("agents").stdout.splitlines()[-5:] == [
            "intel-lab-1: 1 day of 14 in 30 days",
            "intel-lab-1: 1 job of 50 in 30 days",
            "intel-lab-1: 2 health jobs of 10 in 30 days",
            "intel-lab-1: 1 of 2 health jobs failed (at most 10%)",
            "1 agent",
        ]
        (document,) = lab.json("agents", "--results", ".lh/runs")
        assert document["advice"]["level"] == "probation"
        assert len(document["advice"]["reasons"]) == 4

    def test_an_agents_machine_has_no_library_that_counts(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        play(lab)
        lab("run", "torch_cpu")
        monkeypatch.setattr("orchestrator.cli.counting.find_spec", lambda name: None)
        done = lab("agents")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.endswith("\n1 agent\n")
        done = lab("agents", "--results", ".lh/runs")
        assert done.exit_code == 2
        assert "pip install 'lighthouse-ci[dashboard]'" in done.stderr

    def test_the_dashboard_shows_it(self, lab: Lab) -> None:
        play(lab)
        lab("run", "torch_cpu")
        for path in (lab.last.folder / "results").iterdir():
            path.write_text(path.read_text().replace('"agent": ""', '"agent": "intel-lab-1"'))
        done = lab("dashboard")
        assert done.exit_code == 0, done.stderr
        page = json.loads((lab.tree.root / "site/agents.json").read_text())
        (agent,) = page["agents"]
        assert (agent["agent"], agent["level"]) == ("intel-lab-1", "probation")
        assert agent["contact"] == "ci@example.org"
        assert agent["blocks"][0] == "1 day of 14 in 30 days"

    def test_what_was_refused_of_an_agent_counts_for_a_month(self, lab: Lab) -> None:
        play(lab)
        lab("run", "torch_cpu")
        told = Lines(state(lab) / REFUSALS, RefusedBundle)
        common = {"machine": "m", "run": "r", "job": "j", "kind": "mismatch", "why": "it differs"}
        for agent, days in (("intel-lab-1", 0), ("intel-lab-1", 29), ("intel-lab-1", 31), ("", 0)):
            at = utc(lab.engine.time.start - dt.timedelta(days=days))
            told.add(RefusedBundle(agent=agent, at=at, **common))
        assert "intel-lab-1: 2 bundles refused in 30 days" in lab("agents").stdout.splitlines()

    def test_results_that_are_not_there(self, lab: Lab) -> None:
        done = lab("agents", "--results", "nowhere")
        assert done.exit_code == 2
        assert "no folder" in done.stderr

    def test_none(self, lab: Lab) -> None:
        (lab.tree.root / FILE).unlink()
        assert lab("agents").stdout == "0 agents\n"

    def test_a_broken_file_is_told(self, lab: Lab) -> None:
        lab.tree.edit(FILE, "level: probation", "level: trustde")
        done = lab("agents")
        assert done.exit_code == 3
        assert "Did you mean `trusted`?" in done.stderr
