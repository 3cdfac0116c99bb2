"""The depot: parcels for whom has the password, and nothing else for anybody."""

from __future__ import annotations

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("buildbot")

from orchestrator.backends.buildbot import depot
from orchestrator.backends.buildbot.fleet import DISPATCHER, make_fleet, parse_worker, passwords
from orchestrator.backends.buildbot.folders import write_master
from tests.backends.buildbot.test_fleet import POOLS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_master(tmp_path, make_fleet(POOLS, [parse_worker("a=intel-cpu")]))
    return tmp_path


class Request:
    """As much of Twisted's as the depot uses."""

    def __init__(self, method: str, path: str, login: str | None, data: bytes, sha256: str) -> None:
        """What is asked."""
        self.method = method.encode()
        self.postpath = [part.encode() for part in path.split("/")]
        self.content = io.BytesIO(data)
        self.code = 200
        self._headers = {depot.DIGEST_HEADER: sha256}
        if login is not None:
            encoded = base64.b64encode(login.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"

    def getHeader(self, name: str) -> str | None:  # noqa: N802
        return self._headers.get(name)

    def setHeader(self, name: str, value: str) -> None:  # noqa: N802
        """Nobody looks."""

    def setResponseCode(self, code: int) -> None:  # noqa: N802
        self.code = code


def ask(
    folder: Path,
    method: str,
    path: str,
    data: bytes = b"",
    *,
    login: str | None = "",
    sha: str = "",
) -> tuple[int, bytes]:
    """Code and body; by default with the right password and digest."""
    if login == "":
        login = f"{DISPATCHER}:{passwords(folder, [DISPATCHER])[DISPATCHER]}"
    request = Request(method, path, login, data, sha or hashlib.sha256(data).hexdigest())
    body: Any = depot.Root(folder).render(request)
    return request.code, body


@pytest.mark.parametrize("login", [None, "dispatcher:wrong", "a:dispatcher", "dispatcher"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "fleet"), ("PUT", "jobs/a.tar.gz"), ("GET", "results/a/1.tar.gz"), ("PUT", "x")],
)
def test_nothing_without_the_password(
    folder: Path, login: str | None, method: str, path: str
) -> None:
    assert ask(folder, method, path, login=login)[0] == 401
    assert not (folder / "depot").exists()


def test_a_workers_password_opens_nothing(folder: Path) -> None:
    login = f"a:{passwords(folder, ['a'])['a']}"
    assert ask(folder, "GET", "fleet", login=login)[0] == 401


def test_a_job_is_taken_once_and_the_same_again_is_fine(folder: Path) -> None:
    assert ask(folder, "PUT", "jobs/a.tar.gz", b"job")[0] == 201
    assert ask(folder, "PUT", "jobs/a.tar.gz", b"job")[0] == 201
    assert ask(folder, "PUT", "jobs/a.tar.gz", b"other")[0] == 409
    assert (folder / "depot/jobs/a.tar.gz").read_bytes() == b"job"


def test_a_job_that_arrives_damaged_is_refused(folder: Path) -> None:
    assert ask(folder, "PUT", "jobs/a.tar.gz", b"job", sha="0" * 64)[0] == 400
    assert not (folder / "depot").exists()


@pytest.mark.parametrize(
    "path",
    [
        "jobs/../fleet.json",
        "jobs/..%2Fa.tar.gz",
        "jobs/a/b.tar.gz",
        "jobs/.a.tar.gz",
        "jobs/a.json",
        "jobs/",
        "secrets/dispatcher.password",
    ],
)
def test_a_job_goes_nowhere_else(folder: Path, path: str) -> None:
    before = sorted(folder.rglob("*"))
    assert ask(folder, "PUT", path, b"job")[0] in (404, 413)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "path",
    ["results/../../secrets/a.password", "secrets/a.password", "results/x/1.tar.gz", "jobs/a"],
)
def test_nothing_but_results_is_given(folder: Path, path: str) -> None:
    assert ask(folder, "GET", path)[0] == 404


def test_what_is_over_is_removed(folder: Path) -> None:
    ask(folder, "PUT", "jobs/a.tar.gz", b"job")
    results = folder / "depot" / "results"
    for name in ("a", "ab"):
        (results / name).mkdir(parents=True)
        (results / name / "1.tar.gz").touch()
    assert ask(folder, "DELETE", "jobs/a.tar.gz")[0] == 200
    assert ask(folder, "DELETE", "jobs/a.tar.gz")[0] == 200
    assert [path.name for path in results.iterdir()] == ["ab"]
    assert not (folder / "depot/jobs/a.tar.gz").exists()
