"""One's own machine as an agent, with containers: the dispatcher is killed, the job is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from orchestrator.host import detect
from orchestrator.results.store import Run
from tests.e2e.buildbot_site import ROOT, containers, journal, until

pytestmark = pytest.mark.docker

CPU = {"GenuineIntel": "intel-cpu", "AuthenticAMD": "amd-cpu"}.get(detect().cpu_vendor, "arm-cpu")
CELL = f"pytorch_cpu.mlp.f32@{CPU}"


def lh_ci(state: Path, *words: str) -> subprocess.Popen[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LH_", "NOX_"))}
    with (state / "run.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=ROOT,
            env={**kept, "LH_STATE": str(state)},
            stdout=log,
            stderr=log,
        )


def test_the_dispatcher_is_killed_and_the_job_goes_on(tmp_path: Path) -> None:
    from orchestrator.engines.docker_host import CALL_S, connect, find_host

    client: docker.APIClient = connect(find_host({}), CALL_S)
    words = ("pytorch_cpu", "--workload", "mlp", "--variant", "f32", "--as-agent")
    first = lh_ci(tmp_path, "run", *words)
    folder = until(lambda: next((tmp_path / "runs").glob("*/journal.jsonl"), None), "a run").parent
    until(lambda: containers(client, folder.name), "a container of a job")
    first.kill()
    first.wait()
    second = lh_ci(tmp_path, "run", "--resume", folder.name)
    assert second.wait(240) == 0, (tmp_path / "run.log").read_text()
    run = Run(folder)
    assert [(r.cell, r.attempt, r.status) for r in run.results()[0]] == [(CELL, 1, "pass")]
    events = [entry["event"] for entry in journal(run)]
    assert events.count("submitted") == 1
    assert "lost" not in events
    assert containers(client, folder.name) == []
    assert [path.name for path in (tmp_path / "agent").iterdir()] == [".lock"]
    client.close()
