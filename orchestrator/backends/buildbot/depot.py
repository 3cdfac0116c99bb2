"""Where dispatcher and master exchange parcels: a small web server inside the master.

Buildbot's REST API carries no files. This carries jobs to the master and results from it, to whom
has the dispatcher's password alone; workers use Buildbot's own transfer steps.

    GET    /fleet                         pools and workers
    PUT    /jobs/<job>[+<n>].tar.gz       a job, each submission with warrants of its own; the same
                                          file again is fine, another is refused
    GET    /results/<job>/<build>.tar.gz  what a build of it brought back
    DELETE /jobs/<job>.tar.gz             the job is over: it and its results are removed

Who has no password is known by the headers: nothing of what else they send is kept anywhere.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import hmac
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from buildbot.util.service import BuildbotService
from twisted.application import strports
from twisted.internet import defer
from twisted.web import http, resource, server, static

from orchestrator.backends.buildbot.fleet import DISPATCHER, FLEET_FILE, passwords
from orchestrator.backends.parcel import SUFFIX
from orchestrator.job import is_plain_path
from orchestrator.results.files import write_atomically

JOBS = "depot/jobs"
RESULTS = "depot/results"
"""Below the master's folder."""
MAX_JOB_BYTES = 256 << 20
DIGEST_HEADER = "X-Sha256"
_PATIENCE = 64 << 10
"""Bytes of a refused body that are let pass, so that whoever sends it reads the answer."""
_NO_PASSWORD = (401, "the dispatcher's password is needed")
_TOO_LARGE = (413, f"a job is at most {MAX_JOB_BYTES:,} bytes")


class Depot(BuildbotService):
    """The server, as a service of the master that starts and stops with it."""

    name = "depot"

    def __init__(self, **kwargs: Any) -> None:
        """`folder`: the master's. `port`: as Twisted writes endpoints."""
        super().__init__(**kwargs)
        self._port: Any = None

    @defer.inlineCallbacks
    def reconfigService(self, folder: str, port: str) -> Any:  # noqa: N802  Buildbot's name
        """Opens the port, again if the configuration changed."""
        yield super().reconfigService()
        if self._port is not None:
            yield self._port.disownServiceParent()
        site = make_site(Root(Path(folder)))
        self._port = strports.service(port, site)
        yield self._port.setServiceParent(self)


def make_site(root: Root) -> server.Site:
    """The server of all paths."""
    site = server.Site(root)
    site.requestFactory = functools.partial(_Request, root.allowed)
    return site


class _Request(server.Request):
    """Keeps nothing of a body that is refused, and hangs up when there is much of it."""

    def __init__(self, allowed: Callable[[str], bool], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._allowed = allowed
        self._refusal: tuple[int, str] | None = None
        self._came = 0

    def gotLength(self, length: int | None) -> None:  # noqa: N802  Twisted's name
        """All headers are here, and the body is not."""
        if not self._allowed(self.getHeader("Authorization") or ""):
            self._refusal = _NO_PASSWORD
        elif length is not None and length > MAX_JOB_BYTES:
            self._refusal = _TOO_LARGE
        super().gotLength(0 if self._refusal else length)

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802  Twisted's name
        """A part of the body."""
        self._came += len(data)
        if self._came > MAX_JOB_BYTES:
            self._refusal = self._refusal or _TOO_LARGE
        if self._refusal is None:
            super().handleContentChunk(data)
        elif self._came > _PATIENCE and not self.channel.transport.disconnecting:
            code, text = self._refusal
            head = f"HTTP/1.1 {code} {http.RESPONSES[code].decode()}\r\nConnection: close\r\n"
            body = f"Content-Length: {len(text) + 1}\r\n\r\n{text}\n"
            self.channel.transport.write((head + body).encode())
            self.channel.loseConnection()


class Root(resource.Resource):
    """All paths; nothing is answered without the password."""

    isLeaf = True  # noqa: N815  Twisted's name

    def __init__(self, folder: Path) -> None:
        """`folder`: the master's."""
        super().__init__()
        self._folder = folder
        password = passwords(folder, [DISPATCHER])[DISPATCHER]
        self._login = f"{DISPATCHER}:{password}".encode()

    def render(self, request: Any) -> Any:
        """Twisted's entry for every method."""
        if not self.allowed(request.getHeader("Authorization") or ""):
            request.setHeader("WWW-Authenticate", 'Basic realm="depot"')
            return _say(request, *_NO_PASSWORD)
        path = "/".join(part.decode("utf-8", "replace") for part in request.postpath)
        handlers: dict[tuple[bytes, str], Callable[[Any, str], Any]] = {
            (b"GET", "fleet"): self._fleet,
            (b"PUT", "jobs"): self._put,
            (b"GET", "results"): self._get,
            (b"DELETE", "jobs"): self._delete,
        }
        head, _, name = path.partition("/")
        handler = handlers.get((request.method, head))
        fits = (head == "fleet" and not name) or (is_plain_path(name) and name.endswith(SUFFIX))
        if handler is None or not fits:
            return _say(request, 404, "there is no such thing")
        return handler(request, name)

    def allowed(self, header: str) -> bool:
        """Whether a request with this `Authorization` is the dispatcher's."""
        kind, _, value = header.partition(" ")
        try:
            given = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return False
        return kind == "Basic" and hmac.compare_digest(given, self._login)

    def _fleet(self, request: Any, name: str) -> Any:  # noqa: ARG002
        return _file(request, self._folder / FLEET_FILE)

    def _put(self, request: Any, name: str) -> Any:
        data = request.content.read(MAX_JOB_BYTES + 1)
        if len(data) > MAX_JOB_BYTES or "/" in name:
            return _say(request, *_TOO_LARGE)
        if hashlib.sha256(data).hexdigest() != request.getHeader(DIGEST_HEADER):
            return _say(request, 400, "the job arrived damaged")
        path = self._folder / JOBS / name
        if path.exists() and path.read_bytes() != data:
            return _say(request, 409, "there is another job of that name")
        write_atomically(path, data)
        return _say(request, 201, "taken")

    def _get(self, request: Any, name: str) -> Any:
        return _file(request, self._folder / RESULTS / name)

    def _delete(self, request: Any, name: str) -> Any:
        job = name.removesuffix(SUFFIX)
        for path in (self._folder / JOBS).glob(f"*{SUFFIX}"):
            if path.name.removesuffix(SUFFIX).partition("+")[0] == job:
                path.unlink(missing_ok=True)
        shutil.rmtree(self._folder / RESULTS / job, ignore_errors=True)
        return _say(request, 200, "gone")


def _file(request: Any, path: Path) -> Any:
    if not path.is_file():
        return _say(request, 404, "there is no such thing")
    file = static.File(str(path))
    # the file itself, not what is packed in it
    file.type, file.encoding = "application/octet-stream", None
    return file.render_GET(request)


def _say(request: Any, code: int, text: str) -> bytes:
    request.setResponseCode(code)
    request.setHeader("Content-Type", "text/plain; charset=utf-8")
    return f"{text}\n".encode()
