"""The guard in `tests/conftest.py` holds: without it a unit test could depend on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import docker
import pytest


def connect(address: tuple[str, int]) -> None:
    with socket.socket() as one:
        one.connect(address)


def ask_docker() -> object:
    return docker.from_env()


@pytest.mark.parametrize(
    ("reach_out", "what"),
    [
        (lambda: subprocess.run(["true"], check=False), "starts a process"),
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "starts a process"),
        (lambda: connect(("192.0.2.1", 80)), "connects to"),
        (lambda: socket.create_connection(("example.org", 443)), "looks up a host name"),
        (ask_docker, "asks for a container engine"),
    ],
)
def test_a_unit_test_that_reaches_out_fails(reach_out: Callable[[], object], what: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=what):
        reach_out()


@pytest.mark.process
def test_one_that_says_so_may_start_processes() -> None:
    done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, check=True)
    assert done.stdout == b"42\n"


def test_no_setting_of_this_machine_is_seen() -> None:
    assert not [name for name in os.environ if name.startswith(("LH_", "DOCKER_", "NOX_"))]
