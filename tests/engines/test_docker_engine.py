"""The engine as a whole with a fake client: finding it, judging it, sweeping."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
from docker.errors import NotFound

from orchestrator.engines import docker_host
from orchestrator.engines.base import Environment
from orchestrator.engines.container import NOBODY, OWNER_LABEL, WORKSPACE_LABEL
from orchestrator.engines.docker import DockerEngine
from orchestrator.engines.docker_host import Host, brief, connect, engine_info, find_host
from orchestrator.engines.owner import Owner
from orchestrator.errors import InfrastructureError
from orchestrator.job import Job
from orchestrator.settings import Settings
from tests.engines.fake_docker import HOST, FakeApi, refusal

ENVIRONMENT = Environment(
    stack="pytorch", engine="docker", reference="lh/x:1", digest="sha256:1", cached=True, facts={}
)
JOB = Job(id="j", stack="pytorch", pool="intel-cpu", cells=())
Make = Callable[..., DockerEngine]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def make(api: FakeApi, tmp_path: Path) -> Make:
    def make(environ: Mapping[str, str] | None = None) -> DockerEngine:
        return DockerEngine(
            tmp_path,
            Settings(),
            environ={"DOCKER_HOST": HOST.url} if environ is None else environ,
            connect=lambda *_: api.client(),
        )

    return make


class TestFinding:
    def test_the_environment_says_where(self) -> None:
        host = find_host({"DOCKER_HOST": "tcp://10.0.0.1:2375"})
        assert (host.url, host.origin) == ("tcp://10.0.0.1:2375", "DOCKER_HOST")

    def test_the_context_says_where(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # as `docker context create` writes it
        name = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        meta = tmp_path / "contexts" / "meta" / name / "meta.json"
        meta.parent.mkdir(parents=True)
        meta.write_text(
            '{"Name": "foo", "Metadata": {},'
            ' "Endpoints": {"docker": {"Host": "unix:///x.sock", "SkipTLSVerify": false}}}'
        )
        (tmp_path / "config.json").write_text('{"currentContext": "foo"}')
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        host = find_host({})
        assert host == Host(url="unix:///x.sock", origin="Docker context foo", context="foo")

    def test_a_rootless_engine_where_there_is_no_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        monkeypatch.setattr(docker_host, "DEFAULT_SOCKET", str(tmp_path / "none.sock"))
        (tmp_path / "docker.sock").touch()
        host = find_host({"XDG_RUNTIME_DIR": str(tmp_path)})
        assert host.url == f"unix://{tmp_path}/docker.sock"

    def test_a_broken_context(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        name = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        meta = tmp_path / "contexts" / "meta" / name / "meta.json"
        meta.parent.mkdir(parents=True)
        meta.write_text("{")
        (tmp_path / "config.json").write_text('{"currentContext": "foo"}')
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        with pytest.raises(InfrastructureError, match="Docker's own configuration is broken"):
            find_host({})


class TestConnecting:
    def test_no_socket(self, tmp_path: Path) -> None:
        host = Host(url=f"unix://{tmp_path}/none.sock", origin="DOCKER_HOST is not set")
        with pytest.raises(InfrastructureError, match=r"none\.sock .*not set\).*Start Docker"):
            connect(host)

    def test_nobody_listens(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(tmp_path / "x.sock"))
            host = Host(url=f"unix://{tmp_path}/x.sock", origin="DOCKER_HOST")
            with pytest.raises(InfrastructureError, match=r"Connection refused.* daemon running"):
                connect(host)

    def test_not_for_this_user(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        with pytest.raises(InfrastructureError, match=r"may not use.*usermod -aG docker"):
            connect(Host(url=f"unix://{tmp_path}/x.sock", origin="DOCKER_HOST"))

    def test_what_is_no_address(self) -> None:
        with pytest.raises(InfrastructureError, match=r"no engine answers at nonsense://x"):
            connect(Host(url="nonsense://x", origin="DOCKER_HOST"))

    def test_the_innermost_cause_is_told(self) -> None:
        inner = ConnectionRefusedError(111, "Connection refused")
        assert brief(requests.ConnectionError("outer", inner)) == "Connection refused"


class TestProbing:
    def test_it_answers(self, make: Make) -> None:
        answer = make().probe()
        assert answer.usable
        assert answer.reason == f"Docker 20.10.24 at {HOST.url}"

    @pytest.mark.parametrize(
        ("version", "reason"),
        [
            ({"ApiVersion": "1.38", "Version": "18.06"}, "Docker 18.06 at .* too old"),
            ({"Os": "windows"}, "runs windows containers"),
        ],
    )
    def test_it_answers_and_will_not_do(
        self, make: Make, api: FakeApi, version: dict[str, str], reason: str
    ) -> None:
        api.version_ |= version
        answer = make().probe()
        assert not answer.usable
        assert re.search(reason, answer.reason)

    def test_nobody_there_is_no_exception(self, tmp_path: Path) -> None:
        engine = DockerEngine(
            tmp_path, Settings(), environ={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
        )
        answer = engine.probe()
        assert not answer.usable
        assert "none.sock (DOCKER_HOST)" in answer.reason

    def test_it_fails_while_it_is_asked(self, make: Make, api: FakeApi) -> None:
        api.fail["version"] = requests.ReadTimeout("timed out")
        answer = make().probe()
        assert not answer.usable
        assert "timed out" in answer.reason
        assert api.names()[-1] == "close"


def entry(identity: str, owner: Owner | str | None) -> dict[str, Any]:
    label = owner.dumps() if isinstance(owner, Owner) else owner
    labels = {} if label is None else {OWNER_LABEL: label}
    return {"Id": identity, "Names": [f"/lh-{identity}"], "Labels": labels}


ALIVE = Owner.current()
DEAD = replace(ALIVE, start=ALIVE.start + 1)
"""The same process number, used by an earlier process."""
ELSEWHERE = replace(DEAD, host="another-machine")


class TestSweeping:
    def test_only_what_dead_orchestrators_left_is_removed(self, make: Make, api: FakeApi) -> None:
        api.existing = [
            entry("alive", ALIVE),
            entry("dead", DEAD),
            entry("elsewhere", ELSEWHERE),
            entry("nobodys", None),
            entry("garbled", "not json"),
        ]
        assert make().sweep() == ("lh-dead",)
        assert [a for name, a in api.calls if name == "remove_container"] == ["dead"]

    def test_only_this_workspace_is_looked_at(
        self, make: Make, api: FakeApi, tmp_path: Path
    ) -> None:
        make().sweep()
        assert api.calls == [("containers", {"label": [f"{WORKSPACE_LABEL}={tmp_path.resolve()}"]})]

    @pytest.mark.parametrize("error", [NotFound("gone"), refusal(409, "removal in progress")])
    def test_one_that_cannot_be_removed_hinders_no_other(
        self, make: Make, api: FakeApi, error: Exception
    ) -> None:
        api.existing = [entry("one", DEAD), entry("two", DEAD)]
        errors = iter([error, None])
        api.fail["remove_container"] = lambda: next(errors)
        assert make().sweep() == ("lh-two",)

    def test_an_engine_that_is_gone(self, make: Make, api: FakeApi) -> None:
        api.fail["containers"] = requests.ConnectionError("Connection aborted.")
        with pytest.raises(InfrastructureError, match="the engine stopped answering"):
            make().sweep()


class TestStarting:
    @pytest.fixture
    def job_dir(self, tmp_path: Path) -> Path:
        folder = tmp_path / "runs" / "r" / "jobs" / "j"
        folder.mkdir(parents=True)
        (folder / "job.json").write_text("{}")
        (folder / "job.json").chmod(0o600)
        folder.chmod(0o700)
        return folder

    def test_nothing_is_created_before_the_block_is_entered(
        self, make: Make, api: FakeApi, job_dir: Path
    ) -> None:
        session = make().start(JOB, job_dir, ENVIRONMENT)
        assert "create_container" not in api.names()
        assert "--network=none" in session.argv
        assert session.isolation.contained

    def test_a_user_stays_that_user(
        self, make: Make, job_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(os, "getegid", lambda: 1001)
        assert make().start(JOB, job_dir, ENVIRONMENT).isolation.user == "1000:1001"
        assert stat.S_IMODE((job_dir / "job.json").stat().st_mode) == 0o600

    def test_root_becomes_nobody_who_can_read_the_job(
        self, make: Make, job_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert make().start(JOB, job_dir, ENVIRONMENT).isolation.user == NOBODY
        assert stat.S_IMODE((job_dir / "job.json").stat().st_mode) == 0o604
        assert stat.S_IMODE(job_dir.stat().st_mode) == 0o705

    def test_where_user_ids_are_remapped_everyone_becomes_nobody(
        self, make: Make, api: FakeApi, job_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        api.info_["SecurityOptions"] = ["name=seccomp,profile=default", "name=rootless"]
        assert make().start(JOB, job_dir, ENVIRONMENT).isolation.user == NOBODY


def test_what_an_engine_says_of_itself(api: FakeApi) -> None:
    api.info_ |= {"MemoryLimit": False, "SecurityOptions": ["name=selinux"]}
    info = engine_info(api.client())
    assert (info.memory_limit, info.selinux, info.remapped) == (False, True, False)
    assert (info.arch, info.cpus, info.memory_bytes) == ("x86_64", 4, 16 << 30)


def test_the_fake_client_has_what_the_real_one_has() -> None:
    for name in vars(FakeApi):
        if not name.startswith("_") and name not in {"client", "names"}:
            assert hasattr(docker.APIClient, name)
