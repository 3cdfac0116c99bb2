"""What an agent's machine is given: units, and what backends' agents say of themselves."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.backends.buildkite.steps import pipeline
from orchestrator.backends.github.matrix import chunks
from orchestrator.fleet import units
from orchestrator.settings import SETTINGS
from tests.backends.test_placing import CPU, GPU, agent, fleet, placed, planned

TEAM = (agent("a"), agent("b", terms={"pipelines": ["q*"]}))
"""Both serve both pools; one of them takes some pipelines only."""
CELLS = [planned(1), planned(2, pool=GPU), planned(3, pipeline="q"), planned(4, GPU, pipeline="q")]


def seat(at: Path, **changes: object) -> units.Seat:
    """Of an agent with two pools of CPUs, whose programs are there."""
    programs = at / "bin of it"
    programs.mkdir(parents=True, exist_ok=True)
    for name in ("buildbot-worker", "buildkite-agent"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    plain = units.Seat(
        agent="lab-a",
        pools=(CPU, "cross-nvidia"),
        user="lighthouse",
        home=Path("/home/lighthouse"),
        root=Path("/srv/light house"),
        state=Path("/srv/state"),
        folder=at,
        programs=programs,
        jobs=3,
        disk_bytes=40 << 30,
        contained=True,
        device=False,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def every(at: units.Seat) -> dict[str, str]:
    """All files of all backends."""
    runner = at.folder / units.RUNNER / "run.sh"
    runner.parent.mkdir(exist_ok=True)
    runner.write_text("#!/bin/sh\n")
    runner.chmod(0o755)
    return {
        **units.buildbot_files(at),
        **units.buildkite_files(at, at.programs / "buildkite-agent"),
        **units.github_files(at, "owner/name"),
    }


class TestTargets:
    """An agent is found by what steps and matrices ask for, and no other is."""

    def test_every_step_of_a_pipeline_finds_an_agent(self) -> None:
        jobs = placed(CELLS, fleet(*TEAM))
        steps = pipeline(jobs)["steps"][:-1]
        assert len(steps) == 4
        for step, job in zip(steps, jobs, strict=True):
            wanted = {f"{name}={value}" for name, value in step["agents"].items()}
            fits = {
                each.id
                for each in TEAM
                for pool in each.pools
                if wanted <= set(units.buildkite_tags(each.id, pool))
            }
            assert fits == ({job.agent} if job.agent else {"lab-a", "lab-b"})

    def test_every_entry_of_a_matrix_finds_a_runner(self) -> None:
        jobs = placed(CELLS, fleet(*TEAM))
        entries = chunks(jobs)["chunk"][0]["include"]
        assert len(entries) == 4
        for entry, job in zip(entries, jobs, strict=True):
            fits = {
                each.id
                for each in TEAM
                if set(entry["runner"])
                <= {"self-hosted", *units.github_labels(each.id, each.pools)}
            }
            assert fits == ({job.agent} if job.agent else {"lab-a", "lab-b"})

    def test_an_agent_of_another_pool_is_not_found(self, tmp_path: Path) -> None:
        (job,) = placed([planned(1)], fleet(agent("a")))
        (step,) = pipeline([job])["steps"][:-1]
        wanted = {f"{name}={value}" for name, value in step["agents"].items()}
        assert not wanted <= set(units.buildkite_tags("lab-a", GPU))
        files = units.buildkite_files(seat(tmp_path), Path("/usr/bin/buildkite-agent"))
        tags = f'tags="{",".join(units.buildkite_tags("lab-a", CPU))}"'
        assert tags in files[f"buildkite-agent-{CPU}.cfg"].splitlines()
        assert tags not in files["buildkite-agent-cross-nvidia.cfg"]


class TestUnits:
    """Services."""

    @pytest.mark.process
    def test_systemd_takes_them_without_a_word(self, tmp_path: Path) -> None:
        if shutil.which("systemd-analyze") is None:
            pytest.skip("there is no systemd-analyze")
        here = tmp_path / "with a space"
        for at in (seat(here), seat(here, device=True, contained=False, user="root")):
            names = []
            for name, text in every(at).items():
                (here / name).write_text(text)
                names += [str(here / name)] if name.endswith(".service") else []
            assert len(names) == 4
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", *names],
                capture_output=True,
                text=True,
                check=False,
            )
            ours = [line for line in done.stderr.splitlines() if "lighthouse" in line]
            assert (done.returncode, ours) == (0, [])

    def test_a_worker_knows_who_and_where_it_is(self, tmp_path: Path) -> None:
        lines = units.buildbot_files(seat(tmp_path))[units.WORKER_UNIT].splitlines()
        said = [line for line in lines if line.startswith("Environment=")]
        assert said == [
            'Environment="LH_AGENT=lab-a"',
            'Environment="LH_ROOT=/srv/light house"',
            'Environment="LH_STATE=/srv/state"',
        ]
        assert {"User=lighthouse", "NoNewPrivileges=yes", "Restart=on-failure"} <= set(lines)
        assert f"LimitFSIZE={40 << 30}" in lines

    def test_services_that_check_out_each_job_are_not_told_of_a_checkout(
        self, tmp_path: Path
    ) -> None:
        files = every(seat(tmp_path))
        for name in (units.RUNNER_UNIT, units.buildkite_unit(CPU)):
            assert "LH_AGENT=lab-a" in files[name]
            assert "LH_ROOT" not in files[name]

    def test_what_depends_on_the_machine(self, tmp_path: Path) -> None:
        def unit(**changes: object) -> set[str]:
            return set(
                units.buildbot_files(seat(tmp_path, **changes))[units.WORKER_UNIT].split("\n")
            )

        srv = {"folder": Path("/srv/agent"), "programs": Path("/srv/bin")}
        plain = unit(**srv)
        assert {"PrivateDevices=yes", "ProtectKernelLogs=yes", "PrivateTmp=yes"} <= plain
        assert {"CapabilityBoundingSet=", f"MemoryMax={12 << 30}"} <= plain
        # the GPU is looked at from here
        assert not {"PrivateDevices=yes", "ProtectKernelLogs=yes"} & unit(device=True, **srv)
        # and locked for the whole machine, in a folder that must not be the service's own
        told = unit(device=True, locks=Path("/srv/locks"), **srv)
        assert "PrivateTmp=yes" not in told
        (writable,) = [line for line in told if line.startswith("ReadWritePaths=")]
        assert writable.endswith('"/tmp" "/var/tmp" "-/srv/locks"')
        # cells take the memory, not what carries them out
        assert not any(line.startswith("MemoryMax") for line in unit(contained=False, **srv))
        assert "CapabilityBoundingSet=" not in unit(user="root", **srv)
        # mounts of containers are looked up in the machine's /tmp, and what is there is seen
        for place in ("folder", "state", "root", "programs"):
            assert "PrivateTmp=yes" not in unit(**{**srv, place: Path("/tmp/agent")})

    def test_one_gpu_is_for_one_job(self, tmp_path: Path) -> None:
        for device, spawn in ((False, 3), (True, 1)):
            files = units.buildkite_files(seat(tmp_path, device=device), Path("/bin/x"))
            assert f"spawn={spawn}" in files[f"buildkite-agent-{CPU}.cfg"].splitlines()


class TestSettings:
    """What a health job ran with, the service has too."""

    def test_what_is_the_machines_and_not_the_dispatchers(self) -> None:
        text = units.settings(
            {
                "https_proxy": 'http://a:b"$c@proxy',
                "LH_PIP_ARGS": "--index-url https://mirror.example",
                "LH_STATE": "/x",
                "LH_AGENT": "lab-a",
                "LH_GITHUB_TOKEN": "secret",
                "LH_BUILDBOT_PASSWORD": "/secret",
                "DOCKER_HOST": "unix:///run/docker.sock",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "NO_PROXY": "a\nb",
            }
        )
        assert text.splitlines()[1:] == [
            'DOCKER_HOST="unix:///run/docker.sock"',
            'LH_PIP_ARGS="--index-url https://mirror.example"',
            'https_proxy="http://a:b\\"\\$c@proxy"',
        ]

    def test_every_setting_of_ours_is_decided_on(self) -> None:
        every = [setting.variable for setting in SETTINGS]
        given = units.settings(dict.fromkeys(every, "1"))
        left = {name for name in every if f"{name}=" not in given}
        dispatchers = (
            "LH_BUILDBOT_",
            "LH_GITHUB_",
            "LH_BUILDKITE_",
            "LH_ORCHESTRATOR_",
            "LH_STORE",
        )
        assert {name for name in left if not name.startswith(dispatchers)} == {
            *("LH_AGENT", "LH_ROOT", "LH_STATE")
        }

    @pytest.mark.parametrize("bad", ['/a"b', "/a'b", "/a%b", "/a$b", "/a\\b", "/a\nb", "/a`b"])
    def test_paths_that_no_unit_can_name(self, bad: str) -> None:
        assert not units.can_name(Path(bad))
        assert units.can_name(Path("/srv/light house/ü_1.x"))
