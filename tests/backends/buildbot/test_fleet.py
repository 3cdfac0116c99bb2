"""What a master serves, and the folders that are written for it and its workers."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from orchestrator.backends.buildbot.fleet import (
    DISPATCHER,
    Fleet,
    FleetWorker,
    make_fleet,
    parse_worker,
    passwords,
    read_fleet,
    read_secret,
    registered,
    write_secret,
)
from orchestrator.backends.buildbot.folders import WorkerPlan, write_master, write_worker
from orchestrator.config.models import GpuPool, Pool
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet.models import AgentFile
from orchestrator.plan import plan_cells
from tests.config.tree import make_tree

POOLS = {
    "intel-cpu": Pool(tier="core", about="", arch="x86_64", cpu_vendor="GenuineIntel"),
    "amd-cpu": Pool(tier="core", about="", arch="x86_64", cpu_vendor="AuthenticAMD"),
    "nvidia-gpu": Pool(tier="core", about="", gpu=GpuPool(driver="cuda", device="nvidia")),
    "cross-nvidia": Pool(
        tier="core", about="", gpu=GpuPool(driver="cuda", device="none", chips=("sm_90",))
    ),
}


def fleet(*workers: str) -> Fleet:
    return make_fleet(POOLS, [parse_worker(text) for text in workers])


@pytest.mark.parametrize(
    ("text", "worker"),
    [
        ("a=intel-cpu", FleetWorker(name="a", pools=("intel-cpu",))),
        (
            "b=intel-cpu, nvidia-gpu;jobs=2;priority=5;chips=sm_90,sm_100",
            FleetWorker(
                name="b",
                pools=("intel-cpu", "nvidia-gpu"),
                jobs=2,
                priority=5,
                chips=("sm_90", "sm_100"),
            ),
        ),
    ],
)
def test_a_worker_in_words(text: str, worker: FleetWorker) -> None:
    assert parse_worker(text) == worker


@pytest.mark.parametrize(
    "text", ["a", "a=", "=intel-cpu", "a=x;jobs=0", "a=x;jobs=many", "a=x;cores=2", "a=x;jobs"]
)
def test_words_that_are_no_worker(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no worker\. Write NAME=POOL,POOL"):
        parse_worker(text)


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (["a=intel-gpu"], "worker a: no pool `intel-gpu`. Did you mean `intel-cpu`?"),
        (["a=intel-cpu", "a=amd-cpu"], "worker a is there twice"),
        (["a b=intel-cpu"], "`a b` is no name for a worker"),
        ([f"{DISPATCHER}=intel-cpu"], "is no name for a worker"),
        (["../a=intel-cpu"], "is no name for a worker"),
    ],
)
def test_workers_that_cannot_be(workers: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        fleet(*workers)


def test_what_is_planned_for_a_fleet(tmp_path: Path) -> None:
    some = fleet(
        "a=intel-cpu,nvidia-gpu;chips=sm_90", "b=nvidia-gpu;chips=sm_100", "c=cross-nvidia"
    )
    gpu, cross = POOLS["nvidia-gpu"], POOLS["cross-nvidia"]
    assert some.refusal("intel-cpu", POOLS["intel-cpu"]) == ""
    assert "no worker of http://127.0.0.1:8010/ serves pool amd-cpu" in some.refusal(
        "amd-cpu", POOLS["amd-cpu"]
    )
    assert gpu.gpu is not None
    assert cross.gpu is not None
    assert some.chips("nvidia-gpu", gpu.gpu) == ("sm_90", "sm_100")
    assert some.chips("cross-nvidia", cross.gpu) == ("sm_90",)
    silent = fleet("a=nvidia-gpu")
    assert "says which chip its GPU has" in silent.refusal("nvidia-gpu", gpu)


def test_cells_are_planned_for_its_pools_and_not_for_this_machine(tmp_path: Path) -> None:
    cells = plan_cells(make_tree(tmp_path).load(), fleet("a=amd-cpu"))
    assert {p.cell.pool for p in cells if p.runnable} == {"amd-cpu"}
    assert {p.cell.pool for p in cells if not p.runnable} == {"intel-cpu"}


def test_registered_agents_are_workers_by_their_terms() -> None:
    document = {
        "schema": 1,
        "vendor": "amd",
        "name": "epyc",
        "owner": "AMD",
        "contact": "ci@amd.example",
        "backend": "buildbot",
        "pools": ["amd-cpu"],
        "level": "trusted",
        "terms": {"jobs": 3, "priority": -5, "disk": "1GiB", "time": "60s"},
        "keys": [],
    }
    agent = AgentFile.model_validate_json(json.dumps(document))
    other = agent.model_copy(update={"name": "pipe", "backend": "buildkite"})
    assert registered({agent.id: agent, other.id: other}) == [
        FleetWorker(name="amd-epyc", pools=("amd-cpu",), jobs=3, priority=-5, registered=True)
    ]


# --- folders ----------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_masters_folder(tmp_path: Path) -> None:
    some = fleet("a=intel-cpu", "b=amd-cpu")
    write_master(tmp_path, some)
    assert read_fleet(tmp_path) == some
    known = passwords(tmp_path, [DISPATCHER, "a", "b"])
    assert len(set(known.values())) == 3
    assert min(map(len, known.values())) >= 24
    assert mode(tmp_path / "secrets") == 0o700
    assert {mode(path) for path in (tmp_path / "secrets").iterdir()} == {0o600}
    for name in ("master.cfg", "fleet.json"):
        text = (tmp_path / name).read_text()
        assert not any(password in text for password in known.values())


def test_written_again_it_keeps_its_passwords(tmp_path: Path) -> None:
    write_master(tmp_path, fleet("a=intel-cpu"))
    before = passwords(tmp_path, [DISPATCHER, "a"])
    write_master(tmp_path, fleet("a=amd-cpu", "b=amd-cpu"))
    assert passwords(tmp_path, [DISPATCHER, "a"]) == before
    assert passwords(tmp_path, ["b"])["b"] not in before.values()


def test_a_fleet_that_is_damaged_is_told(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text('{"pools": 1}')
    with pytest.raises(InfrastructureError, match=r"fleet\.json cannot be used"):
        read_fleet(tmp_path)


def test_a_password_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "word"
    write_secret(path, "secret")
    assert read_secret(path) == "secret"
    path.chmod(0o640)
    with pytest.raises(UsageError, match=r"others can read it: chmod 600"):
        read_secret(path)


def test_a_secret_is_closed_again_when_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "word"
    path.write_text("old and longer")
    path.chmod(0o644)
    write_secret(path, "new")
    assert read_secret(path) == "new"


@pytest.mark.parametrize("content", [None, ""])
def test_a_password_that_is_not_there_is_told(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "word"
    if content is not None:
        write_secret(path, content)
    with pytest.raises(UsageError, match=r"word"):
        read_secret(path)


PLAN = WorkerPlan(
    name="epyc",
    host="ci.example.org",
    port=9989,
    password="not to be seen",
    root=Path("/srv/it's here"),
)


def test_a_workers_folder(tmp_path: Path) -> None:
    write_worker(tmp_path / "w", PLAN)
    tac = (tmp_path / "w" / "buildbot.tac").read_text()
    compile(tac, "buildbot.tac", "exec")
    assert "not to be seen" not in tac
    assert repr("/srv/it's here") in tac
    assert "Worker('ci.example.org', 9989, 'epyc', password" in tac
    assert read_secret(tmp_path / "w" / "password") == "not to be seen"
    assert (tmp_path / "w" / "info" / "admin").read_text() == "unknown\n"


def test_a_worker_with_an_endpoint_of_its_own(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, host="", connection="tls:ci.example.org:9989", admin="us")
    write_worker(tmp_path / "w", plan)
    tac = (tmp_path / "w" / "buildbot.tac").read_text()
    assert "Worker(None, None, 'epyc', password" in tac
    assert "connection_string='tls:ci.example.org:9989'" in tac
    assert (tmp_path / "w" / "info" / "admin").read_text() == "us\n"
