"""What a job's container is, and how a session treats it; no engine."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from docker.errors import ImageNotFound, NotFound

from orchestrator.engines import container as containers
from orchestrator.engines.container import Container, container_name, describe, limits_for
from orchestrator.engines.docker_session import DockerSession, exit_reason
from orchestrator.engines.owner import Owner
from orchestrator.errors import InfrastructureError
from orchestrator.job import Alive, Cell, Event, Job, Workload
from orchestrator.settings import Settings
from tests.engines.fake_docker import FakeApi, engine, refusal

GIB = 1 << 30
JOB_DIR = Path("/srv/checkout/.lh/runs/2026-11-20T21-04-11/jobs/pytorch@intel-cpu")
ALIVE = json.dumps({"event": "alive", "running": ["a"]}).encode() + b"\n"


def cell(name: str, memory: int = 4 * GIB) -> Cell:
    return Cell(
        id=name,
        pipeline="p",
        workload=Workload(name=name, file=f"{name}.py", sha256="0"),
        variant="f32",
        pool="intel-cpu",
        ingress="torch_mlir",
        memory_bytes=memory,
    )


def job(*memory: int, workers: int = 1) -> Job:
    cells = tuple(cell(f"c{i}", m) for i, m in enumerate(memory or (4 * GIB,)))
    return Job(
        id="pytorch@intel-cpu", stack="pytorch", pool="intel-cpu", cells=cells, workers=workers
    )


def described(**engine_changes: Any) -> Container:
    return describe(
        job(),
        JOB_DIR,
        image="sha256:1",
        workspace=Path("/work"),
        user="1000:1000",
        engine=engine(**engine_changes),
        settings=Settings(scratch_bytes=GIB),
    )


class TestIsolation:
    def test_the_engine_is_told_all_of_it(self) -> None:
        options = described().host_options()
        assert options["network_mode"] == "none"
        assert options["read_only"] is True
        assert options["cap_drop"] == ["ALL"]
        assert "cap_add" not in options
        assert options["security_opt"] == ["no-new-privileges"]
        assert options["privileged"] is False
        assert options["init"] is True
        assert options["log_config"]["Type"] == "none"
        assert options["tmpfs"] == {"/tmp": "rw,exec,nosuid,nodev,size=1073741824,mode=1777"}
        assert options["mem_limit"] == options["memswap_limit"] == 6 * GIB
        assert options["pids_limit"] == containers.MAX_PROCESSES
        assert options["nano_cpus"] == 2_000_000_000

    def test_the_job_is_mounted_read_only_and_nothing_else_is(self) -> None:
        options = described().host_options()
        (mount,) = options["mounts"]
        assert (mount["Source"], mount["Target"], mount["ReadOnly"], mount["Type"]) == (
            str(JOB_DIR),
            "/job",
            True,
            "bind",
        )
        assert "binds" not in options

    def test_under_selinux_the_job_is_relabelled_and_still_read_only(self) -> None:
        options = described(selinux=True).host_options()
        assert options["binds"] == [f"{JOB_DIR}:/job:ro,z"]
        assert "mounts" not in options

    def test_it_runs_the_image_by_id_as_the_user_without_proxies(self) -> None:
        options = described().options()
        assert options["image"] == "sha256:1"
        assert options["user"] == "1000:1000"
        assert options["network_disabled"] is True
        assert options["use_config_proxy"] is False
        assert options["command"] == ["python", "-m", "orchestrator.harness", "/job"]

    def test_caches_and_home_are_in_the_scratch_folder(self) -> None:
        environment = described().options()["environment"]
        assert environment["PYTHONPATH"] == "/job"
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
            assert environment[name].startswith("/tmp")

    def test_the_command_for_people_says_the_same(self) -> None:
        made = described()
        argv, options = made.argv(), made.host_options()
        assert argv[:2] == ("docker", "run")
        expected = {
            "--network=none",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--init",
            "--user=1000:1000",
            f"--memory={options['mem_limit']}",
            f"--memory-swap={options['memswap_limit']}",
            f"--pids-limit={options['pids_limit']}",
            "--cpus=2",
            f"--tmpfs=/tmp:{options['tmpfs']['/tmp']}",
            f"--mount=type=bind,source={JOB_DIR},target=/job,readonly",
        }
        assert expected <= set(argv)
        assert argv[-5:] == ("sha256:1", "python", "-m", "orchestrator.harness", "/job")

    def test_the_record_says_what_is_enforced(self) -> None:
        isolation = described().isolation()
        assert (isolation.contained, isolation.network) == (True, "none")
        assert (isolation.root, isolation.user) == ("read-only", "1000:1000")
        assert isolation.limits["memory_bytes"] == 6 * GIB

    def test_the_record_says_what_the_engine_cannot_enforce(self) -> None:
        made = described(memory_limit=False, pids_limit=False, cpu_limit=False)
        limits = made.isolation().limits
        assert {limits[n] for n in ("memory_bytes", "processes", "cpus")} == {"unlimited"}
        assert not {"mem_limit", "pids_limit", "nano_cpus"} & set(made.host_options())
        assert not [word for word in made.argv() if word.startswith(("--memory", "--cpus"))]


class TestLimits:
    def test_memory_is_for_the_largest_that_run_at_once(self) -> None:
        limits = limits_for(job(GIB, 5 * GIB, 3 * GIB, workers=2), engine(), 2 * GIB)
        assert limits.memory_bytes == (5 + 3 + 2 + 1) * GIB

    def test_memory_is_bounded_by_what_the_engine_has(self) -> None:
        limits = limits_for(job(40 * GIB), engine(memory_bytes=16 * GIB), GIB)
        assert limits.memory_bytes == 16 * GIB

    @pytest.mark.parametrize(("workers", "cpus"), [(1, 2), (3, 4), (9, 4)])
    def test_cpus(self, workers: int, cpus: int) -> None:
        assert limits_for(job(workers=workers), engine(cpus=4), GIB).cpus == cpus


class TestNames:
    def test_run_job_and_something_random(self) -> None:
        name = described().name
        assert re.fullmatch(r"lh-2026-11-20T21-04-11-pytorch-intel-cpu-[0-9a-f]{8}", name)
        assert described().name != name

    @pytest.mark.parametrize("text", ["ä/ö ü", "..", "x" * 300, ""])
    def test_any_text_makes_a_name_that_engines_allow(self, text: str) -> None:
        assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{1,200}", container_name(text, text))

    def test_labels_say_whose_it_is(self) -> None:
        labels = described().labels
        assert labels["lh-ci.workspace"] == "/work"
        assert labels["lh-ci.run"] == "2026-11-20T21-04-11"
        assert labels["lh-ci.job"] == "pytorch@intel-cpu"
        assert Owner.parse(labels["lh-ci.owner"]) == Owner.current()


class Clock:
    """Passes only when slept."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(api: FakeApi, clock: Clock) -> Iterator[DockerSession]:
    yield DockerSession(api.client(), described(), clock=clock, sleep=clock.sleep)
    api.output.close()


def events(session: DockerSession) -> list[Event]:
    return [event for event in session.events(0.01) if event is not None]


class TestSession:
    def test_it_attaches_before_it_starts(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            assert api.names() == ["create_container", "attach", "start"]

    def test_events_come_and_the_rest_is_kept(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            api.output.write(out=b"not an event\n" + ALIVE[:9])
            api.output.write(out=ALIVE[9:], err=b"a warning\n")
            api.output.close()
            assert events(session) == [Alive(running=("a",))]
            end = session.exit()
        assert (end.code, end.reason) == (0, "exit 0")
        assert "not an event" in end.stderr_tail
        assert "a warning" in end.stderr_tail

    def test_silence_is_told(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            assert next(session.events(0.01)) is None

    def test_it_is_removed_in_the_end(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            name = dict(api.calls)["create_container"]["name"]
        assert api.calls[-1] == ("remove_container", name)
        assert api.output.closed

    def test_it_is_removed_when_the_block_raises(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        with pytest.raises(ZeroDivisionError), session:
            raise ZeroDivisionError
        assert api.names()[-1] == "remove_container"

    @pytest.mark.parametrize("step", ["attach", "start"])
    @pytest.mark.parametrize("error", [refusal(500, "oci runtime error"), KeyboardInterrupt()])
    def test_it_is_removed_when_it_starts_only_half(
        self, api: FakeApi, session: DockerSession, step: str, error: BaseException
    ) -> None:
        api.fail[step] = error
        with pytest.raises((InfrastructureError, KeyboardInterrupt)), session:
            pytest.fail("it did start")
        assert api.names()[-1] == "remove_container"

    def test_one_that_appears_after_an_interrupted_creation_is_removed(
        self, api: FakeApi, session: DockerSession, clock: Clock
    ) -> None:
        api.fail["create_container"] = KeyboardInterrupt()
        tries = iter([NotFound("not yet"), NotFound("not yet"), None])
        api.fail["remove_container"] = lambda: next(tries)
        api._alive = True
        with pytest.raises(KeyboardInterrupt), session:
            pytest.fail("it did start")
        assert api.names().count("remove_container") == 3

    def test_ctrl_c_during_the_removal_does_not_stop_it(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        interrupts = iter([KeyboardInterrupt(), None])
        api.fail["remove_container"] = lambda: next(interrupts)
        with pytest.raises(KeyboardInterrupt), session:
            pass
        assert api.names().count("remove_container") == 2
        assert not api._alive

    def test_an_engine_that_is_gone_does_not_hide_the_real_error(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        api.fail["remove_container"] = requests.ConnectionError("gone")
        with pytest.raises(ZeroDivisionError), session:
            raise ZeroDivisionError

    def test_a_kill_ends_the_events(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            session.kill()
            session.kill()
            assert events(session) == []
            assert session.exit().reason == "killed by the orchestrator"

    def test_a_kill_that_comes_too_late_is_no_error(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        with session:
            api.fail["kill"] = refusal(409, "container c0ffee is not running")
            session.kill()

    def test_a_kill_ends_the_events_even_when_the_engine_is_gone(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        with session:
            gone = requests.ConnectionError(ConnectionRefusedError(111, "Connection refused"))
            api.fail["kill"] = gone
            session.kill()
            assert events(session) == []
            end = session.exit()
        assert end.code is None
        assert end.reason == "the engine stopped answering: Connection refused"
        assert "wait" not in api.names()

    def test_a_kill_ends_the_events_even_when_the_output_never_does(
        self, api: FakeApi, session: DockerSession, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "kill", lambda _: None)
        with session:
            session.kill()
            stream = session.events(0.01)
            assert next(stream) is None
            clock.sleep(1000)
            assert list(stream) == []

    def test_the_engine_vanishes(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            api.fail["wait"] = requests.ConnectionError("Connection aborted.")
            api.output.close()
            assert events(session) == []
            end = session.exit()
        assert end.code is None
        assert end.reason == "the engine stopped answering: Connection aborted"

    def test_the_container_vanishes(self, api: FakeApi, session: DockerSession) -> None:
        with session:
            api.fail["wait"] = NotFound("No such container")
            api.output.close()
            assert session.exit().reason == "its container was removed from outside"

    @pytest.mark.parametrize("removed", [True, False])
    def test_who_removes_a_container_kills_it_first(
        self, api: FakeApi, session: DockerSession, clock: Clock, removed: bool
    ) -> None:
        with session:
            api.state = {"ExitCode": 137, "OOMKilled": False, "Error": ""}
            api.output.close()
            gone = NotFound("No such container")
            api.fail["inspect_container"] = lambda: gone if removed and clock.now else None
            assert events(session) == []
            reason = session.exit().reason
        assert reason == (
            "its container was removed from outside" if removed else "killed from outside (SIGKILL)"
        )

    def test_the_output_ends_and_the_container_does_not(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        with session:
            api.fail["wait"] = requests.ReadTimeout()
            api.output.close()
            assert session.exit().reason == "its output ended, but its container did not"

    def test_an_image_that_was_removed_meanwhile(
        self, api: FakeApi, session: DockerSession
    ) -> None:
        api.fail["create_container"] = ImageNotFound("No such image: sha256:1")
        with pytest.raises(InfrastructureError, match=r"no longer there.*Run the command again"):
            session.__enter__()

    def test_an_engine_on_another_machine(self, api: FakeApi, session: DockerSession) -> None:
        text = 'invalid mount config for type "bind": bind source path does not exist: /work'
        api.fail["create_container"] = refusal(400, text)
        with pytest.raises(InfrastructureError, match=r"does not see .*`--engine venv`"):
            session.__enter__()

    def test_an_engine_without_nvidias_runtime(self, api: FakeApi, session: DockerSession) -> None:
        text = 'could not select device driver "" with capabilities: [[gpu]]'
        api.fail["start"] = refusal(500, text)
        with pytest.raises(InfrastructureError, match="install the NVIDIA Container Toolkit"):
            session.__enter__()

    def test_a_full_disk_of_the_engine(self, api: FakeApi, session: DockerSession) -> None:
        api.fail["start"] = refusal(500, "mkdir /var/lib/docker/x: no space left on device")
        with pytest.raises(InfrastructureError, match="the engine's disk is full"):
            session.__enter__()


@pytest.mark.parametrize(
    ("state", "killed", "reason"),
    [
        ({"ExitCode": 0}, False, "exit 0"),
        ({"ExitCode": 3}, False, "exit 3"),
        ({"ExitCode": 139}, False, "killed by SIGSEGV"),
        ({"ExitCode": 137, "OOMKilled": True}, False, "killed: out of memory (limit 8.0 GiB)"),
        ({"ExitCode": 137, "OOMKilled": True}, True, "killed by the orchestrator"),
        ({"ExitCode": 0, "OOMKilled": True}, False, "exit 0"),
        ({"ExitCode": 137}, False, "killed from outside (SIGKILL)"),
        ({"ExitCode": 143}, False, "killed from outside (SIGTERM)"),
        ({"ExitCode": 137}, True, "killed by the orchestrator"),
        ({"ExitCode": 0}, True, "exit 0"),
        ({"ExitCode": 255}, False, "exit 255"),
        ({"ExitCode": 127, "Error": "no python"}, False, "it could not run: no python"),
    ],
)
def test_how_it_ended_in_words(state: dict[str, Any], killed: bool, reason: str) -> None:
    assert exit_reason(state, killed=killed, memory_bytes=8 * GIB) == reason


class TestDevices:
    """What a container is handed for a GPU, told to the engine and to people alike."""

    def handed(
        self,
        device: Any,
        monkeypatch: pytest.MonkeyPatch,
        *,
        cdi: bool = False,
        settings: Settings | None = None,
    ) -> Container:
        monkeypatch.setattr(containers, "has_cdi", lambda: True)
        monkeypatch.setattr(containers, "_groups", lambda nodes: (44, 105) if nodes else ())
        return describe(
            dataclasses.replace(job(), device=device),
            JOB_DIR,
            image="sha256:1",
            workspace=Path("/work"),
            user="1000:1000",
            engine=engine(cdi=cdi),
            settings=settings or Settings(scratch_bytes=GIB),
        )

    def test_nvidia_by_the_container_device_interface(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container = self.handed("nvidia", monkeypatch, cdi=True)
        (request,) = container.host_options()["device_requests"]
        assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=all"])
        assert "--device=nvidia.com/gpu=all" in container.argv()

    def test_a_description_of_nvidias_devices_is_found(self, tmp_path: Path) -> None:
        assert not containers.has_cdi([str(tmp_path)])
        (tmp_path / "other.yaml").write_text("kind: vendor.example/device\n")
        assert not containers.has_cdi([str(tmp_path)])
        (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
        assert containers.has_cdi([str(tmp_path)])

    def test_a_cpu_job_gets_none(self) -> None:
        options = described().host_options()
        assert not {"devices", "device_requests", "group_add"} & set(options)

    def test_nvidia_through_its_runtime(self, monkeypatch: pytest.MonkeyPatch) -> None:
        container = self.handed("nvidia", monkeypatch)
        (request,) = container.host_options()["device_requests"]
        assert request["Count"] == -1
        assert request["Capabilities"] == [["gpu", "compute", "utility"]]
        assert any(word.startswith("--gpus=all") for word in container.argv())
        assert container.host_options()["cap_drop"] == ["ALL"]

    @pytest.mark.parametrize(
        ("vendor", "nodes"), [("amd", ["/dev/kfd", "/dev/dri"]), ("intel", ["/dev/dri"])]
    )
    def test_device_nodes_and_their_groups(
        self, vendor: str, nodes: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        container = self.handed(vendor, monkeypatch)
        options = container.host_options()
        assert options["devices"] == [f"{node}:{node}:rw" for node in nodes]
        assert options["group_add"] == ["44", "105"]
        assert {f"--device={node}" for node in nodes} <= set(container.argv())
        assert {"--group-add=44", "--group-add=105"} <= set(container.argv())

    @pytest.mark.parametrize("selinux", [False, True])
    def test_an_amd_gpu_comes_with_the_hosts_rocm(
        self, selinux: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        settings = Settings(rocm=tmp_path)
        container = self.handed("amd", monkeypatch, settings=settings)
        container = dataclasses.replace(container, relabel=selinux)
        mount = container.host_options()["mounts"][-1]
        assert (mount["Source"], mount["Target"], mount["ReadOnly"]) == (
            str(tmp_path),
            "/opt/rocm",
            True,
        )
        environment = container.options()["environment"]
        assert environment["LH_ROCM"] == "/opt/rocm"
        assert environment["LD_LIBRARY_PATH"] == "/opt/rocm/lib"
        argv = container.argv()
        assert f"--mount=type=bind,source={tmp_path},target=/opt/rocm,readonly" in argv
        assert "--env=LH_ROCM=/opt/rocm" in argv
        others = [self.handed(v, monkeypatch, settings=settings) for v in ("", "nvidia", "intel")]
        assert [each.rocm for each in others] == [None] * 3
