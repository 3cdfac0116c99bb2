"""Buildbot for real: a master, three workers, two pools, containers, and things that go wrong."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator

import docker
import pytest

from orchestrator.backends.signing import REFUSALS, RefusedBundle
from orchestrator.fleet import keys
from orchestrator.fleet.quarantine import JOURNAL, Seen
from orchestrator.host import detect
from orchestrator.results.lines import Lines
from orchestrator.results.store import Run
from tests.backends.bending import alter, resign
from tests.e2e.buildbot_site import (
    Site,
    agents_jobs,
    by_cell,
    containers,
    journal,
    until,
)

pytestmark = pytest.mark.docker
pytest.importorskip("buildbot")

CPU = {"GenuineIntel": "intel-cpu", "AuthenticAMD": "amd-cpu"}.get(detect().cpu_vendor, "arm-cpu")
GPU = "cross-intel"
"""Served by any machine: code is made for it, and not executed."""
ONE, TWO, THREE = "test-one", "test-two", "test-three"
WORKLOADS = ("mlp", "softmax", "matmul", "bmm", "silu")
END_S = 240.0


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    from orchestrator.engines.docker_host import CALL_S, connect, find_host

    client = connect(find_host({}), CALL_S)
    yield client
    client.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, client: docker.APIClient) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("buildbot")
    workers = {ONE: CPU, TWO: f"{CPU},{GPU}", THREE: GPU}
    site = Site(folder, workers, root=folder / "checkout")
    site.check_out()
    site.register()
    site.declare_orchestrator()
    site.commit("agents and the orchestrator")
    site.set_up()
    declare_well(site, *workers)
    try:
        site.start("master", *site.workers)
        yield site
    finally:
        site.stop()
    until(lambda: not agents_jobs(folder.name), "jobs to end with their workers", 30)
    runs = [path.name for path in (site.state / "runs").iterdir()]
    assert [name for run in runs for name in containers(client, run)] == []


def declare_well(site: Site, *agents: str) -> None:
    """As if a health job had just passed on them: these are not what is tried here."""
    at = dt.datetime.now(dt.UTC).isoformat()
    for agent in agents:
        Lines(site.state / JOURNAL, Seen).add(Seen(agent=agent, event="healthy", at=at))


def refusals(site: Site) -> list[RefusedBundle]:
    """What the dispatcher refused."""
    return list(Lines(site.state / REFUSALS, RefusedBundle).read())


def select(*workloads: str, pools: tuple[str, ...]) -> list[str]:
    words = [
        "pytorch_cpu",
        "pytorch_gpu",
        "--backend",
        "buildbot",
        "--variant",
        "f32",
    ]
    words += [w for workload in workloads for w in ("--workload", workload)]
    return words + [w for pool in pools for w in ("--pool", pool)]


def busy(site: Site, client: docker.APIClient, pool: str, after: Run | None) -> str:
    """The worker that has a container of a job of this pool running, in a run after that one."""
    run = site.run_folder()
    if run is None or (after is not None and run.name == after.name):
        return ""
    for job, worker in site.claimed().items():
        if f".{pool}" in job and containers(client, job):
            return worker
    return ""


def check(process: subprocess.Popen[bytes], site: Site, expected: set[str]) -> Run:
    """Waits for the end; every cell passed once, and what came before that is a recorded miss."""
    assert process.wait(END_S) == 0, (site.folder / "dispatch.log").read_text()
    run = site.run_folder()
    assert run is not None
    results, problems = run.results()
    assert problems == ()
    found = by_cell(results)
    assert set(found) == expected
    for cell, attempts in found.items():
        numbers, statuses = zip(*attempts, strict=True)
        assert numbers == tuple(range(1, len(numbers) + 1)), cell
        assert statuses == (*["miss"] * (len(numbers) - 1), "pass"), cell
    assert run.unfinished() == ()
    ends = [entry for entry in journal(run) if entry["event"] in ("collected", "abandoned")]
    # health jobs of machines that are away are given up with the run
    ends = [entry for entry in ends if ".health." not in entry["job"]]
    assert {entry["event"] for entry in ends} == {"collected"}
    assert len(ends) == len({entry["job"] for entry in ends})
    assert run.info().ended is not None
    return run


def test_a_worker_is_killed_in_the_middle_of_a_job(site: Site, client: docker.APIClient) -> None:
    process = site.dispatch(*select(*WORKLOADS, pools=(CPU, GPU)))
    killed = until(lambda: busy(site, client, CPU, None), "a container of a job")
    site.kill(killed)
    cells = {f"pytorch_cpu.{name}.f32@{CPU}" for name in WORKLOADS}
    cells |= {f"pytorch_gpu.{name}.f32@{GPU}" for name in WORKLOADS}
    run = check(process, site, cells)
    misses = [result for result in run.results()[0] if result.status == "miss"]
    assert misses, "the worker was killed after its job had ended"
    assert all(f"{killed} or its master went away" in result.message for result in misses)
    passed = [result for result in run.results()[0] if result.status == "pass"]
    assert {result.agent for result in passed} <= set(site.workers)
    assert all(result.agent for result in passed)
    assert all(result.isolation and result.isolation.contained for result in passed)
    assert {result.tier for result in passed} == {"core"}
    site.start(killed)


def test_the_master_is_killed_and_started_again(site: Site, client: docker.APIClient) -> None:
    before = site.run_folder()
    process = site.dispatch(*select("mlp", "softmax", pools=(CPU,)))
    until(lambda: busy(site, client, CPU, before), "a container of a job")
    site.kill("master")
    site.start("master")
    check(process, site, {f"pytorch_cpu.{name}.f32@{CPU}" for name in ("mlp", "softmax")})


def test_the_dispatcher_is_killed_and_resumed(site: Site, client: docker.APIClient) -> None:
    before = site.run_folder()
    process = site.dispatch(*select("mlp", pools=(CPU,)))
    until(lambda: busy(site, client, CPU, before), "a container of a job")
    process.kill()
    process.wait()
    run = site.run_folder()
    assert run is not None
    run = check(site.dispatch("--resume", run.name), site, {f"pytorch_cpu.mlp.f32@{CPU}"})
    submissions = [entry["job"] for entry in journal(run) if entry["event"] == "submitted"]
    assert len([job for job in submissions if ".health." not in job]) == 1
    assert len(run.results()[0]) == 1


def test_what_is_altered_on_its_way_is_refused_and_tried_again(site: Site) -> None:
    """One result is another one, the other bundle is signed by another agent."""
    before = {path.name for path in (site.state / "runs").iterdir()}
    process = site.dispatch(*select("mlp", pools=(CPU, GPU)))
    run = until(lambda: site.run_folder(but=before), "a run")
    until(lambda: len(site.claimed()) == 2, "both jobs to be taken")
    process.kill()
    process.wait()
    (cpu,) = (job for job in site.claimed() if CPU in job)
    (gpu,) = (job for job in site.claimed() if GPU in job)
    alter(site.result_of(cpu))
    resign(site.result_of(gpu), keys.own(site.state_of(ONE), ONE))
    cells = {f"pytorch_cpu.mlp.f32@{CPU}", f"pytorch_gpu.mlp.f32@{GPU}"}
    run = check(site.dispatch("--resume", run.name), site, cells)
    misses = {r.cell: r.message for r in run.results()[0] if r.status == "miss"}
    assert "refused (mismatch)" in misses[f"pytorch_cpu.mlp.f32@{CPU}"]
    assert f"of {ONE}" in misses[f"pytorch_gpu.mlp.f32@{GPU}"]
    assert "refused (other-agent)" in misses[f"pytorch_gpu.mlp.f32@{GPU}"]
    told = (site.folder / "dispatch.log").read_text()
    assert "refused (mismatch)" in told
    told_of = [(r.kind, r.job) for r in refusals(site) if r.run == run.name]
    assert told_of == [("mismatch", cpu), ("other-agent", gpu)]


def test_a_worker_without_the_agents_keys_is_refused(site: Site) -> None:
    """It has the password of a registered agent, and that is all."""
    declare_well(site, THREE)
    site.kill(THREE)
    site.kill(TWO)
    site.start(THREE, agents=False)
    process = site.dispatch(*select("mlp", pools=(GPU,)), "--retries", "0")
    assert process.wait(END_S) == 4, (site.folder / "dispatch.log").read_text()
    run = site.run_folder()
    assert run is not None
    (result,) = run.results()[0]
    assert (result.status, result.agent) == ("miss", "")
    assert "refused (unsigned)" in result.message
    last = refusals(site)[-1]
    assert (last.kind, last.agent, last.machine) == ("unsigned", "", THREE)


def test_no_password_is_in_what_was_written_or_logged(site: Site) -> None:
    secrets = [path.read_text().strip() for path in (site.folder / "master/secrets").iterdir()]
    assert len(secrets) == 4
    written = [*site.logs(), site.folder / "master/master.cfg", site.folder / "master/fleet.json"]
    written += [site.folder / name / "buildbot.tac" for name in site.workers]
    pems = [*(site.folder / "states").rglob("*.key"), *site.state.rglob("*.key")]
    assert len(pems) == 4
    secrets += [path.read_text().splitlines()[1] for path in pems]
    sent = [*site.state.rglob("*.json"), *(site.root / "agents").iterdir()]
    written += [path for path in sent if path.is_file()]
    assert len(written) > 20
    for path in written:
        text = path.read_text(errors="replace")
        assert not any(secret in text for secret in secrets), path
