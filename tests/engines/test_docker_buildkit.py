"""Which client builds, how it is called, and what its output means."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.engines import buildkit
from orchestrator.engines.build_log import BuildLog, Failure, explain
from orchestrator.engines.buildkit import Build, Cli, build_argv, build_environment, find_cli
from orchestrator.engines.docker_host import Host
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.settings import Settings
from tests.engines.fake_docker import HOST, add_cli

NEW = "28.2.2, build e6534b4"


@pytest.fixture(autouse=True)
def _only_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buildkit, "_LAST_PLACE", Path("/nonexistent/docker"))


def path(*folders: Path) -> dict[str, str]:
    return {"PATH": ":".join(map(str, folders))}


class TestChoosing:
    def test_one_with_buildx(self, tmp_path: Path) -> None:
        program = add_cli(tmp_path, version=NEW, buildx=True)
        found = find_cli(Settings(), path(tmp_path))
        assert found == Cli(path=program, version="28.2.2", buildx=True)

    def test_an_old_one_builds_by_itself(self, tmp_path: Path) -> None:
        add_cli(tmp_path)
        found = find_cli(Settings(), path(tmp_path))
        assert (found.version, found.buildx) == ("20.10.24+dfsg1", False)

    def test_a_new_one_without_buildx_is_passed_over(self, tmp_path: Path) -> None:
        add_cli(tmp_path / "new", version=NEW)
        old = add_cli(tmp_path / "old")
        assert find_cli(Settings(), path(tmp_path / "new", tmp_path / "old")).path == old

    def test_the_last_place_is_looked_at_without_being_on_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(buildkit, "_LAST_PLACE", add_cli(tmp_path))
        assert find_cli(Settings(), {"PATH": ""}).path == tmp_path / "docker"

    def test_none_will_do_and_each_is_named(self, tmp_path: Path) -> None:
        add_cli(tmp_path / "new", version=NEW)
        (tmp_path / "podman").mkdir()
        (tmp_path / "podman" / "docker").write_text("#!/bin/bash\necho podman version 4.3.1\n")
        (tmp_path / "podman" / "docker").chmod(0o755)
        with pytest.raises(InfrastructureError) as caught:
            find_cli(Settings(), path(tmp_path / "new", tmp_path / "podman"))
        message = str(caught.value)
        assert "new/docker: version 28.2.2 without the buildx plugin" in message
        assert "podman/docker: it is not Docker's client (podman version 4.3.1)" in message
        assert "LH_DOCKER_CLI" in message

    def test_a_place_that_cannot_be_looked_at_is_passed_over(self, tmp_path: Path) -> None:
        program = add_cli(tmp_path / "good")
        assert find_cli(Settings(), path(Path("/x" * 3000), tmp_path / "good")).path == program

    def test_there_is_none_at_all(self, tmp_path: Path) -> None:
        with pytest.raises(InfrastructureError, match="there is no `docker` on PATH"):
            find_cli(Settings(), path(tmp_path))

    def test_the_one_that_is_set_is_the_only_one_looked_at(self, tmp_path: Path) -> None:
        add_cli(tmp_path / "good")
        bad = add_cli(tmp_path / "bad", version=NEW)
        with pytest.raises(InfrastructureError, match="without the buildx plugin"):
            find_cli(Settings(docker_cli=bad), path(tmp_path / "good"))


class TestCalling:
    BUILD = Build(
        tag="lh/x:1",
        context=Path("/context"),
        args={"A": "b c"},
        secrets={"ca": Path("/ca.pem")},
        fresh=True,
        extra=("--network=host",),
    )

    def test_an_old_client(self) -> None:
        cli = Cli(path=Path("/docker"), version="20.10", buildx=False)
        assert build_argv(cli, self.BUILD, HOST) == [
            *("/docker", "build", "--progress", "plain", "--tag", "lh/x:1"),
            *("--build-arg", "A=b c", "--secret", "id=ca,src=/ca.pem"),
            *("--no-cache", "--network=host", "/context"),
        ]
        assert build_environment(cli, HOST, {})["DOCKER_BUILDKIT"] == "1"

    def test_buildx_uses_the_builder_of_the_engine_itself(self) -> None:
        cli = Cli(path=Path("/docker"), version="28", buildx=True)
        argv = build_argv(cli, self.BUILD, HOST)
        assert argv[1:6] == ["buildx", "build", "--builder", "default", "--load"]
        environ = build_environment(cli, HOST, {"BUILDX_BUILDER": "remote", "DOCKER_CONTEXT": "x"})
        assert environ == {"DOCKER_HOST": HOST.url, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}

    def test_a_context_is_passed_on_by_its_name(self) -> None:
        host = Host(url="unix:///x.sock", origin="a context", context="desktop")
        cli = Cli(path=Path("/docker"), version="28", buildx=True)
        assert "desktop" in build_argv(cli, self.BUILD, host)
        environ = build_environment(cli, host, {"DOCKER_HOST": "unix:///other.sock"})
        assert environ["DOCKER_CONTEXT"] == "desktop"
        assert "DOCKER_HOST" not in environ


GOOD = """\
#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 2B done
#1 DONE 0.0s

#5 [builder 1/4] FROM docker.io/lh/llvm:1
#5 CACHED

#6 [builder 2/4] RUN --mount=type=cache,target=/root     : "pinned packages";     set -eu
#6 0.536 Processing /wheels/torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
#6 0.830   Downloading torch_mlir-20261001-cp311-cp311-manylinux_2_28_x86_64.whl (80.4 MB)
#6 1.691   Downloading packaging-26.3-py3-none-any.whl (129 kB)
#6 2.159 Installing collected packages: mpmath, torch, numpy
#6 DONE 18.9s

#7 [builder 3/4] RUN --mount=type=secret,id=ca     true
#6 [builder 2/4] RUN : "pinned packages"
#7 DONE 0.1s

#9 exporting to image
#9 exporting layers 6.0s done
#9 DONE 6.0s
"""
OLD_FAILURE = """\
#5 [llvm 2/4] RUN : "packages";     apt-get install
#5 0.7 Reading package lists...
#5 1.2 E: Version '1:22.1.99-1' for 'lld-22' was not found
#5 ERROR: executor failed running [/bin/sh -c : "packages";     apt-get install]: exit code: 100
------
 > [llvm 2/4] RUN : "packages";     apt-get install:
#5 0.7 Reading package lists...
#5 1.2 E: Version '1:22.1.99-1' for 'lld-22' was not found
------
executor failed running [/bin/sh -c : "packages";     apt-get install]: exit code: 100
"""
NEW_FAILURE = """\
#5 [llvm 2/4] RUN : "packages";     apt-get install
#5 1.234 E: Unable to locate package lld-222
#5 ERROR: process "/bin/sh -c apt-get install" did not complete successfully: exit code: 100
------
 > [llvm 2/4] RUN : "packages";     apt-get install:
1.234 E: Unable to locate package lld-222
------
Dockerfile:12
--------------------
  12 | >>> RUN apt-get install
--------------------
ERROR: failed to solve: process "/bin/sh -c apt-get install" did not complete: exit code: 100
"""


def read(text: str) -> tuple[BuildLog, list[str]]:
    lines: list[str] = []
    log = BuildLog("pytorch", lines.append)
    for line in text.splitlines():
        log.line(line)
    return log, lines


class TestLog:
    def test_people_see_steps_by_title_and_what_takes_long(self) -> None:
        assert read(GOOD)[1] == [
            "pytorch: [builder 2/4] pinned packages",
            "pytorch:   downloading torch_mlir 20261001, 80.4 MB",
            "pytorch:   installing 3 packages",
            "pytorch:   19 s",
            "pytorch: [builder 3/4] RUN true",
            "pytorch: exporting to image",
            "pytorch:   6 s",
        ]

    def test_a_failure_as_old_clients_print_it(self) -> None:
        failure = read(OLD_FAILURE)[0].failure()
        assert failure.step == "[llvm 2/4] packages"
        assert failure.error == "exit code: 100"
        assert failure.output.splitlines() == [
            "Reading package lists...",
            "E: Version '1:22.1.99-1' for 'lld-22' was not found",
        ]

    def test_a_failure_as_new_clients_print_it(self) -> None:
        failure = read(NEW_FAILURE)[0].failure()
        assert failure.step == "[llvm 2/4] packages"
        assert failure.output == "E: Unable to locate package lld-222"
        assert failure.error == "exit code: 100"

    def test_a_failure_outside_every_step(self) -> None:
        text = "#1 DONE 0.0s\nfailed to solve: dockerfile parse error on line 7: unknown: USERR\n"
        assert read(text)[0].failure() == Failure(
            step="",
            error="failed to solve: dockerfile parse error on line 7: unknown: USERR",
            output="failed to solve: dockerfile parse error on line 7: unknown: USERR",
        )


PINS = """\
llvm:
  packages:
    lld-22: 1:22.1.99-1
stacks:
  pytorch:
    packages:
      torch: 2.13.0
      sympy: 1.14.99
"""
NO_SUCH_VERSION = """\
ERROR: Could not find a version that satisfies the requirement sympy==1.14.99 \
(from versions: 1.13.3, 1.14.0)
ERROR: No matching distribution found for sympy==1.14.99"""
UNTRUSTED = """\
WARNING: Retrying after connection broken by 'SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] x')'
ERROR: No matching distribution found for sympy==1.14.99"""
SILENT = """\
WARNING: Retrying after connection broken by 'Failed to establish a new connection: [Errno -3] \
Temporary failure in name resolution': /simple/sympy/
ERROR: No matching distribution found for sympy==1.14.99"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "pins.yaml").write_text(PINS)
    return tmp_path


def failed(output: str, *, step: str = "[builder 2/4] x", error: str = "exit code: 1") -> Failure:
    return Failure(step=step, error=error, output=output)


class TestExplaining:
    @pytest.mark.parametrize(
        ("stack", "output", "message"),
        [
            (
                None,
                "E: Version '1:22.1.99-1' for 'lld-22' was not found",
                "images/pins.yaml:3:5  llvm.packages.lld-22: the distribution has no version",
            ),
            (
                None,
                "E: Unable to locate package lld-22",
                "images/pins.yaml:3:5  llvm.packages.lld-22: the distribution has no such package",
            ),
            (
                "pytorch",
                NO_SUCH_VERSION,
                "images/pins.yaml:8:7  stacks.pytorch.packages.sympy: no index has a wheel",
            ),
            (
                "pytorch",
                "torch 2.13.0 requires filelock, which is not installed.",
                "images/pins.yaml:7:7  stacks.pytorch.packages.torch: needs filelock",
            ),
            (
                "pytorch",
                "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'",
                "images/f/Dockerfile: [builder 2/4] x failed (exit code: 1):\n    Traceback",
            ),
            (
                "pytorch",
                "failed to solve: Dockerfile parse error line 7: unknown instruction: USERR",
                "images/f/Dockerfile:7:1  unknown instruction: USERR",
            ),
        ],
    )
    def test_what_people_can_put_right_in_the_repository(
        self, root: Path, stack: str | None, output: str, message: str
    ) -> None:
        error = explain(root, "f", stack, failed(output))
        assert isinstance(error, DefinitionError)
        assert message in str(error)

    @pytest.mark.parametrize(
        ("failure", "advice"),
        [
            (failed("E: You don't have enough free space in /var/cache."), "disk is full"),
            (failed("write /x: no space left on device"), "disk is full"),
            (failed(UNTRUSTED), "LH_CA_BUNDLE"),
            (failed("Certificate verification failed: not trusted."), "LH_CA_BUNDLE"),
            (failed(SILENT), "LH_PIP_ARGS"),
            (failed("Temporary failure resolving 'deb.example'"), "LH_BUILD_ARGS=--network=host"),
            (failed("", error="dial tcp: lookup x: no such host"), "LH_APT_SOURCES"),
            (failed("", error="exit code: 137"), "too little memory"),
            (failed("", error="failed to create endpoint x on network bridge"), "restarting it"),
            (failed("error during connect: Post x: EOF", step=""), "daemon still running"),
        ],
    )
    def test_what_is_the_machine_s_fault(self, root: Path, failure: Failure, advice: str) -> None:
        error = explain(root, "pytorch", "pytorch", failure)
        assert isinstance(error, InfrastructureError)
        assert advice in str(error)

    def test_the_last_lines_are_shown_and_no_more(self, root: Path) -> None:
        error = explain(root, "f", None, failed("\n".join(f"line {i}" for i in range(100))))
        shown = str(error).splitlines()
        assert shown[-1].strip() == "line 99"
        assert len(shown) == 13
