"""What holds for every test: unit tests touch no network, no engine, no setting of this machine.

Tests that need an engine are marked `docker`; they are left out, aloud, where none answers. Whether
one answers is only asked when such a test was collected.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import docker
import pytest

from orchestrator.backends import gpu_lock

HERE = Path(__file__).parent
_PROCESSES = ("harness", "engines")
"""Folders whose subject is processes: their tests may start some."""
_STARTING = ("process", "browser")
"""Markers of tests that may start processes."""
_OUTSIDE = ("docker", "stack")
"""Markers of tests that may reach anything."""
_LOOPBACK = ("127.", "::1", "localhost")
_LEFT_OUT = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--docker`."""
    parser.addoption(
        "--docker",
        choices=["auto", "yes", "no"],
        default="auto",
        help="tests that need a container engine: where one answers (auto), in any case, or not",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker that only this file knows."""
    config.addinivalue_line("markers", "process: starts processes of this machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what needs an engine where there is none."""
    needing = [item for item in items if item.get_closest_marker("docker")]
    mode = config.getoption("--docker")
    if not needing or mode == "yes":
        return
    reason = "--docker=no" if mode == "no" else _why_no_engine()
    if reason:
        items[:] = [item for item in items if item not in needing]
        config.hook.pytest_deselected(items=needing)
        config.stash[_LEFT_OUT] = f"{len(needing)} tests that need a container engine: {reason}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says what was left out, and why."""
    if text := config.stash.get(_LEFT_OUT, ""):
        terminalreporter.write_line(f"left out: {text}", yellow=True)


def _why_no_engine() -> str:
    """Empty when one answers."""
    from orchestrator.engines.docker import DockerEngine
    from orchestrator.settings import Settings

    answer = DockerEngine(HERE.parent, Settings.from_environment(os.environ)).probe()
    return "" if answer.usable else answer.reason


@pytest.fixture(autouse=True)
def _sealed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a unit test that reaches outside fail, whatever the code under test catches."""
    if any(request.node.get_closest_marker(marker) for marker in _OUTSIDE):
        return
    for name in [n for n in os.environ if n.startswith(("LH_", "DOCKER_", "NOX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(socket.socket, "connect", _checked(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _checked(socket.socket.connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", _refuse("looks up a host name"))
    monkeypatch.setattr(docker, "from_env", _refuse("asks for a container engine"))
    # nobody's GPU is locked for a test
    monkeypatch.setattr(gpu_lock, "usual_folder", lambda: request.getfixturevalue("tmp_path"))
    folder = request.path.relative_to(HERE).parts[0]
    starts = any(request.node.get_closest_marker(marker) for marker in _STARTING)
    if folder not in _PROCESSES and not starts:
        monkeypatch.setattr(subprocess.Popen, "__init__", _refuse("starts a process"))
        monkeypatch.setattr(os, "posix_spawn", _refuse("starts a process"))


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        # no Exception: code that handles errors must not handle this one
        pytest.fail(f"a unit test {what}: {args[1:] or args}")

    return refuse


def _checked(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(self: socket.socket, address: Any) -> Any:
        own = isinstance(address, str) and not address.endswith("docker.sock")
        own = own or (isinstance(address, tuple) and str(address[0]).startswith(_LOOPBACK))
        if not own:
            pytest.fail(f"a unit test connects to {address!r}")
        return original(self, address)

    return connect
