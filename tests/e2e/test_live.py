"""A machine that is sick is found out by its health job, and a peer does its work: for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.host import detect
from tests.e2e.buildbot_site import Site, by_cell, journal

pytestmark = pytest.mark.docker
pytest.importorskip("buildbot")

CPU = {"GenuineIntel": "intel-cpu", "AuthenticAMD": "amd-cpu"}.get(detect().cpu_vendor, "arm-cpu")
CELL = f"pytorch_cpu.mlp.f32@{CPU}"
SICK, WELL = "lab-sick", "lab-well"
END_S = 300.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two registered agents; the one that is asked first has no container engine."""
    site = Site(tmp_path, {SICK: CPU, WELL: CPU}, root=tmp_path / "checkout")
    site.check_out()
    site.register()
    file = site.root / f"agents/{SICK}.yaml"
    file.write_text(file.read_text().replace("time: 1h", "time: 1h, priority: 9"))
    site.declare_orchestrator()
    site.commit("two machines")
    site.set_up()
    yield site
    site.stop()


def test_a_sick_machine_is_left_alone_and_nothing_is_red(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.start("master", WELL)
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        site.start(SICK)
    words = ("pytorch_cpu", "--cell", CELL, "--backend", "buildbot", "--engine", "docker")
    assert site.dispatch(*words).wait(END_S) == 0, (site.folder / "dispatch.log").read_text()
    run = site.run_folder()
    assert run is not None
    assert by_cell(run.results()[0]) == {CELL: [(1, "pass")]}
    assert run.latest()[CELL].agent == WELL

    assert set(site.claimed().values()) == {WELL}
    asked = {e["machine"] for e in journal(run) if e["event"] == "claimed"}
    assert asked == {SICK, WELL}
    told = json.loads(site.lh_ci("agents", "--json", LH_STATE=str(site.state)))
    standing = {each["id"]: each["standing"] for each in told}
    assert standing[WELL] == "well"
    assert standing[SICK].startswith("in quarantine since ")
    assert "nowhere/docker.sock" in standing[SICK]
    notices = (site.state / "fleet/notices.jsonl").read_text().splitlines()
    assert [json.loads(line)["subject"] for line in notices] == [f"{SICK} is in quarantine"]
