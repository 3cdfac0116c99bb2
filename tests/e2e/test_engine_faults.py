"""Faults of a real engine under a real run, through the judgement of all faults."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from orchestrator.fleet.misses import Kind
from orchestrator.host import detect
from orchestrator.results.store import Run
from tests.e2e.buildbot_site import containers, until
from tests.faults.judging import Aftermath, complaints

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
POOL = {"GenuineIntel": "intel-cpu", "AuthenticAMD": "amd-cpu"}.get(detect().cpu_vendor, "arm-cpu")
WORKLOADS = ("mlp", "softmax", "matmul", "bmm", "silu", "gelu", "attention", "conv2d", "layernorm")
CELLS = [f"pytorch_cpu.{name}.f32@{POOL}" for name in WORKLOADS]
END_S = 240.0


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    from orchestrator.engines.docker_host import CALL_S, connect, find_host

    client = connect(find_host({}), CALL_S)
    yield client
    client.close()


def removed(client: docker.APIClient, container: str) -> None:
    """As `docker rm -f` does."""
    client.remove_container(container, force=True)


def killed(client: docker.APIClient, container: str) -> None:
    """As the kernel does when the machine's memory runs out: not at the container's own limit."""
    for row in client.top(container)["Processes"]:
        subprocess.run(["kill", "-KILL", row[1]], check=False, stderr=subprocess.DEVNULL)


def paused(client: docker.APIClient, container: str) -> None:
    """The machine is suspended, and wakes up."""
    client.pause(container)
    until(lambda: client.inspect_container(container)["State"]["Paused"], "the pause", 20)
    client.unpause(container)


FAULTS: dict[str, tuple[Callable[[docker.APIClient, str], None], Kind | None]] = {
    "the container is removed": (removed, Kind.DAEMON),
    "all its processes are killed": (killed, Kind.MEMORY),
    "the container stands still for a while": (paused, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_no_compiler_is_blamed(name: str, tmp_path: Path, client: docker.APIClient) -> None:
    break_it, kind = FAULTS[name]
    words = ["pytorch_cpu", "--engine", "docker", "--pool", POOL, "--variant", "f32"]
    words += [word for each in WORKLOADS for word in ("--workload", each)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", "-C", str(ROOT), "run", *words],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, "LH_STATE": str(tmp_path / "state")},
        )
        try:
            container, run = until(lambda: _busy(client, process, tmp_path), "a first result")
            break_it(client, container)
            code = process.wait(END_S)
        finally:
            process.kill()
            process.wait()
    after = Aftermath(
        run=run,
        planned=CELLS,
        codes=[code],
        kind=kind,
        left=containers(client, run.name),
    )
    assert complaints(after) == [], (tmp_path / "log").read_text()


def _busy(
    client: docker.APIClient, process: subprocess.Popen[bytes], folder: Path
) -> tuple[str, Run] | None:
    """The container of a run that has a result, and works on the next ones."""
    assert process.poll() is None, (folder / "log").read_text()
    for plan in (folder / "state" / "runs").glob("*/plan.json"):
        run = Run(plan.parent)
        if found := containers(client, run.name):
            results = list((plan.parent / "results").glob("*.json"))
            if 0 < len(results) < len(CELLS) / 2:
                return found[0].removeprefix("/"), run
    return None
