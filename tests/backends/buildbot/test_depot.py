"""The depot: parcels for whom has the password, and nothing else for anybody."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("buildbot")

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

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


class TestOverTheWire:
    """What Twisted makes of bytes as they come in."""

    @pytest.fixture
    def send(self, folder: Path) -> Iterator[Callable[..., tuple[Any, list[int | None]]]]:
        """Sends a request in parts; gives the transport, and what room was made for bodies."""
        from twisted.internet.task import Clock
        from twisted.internet.testing import StringTransport
        from twisted.web import http

        rooms: list[int | None] = []
        channels = []

        def make_room(length: int | None) -> io.BytesIO:
            rooms.append(length)
            return io.BytesIO()

        def send(*parts: bytes) -> tuple[StringTransport, list[int | None]]:
            site = depot.make_site(depot.Root(folder))
            site.reactor = Clock()
            channel = site.buildProtocol(None)
            transport = StringTransport()
            channel.makeConnection(transport)
            channels.append(channel)
            for part in parts:
                channel.dataReceived(part)
            return transport, rooms

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http, "_getContentFile", make_room)
            yield send
        for channel in channels:
            channel.connectionLost(Failure(ConnectionDone()))

    def head(self, folder: Path, length: str, password: str = "") -> bytes:
        password = password or passwords(folder, [DISPATCHER])[DISPATCHER]
        login = base64.b64encode(f"{DISPATCHER}:{password}".encode()).decode()
        digest = hashlib.sha256(b"job").hexdigest()
        lines = ["PUT /jobs/a.tar.gz HTTP/1.1", "Host: x", f"Authorization: Basic {login}"]
        lines += [f"{depot.DIGEST_HEADER}: {digest}", length]
        return "\r\n".join([*lines, "", ""]).encode()

    @pytest.mark.parametrize("length", [f"Content-Length: {1 << 40}", "Transfer-Encoding: chunked"])
    def test_nothing_is_kept_of_what_strangers_send(
        self, folder: Path, send: Callable[..., tuple[Any, list[int | None]]], length: str
    ) -> None:
        block = b"\0" * (16 << 10)
        chunk = b"%x\r\n%b\r\n" % (len(block), block) if "chunked" in length else block
        transport, rooms = send(self.head(folder, length, "wrong"), *[chunk] * 8)
        assert transport.value().startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        assert transport.value().count(b"HTTP/1.1") == 1
        assert transport.disconnecting
        assert rooms == [0]
        assert not (folder / "depot").exists()

    def test_a_little_is_read_so_that_the_answer_is(
        self, folder: Path, send: Callable[..., tuple[Any, list[int | None]]]
    ) -> None:
        transport, rooms = send(self.head(folder, "Content-Length: 3", "wrong"), b"job")
        assert transport.value().startswith(b"HTTP/1.1 401 Unauthorized\r\n")
        assert (rooms, transport.disconnecting) == ([0], False)

    def test_no_more_than_a_job_is_kept(
        self,
        folder: Path,
        send: Callable[..., tuple[Any, list[int | None]]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(depot, "MAX_JOB_BYTES", 100)
        head = self.head(folder, "Transfer-Encoding: chunked")
        transport, rooms = send(head, *[b"5000\r\n" + b"\0" * 0x5000 + b"\r\n"] * 5)
        assert transport.value().startswith(b"HTTP/1.1 413 ")
        assert (rooms, transport.disconnecting) == ([None], True)
        transport, rooms = send(self.head(folder, f"Content-Length: {1 << 40}"), b"\0" * (1 << 17))
        assert transport.value().startswith(b"HTTP/1.1 413 ")
        assert rooms == [None, 0]

    def test_the_dispatcher_is_heard(
        self, folder: Path, send: Callable[..., tuple[Any, list[int | None]]]
    ) -> None:
        transport, _ = send(self.head(folder, "Content-Length: 3"), b"j", b"ob")
        assert transport.value().startswith(b"HTTP/1.1 201 Created\r\n")
        assert (folder / "depot/jobs/a.tar.gz").read_bytes() == b"job"


def test_every_submission_of_a_job_is_removed_with_it(folder: Path) -> None:
    for name in ("a", "a+1", "a+2", "ab", "b+1"):
        assert ask(folder, "PUT", f"jobs/{name}.tar.gz", name.encode())[0] == 201
    assert ask(folder, "DELETE", "jobs/a.tar.gz")[0] == 200
    left = sorted(path.name for path in (folder / "depot/jobs").iterdir())
    assert left == ["ab.tar.gz", "b+1.tar.gz"]
