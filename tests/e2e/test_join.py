"""A vendor's machine joins: it registers, connects as its unit says, and runs its first cell."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.fleet.agents import load_fleet
from orchestrator.host import detect
from tests.e2e.buildbot_site import Site, git, until

pytestmark = pytest.mark.docker
pytest.importorskip("buildbot")

CPU = {"GenuineIntel": "intel-cpu", "AuthenticAMD": "amd-cpu"}.get(detect().cpu_vendor, "arm-cpu")
CELL = f"pytorch_cpu.mlp.f32@{CPU}"
END_S = 300.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An operator's site without a worker, from a clone of this checkout as it is now."""
    site = Site(tmp_path, {}, root=tmp_path / "operator")
    site.check_out()
    site.install()
    yield site
    site.stop()


def start_service(site: Site, agent: str, unit: Path) -> None:
    """Starts a worker as systemd would: by the unit's command, in its folder, as it is told."""
    lines = [line.partition("=") for line in unit.read_text().splitlines()]
    told = [shlex.split(value)[0] for key, _, value in lines if key == "Environment"]
    (command,) = [value for key, _, value in lines if key == "ExecStart"]
    environ = site.environ(**dict(each.split("=", 1) for each in told))
    environ["PATH"] = "/usr/bin:/bin"  # `lh-ci` is found all the same
    with (site.folder / f"{agent}.out").open("ab") as log:
        site.running[agent] = subprocess.Popen(
            shlex.split(command), cwd=unit.parent, env=environ, stdout=log, stderr=log
        )
    until(lambda: site.connected() == {agent}, "the agent to connect")


def test_a_vendors_machine_joins(site: Site) -> None:
    site.declare_orchestrator()
    site.commit("the orchestrator's key")
    vendor = site.folder / "vendor"
    git(site.folder, "clone", "-q", str(site.root), str(vendor))

    offer = (
        *("--pool", CPU, "--backend", "buildbot", "--owner", "us", "--contact", "us@b.example"),
        *("--vendor", "lab", "--name", "one"),
    )
    told = json.loads(site.lh_ci("register", *offer, "--json", root=vendor))
    agent = told["agent"]
    assert (agent, told["file"]) == ("lab-one", str(vendor / "agents/lab-one.yaml"))
    assert told["health"]["verdict"] == "healthy"
    folder = vendor / ".lh/agents/lab-one"
    assert told["folder"] == str(folder)
    assert any("buildbot worker --name lab-one" in step for step in told["next"])

    shutil.copy(vendor / "agents/lab-one.yaml", site.root / "agents")  # the pull request
    site.commit("lab-one")
    site.set_up()
    site.start("master")
    password = site.folder / "master/secrets/lab-one.password"
    where = ("--master", f"127.0.0.1:{site.ports[2]}", "--password-file", str(password))
    site.lh_ci("buildbot", "worker", "--name", agent, *where, root=vendor)
    start_service(site, agent, folder / "lighthouse-worker.service")

    # a key that is not merged yet is in nobody's way: everything is signed with both
    site.lh_ci("keys", "rotate", agent, root=vendor)
    words = ("pytorch_cpu", "--cell", CELL, "--backend", "buildbot")
    with site.dispatch(*words) as process:
        try:
            assert process.wait(END_S) == 0, (site.folder / "dispatch.log").read_text()
        finally:
            process.kill()
    run = site.run_folder()
    assert run is not None
    ((result,), problems) = run.results()
    assert problems == ()
    assert (result.cell, result.status, result.agent) == (CELL, "pass", agent)
    assert result.isolation is not None
    assert result.isolation.contained
    assert set(site.claimed().values()) == {agent}
    # nobody but the agent could have signed for it, and unsigned results are nobody's
    assert result.agent == agent
    assert not run.plan().options.unsigned

    (key,) = load_fleet(site.root).agents[agent].keys
    assert told["keys"] == [key.key]
    assert secrets_are_where_they_belong(site, vendor) == 2

    site.stop()
    gone = json.loads(site.lh_ci("unregister", agent, "--yes", "--json", root=vendor))
    assert str(folder) in gone["removed"]
    assert not folder.exists()
    assert json.loads(site.lh_ci("agents", "--json", root=vendor)) == []


def secrets_are_where_they_belong(site: Site, vendor: Path) -> int:
    """Of the vendor's keys and password: in no file but their own. How many keys there are."""
    private = sorted((vendor / ".lh/keys/lab-one").iterdir())
    secrets = {path.read_text().splitlines()[1] for path in private}
    secrets.add((site.folder / "master/secrets/lab-one.password").read_text().strip())
    found = [path for path in site.folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    holding = {path.name for path in found if secrets & set(_words(path))}
    assert holding == {"password", "lab-one.password", *(path.name for path in private)}
    return len(private)


def _words(path: Path) -> list[str]:
    return re.findall(r"[A-Za-z0-9+/=_-]{20,}", path.read_bytes().decode("latin-1"))
