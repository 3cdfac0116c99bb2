"""Cells as jobs for machines, and as the steps and matrices of services. Thousands of them too."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from orchestrator.backends.buildkite.steps import pipeline
from orchestrator.backends.contract import PRIORITIES
from orchestrator.backends.github.matrix import MOST_BYTES, MOST_JOBS, chunks
from orchestrator.backends.placing import Placed, place, place_again
from orchestrator.config.models import GpuPool, Pool
from orchestrator.errors import UsageError
from orchestrator.fleet import public
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.serving import (
    AnyMachines,
    BothMachines,
    HostedMachines,
    RegisteredMachines,
)
from orchestrator.job import Cell, Device, Workload
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import RunOptions

GPU = "nvidia-gpu"
CPU = "amd-cpu"


def agent(name: str, **changes: Any) -> AgentFile:
    """A trusted agent of both pools."""
    terms = {"disk": "20GiB", "time": "6h", **changes.pop("terms", {})}
    document = {
        "schema": 1,
        "vendor": "lab",
        "name": name,
        "owner": "us",
        "contact": "ci@example.org",
        "backend": "github",
        "pools": [CPU, GPU],
        "level": "trusted",
        "keys": [{"key": public.to_text(name.encode().ljust(32)), "from": "2026-11-01"}],
        "terms": terms,
        **changes,
    }
    return AgentFile.model_validate_json(json.dumps(document))


def fleet(*agents: AgentFile, branch: str = "main") -> RegisteredMachines:
    """Those agents, on GitHub."""
    return RegisteredMachines({each.id: each for each in agents}, "github", branch)


def planned(number: int, pool: str = CPU, pipeline: str = "p", tier: str = "core") -> PlannedCell:
    """A runnable cell."""
    device: Device = "nvidia" if pool == GPU else ""
    return PlannedCell(
        cell=Cell(
            id=f"{pipeline}.w{number}.f32@{pool}",
            pipeline=pipeline,
            workload=Workload(name=f"w{number}", file=f"workloads/w{number}.py", sha256="00"),
            variant="f32",
            pool=pool,
            ingress="torch_mlir",
        ),
        stack="pytorch",
        tier=tier,
        runnable=True,
        reason="",
        device=device,
    )


def placed(whole: Iterable[PlannedCell], machines: AnyMachines, **more: Any) -> tuple[Placed, ...]:
    """Those cells as jobs of a run called `r`."""
    groups = machines.groups(machines.judged(tuple(whole)))
    return place(groups, RunOptions(workers=0), run="r", **more)


ANY = AnyMachines({})


class TestAgain:
    """Where a job goes that was missed."""

    @pytest.mark.parametrize("missed", [set(), {"lab-a"}])
    def test_a_peer_is_named_where_it_is_known_who_missed_it(self, missed: set[str]) -> None:
        able = (agent("a"), agent("b", terms={"time": "10min"}))
        (before,) = placed([planned(1)], fleet(*able))
        found = place_again(before.job, before, missed, able)
        if not missed:
            assert found == before
        else:
            assert (found.agent, found.machines, found.timeout_s) == ("lab-b", 1, 600.0)

    def test_all_that_may_take_it_missed_it(self) -> None:
        (before,) = placed([planned(1)], fleet(agent("a"), agent("b")))
        able = (agent("a"), agent("b"))
        assert place_again(before.job, before, {"lab-a", "lab-b"}, able) == before
        assert place_again(before.job, before, {"lab-a"}, ()) == before

    def test_trust_is_kept(self) -> None:
        new = agent("b", level="probation")
        (before,) = placed([planned(1)], fleet(agent("a"), new))
        assert place_again(before.job, before, {"lab-a"}, (new,)) == before
        (quiet,) = placed([planned(1)], fleet(new))
        again = place_again(quiet.job, quiet, {"lab-c"}, (new,))
        assert (again.agent, again.probation) == ("lab-b", True)
        again = place_again(quiet.job, quiet, {"lab-b"}, (agent("a"),))
        assert (again.agent, again.probation) == ("lab-a", False)

    def test_hosted_machines_have_no_names(self) -> None:
        (before,) = placed([planned(1)], HostedMachines())
        assert place_again(before.job, before, {"lab-a"}, (agent("b"),)) == before

    def test_fewer_cells_take_less_time(self) -> None:
        (before,) = placed([planned(1), planned(2)], ANY)
        part = dataclasses.replace(before.job, cells=before.job.cells[:1])
        assert place_again(part, before, set(), ()).timeout_s == before.timeout_s - 60.0


class TestPlace:
    """Who runs what."""

    def test_a_pool_whose_agents_agree_is_found_by_its_name(self) -> None:
        (job,) = placed([planned(1), planned(2)], fleet(agent("a"), agent("b")))
        assert (job.agent, job.machines, job.probation) == ("", 2, False)
        assert [cell.id for cell in job.job.cells] == ["p.w1.f32@amd-cpu", "p.w2.f32@amd-cpu"]

    def test_cells_that_not_all_agents_take_go_to_one_that_does(self) -> None:
        picky = agent("a", terms={"pipelines": ["q*"]})
        low, high = agent("b"), agent("c", terms={"priority": 3})
        jobs = placed([planned(1), planned(2, pipeline="q")], fleet(picky, low, high))
        assert [(job.job.id, job.agent) for job in jobs] == [
            ("r.pytorch.amd-cpu", "lab-c"),
            ("r.pytorch.amd-cpu-2", ""),
        ]

    def test_cells_that_nobody_takes_say_so(self) -> None:
        machines = fleet(agent("a", terms={"pipelines": ["q"]}))
        (cell,) = machines.judged([planned(1)])
        assert (cell.runnable, cell.reason) == (False, "no agent of pool amd-cpu runs p")
        assert placed([planned(1)], machines) == ()

    def test_one_trusted_agent_is_enough_to_turn_a_run_red(self) -> None:
        new = agent("a", level="probation")
        assert placed([planned(1)], fleet(new))[0].probation
        assert not placed([planned(1)], fleet(new, agent("b")))[0].probation

    def test_priority_is_that_of_the_best_cell(self) -> None:
        (job,) = placed([planned(1, tier="peripheral"), planned(2)], ANY)
        assert (job.tier, job.priority) == ("core", PRIORITIES["core"])

    def test_an_agent_tells_its_chips(self) -> None:
        gpu = GpuPool(driver="cuda", device="nvidia")
        pool = Pool(tier="core", about="GPUs", gpu=gpu)
        assert "which chip" in fleet(agent("a")).refusal(GPU, pool)
        machines = fleet(agent("a", chips=["sm_90"]), agent("b", chips=["sm_80", "sm_90"]))
        assert machines.refusal(GPU, pool) == ""
        assert machines.chips(GPU, gpu) == ("sm_90", "sm_80")

    def test_hosted_machines_serve_what_needs_no_hardware(self) -> None:
        software = GpuPool(driver="vulkan", device="software")
        real = GpuPool(driver="opencl", device="intel")
        for gpu, served in ((software, True), (real, False), (None, False)):
            pool = Pool(tier="core", about="", gpu=gpu)
            assert (HostedMachines().refusal("x", pool) == "") is served

    def test_hosted_machines_take_what_no_agent_does(self) -> None:
        gpu = GpuPool(driver="vulkan", device="software")
        software, cpu = Pool(tier="core", about="", gpu=gpu), Pool(tier="core", about="")
        machines = BothMachines(fleet(agent("a"), agent("b", terms={"pipelines": ["q"]})))
        assert machines.refusal("software-gpu", software) == ""
        assert machines.refusal(CPU, cpu) == ""
        assert "no agent is registered" in machines.refusal("arm-cpu", cpu)
        jobs = placed([planned(1, "software-gpu"), planned(2)], machines)
        assert [(job.job.pool, job.hosted, job.agent) for job in jobs] == [
            (CPU, False, "lab-a"),
            ("software-gpu", True, ""),
        ]


class TestBuildkite:
    """Steps of a pipeline."""

    def test_a_gpu_runs_one_job_and_only_infrastructure_is_tried_again(self) -> None:
        machines = fleet(agent("a", chips=["sm_90"]), agent("b", chips=["sm_90"]))
        gpu, collect = pipeline(placed([planned(1, GPU)], machines))["steps"]
        assert (gpu["concurrency"], gpu["concurrency_group"]) == (2, "lighthouse/gpu/nvidia-gpu")
        rules = gpu["retry"]["automatic"]
        assert all(rule["limit"] == 2 for rule in rules)
        signals = [(r.get("exit_status"), r.get("signal_reason")) for r in rules]
        assert sorted(signals, key=str) == [
            (-1, None),
            (4, None),
            (None, "agent_refused"),
            (None, "agent_stop"),
            (None, "process_run_error"),
        ]
        assert gpu["command"] == ".buildkite/job.sh"
        assert gpu["env"] == {"LIGHTHOUSE_JOB": "r.pytorch.nvidia-gpu"}
        assert gpu["agents"] == {"queue": "lighthouse", "pool": GPU, "docker": "true"}
        assert collect["depends_on"] == [{"step": gpu["key"], "allow_failure": True}]

    def test_probation_fails_softly_and_terms_name_an_agent(self) -> None:
        new = agent("a", level="probation", terms={"pipelines": ["p"]})
        step, _ = pipeline(placed([planned(1)], fleet(new)))["steps"]
        assert step["soft_fail"] is True
        assert "concurrency" not in step
        other = agent("b", terms={"pipelines": ["q"]})
        step, _ = pipeline(placed([planned(1)], fleet(new, other)))["steps"]
        assert step["agents"]["agent"] == "lab-a"

    @pytest.mark.parametrize(("cells", "jobs"), [(2000, 80), (0, 0)])
    def test_it_is_what_the_service_takes(self, tmp_path: Path, cells: int, jobs: int) -> None:
        document = pipeline(placed(map(planned, range(cells)), ANY))
        assert len(document["steps"]) == jobs + 1
        (tmp_path / "pipeline.json").write_text(json.dumps(document))
        argv = ["--builtin-schema", "vendor.buildkite", str(tmp_path / "pipeline.json")]
        checked = CliRunner().invoke(check_jsonschema, argv)
        assert checked.exit_code == 0, checked.output
        assert len({step["key"] for step in document["steps"]}) == jobs + 1

    def test_it_is_the_same_every_time(self) -> None:
        cells = [planned(number, pool) for number in range(200) for pool in (CPU, GPU)]
        assert pipeline(placed(cells, ANY)) == pipeline(placed(cells, ANY))


class TestGitHub:
    """Matrices."""

    def test_no_matrix_has_more_jobs_than_the_service_allows(self) -> None:
        document = chunks(placed(map(planned, range(2000)), ANY, cells=1))
        sizes = [len(chunk["include"]) for chunk in document["chunk"]]
        assert sizes == [MOST_JOBS] * 7 + [208]
        assert [chunk["name"] for chunk in document["chunk"]][:2] == ["1/8", "2/8"]
        names = [entry["job"] for chunk in document["chunk"] for entry in chunk["include"]]
        assert names == [f"r.pytorch.amd-cpu.{number}" for number in range(1, 2001)]
        assert len(json.dumps(document)) < MOST_BYTES

    def test_it_is_what_the_service_takes(self, tmp_path: Path) -> None:
        matrices = chunks(placed(map(planned, range(2000)), ANY, cells=1))["chunk"]
        workflow = {
            "on": "push",
            "jobs": {
                f"cells-{number}": {
                    "runs-on": "${{ matrix.runner }}",
                    "strategy": {"matrix": {"include": chunk["include"]}},
                    "steps": [{"run": "true"}],
                }
                for number, chunk in enumerate(matrices)
            },
        }
        (tmp_path / "workflow.json").write_text(json.dumps(workflow))
        argv = ["--builtin-schema", "vendor.github-workflows", str(tmp_path / "workflow.json")]
        checked = CliRunner().invoke(check_jsonschema, argv)
        assert checked.exit_code == 0, checked.output

    def test_hosted_runners_and_agents(self) -> None:
        (chunk,) = chunks(placed([planned(1)], HostedMachines()))["chunk"]
        assert chunk["include"][0]["runner"] == ["ubuntu-24.04"]
        machines = fleet(agent("a", terms={"pipelines": ["q"]}), agent("b"))
        (chunk,) = chunks(placed([planned(1)], machines))["chunk"]
        assert chunk["include"][0]["runner"] == [
            "self-hosted",
            "lighthouse",
            "pool-amd-cpu",
            "agent-lab-b",
        ]

    def test_too_many_matrices_are_told(self) -> None:
        with pytest.raises(UsageError, match="more cells for each job"):
            chunks(placed(map(planned, range(300)), ANY, cells=1), most=1)
