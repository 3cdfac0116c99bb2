"""A local web server that answers as a master once did, with faults in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

RECORDED = Path(__file__).with_name("recorded.json")
Fault = Literal["502", "503 later", "cut short", "no json", "hangs up", "silent"]


@dataclass
class Exchange:
    """One answer, and what was asked."""

    method: str
    path: str
    status: int
    body: Any
    sent: Any = None
    used: bool = False

    def data(self) -> bytes:
        """The body's bytes."""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()


def recorded() -> list[Exchange]:
    """A conversation with Buildbot 4.3: a job, a worker that was killed, its peer, a cancellation.

    Bodies of parcels are replaced by `(parcel)`.
    """
    return [
        Exchange(e["method"], e["path"], e["status"], e["body"], e["sent"])
        for e in json.loads(RECORDED.read_text())
    ]


@dataclass
class Script:
    """What is answered: for each question the next recorded answer, the last one for ever."""

    exchanges: list[Exchange]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """What goes wrong first: `METHOD path` up to the query, to faults in order."""
    asked: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, path: str) -> Exchange:
        """The next answer to a question."""
        fitting = [e for e in self.exchanges if (e.method, e.path) == (method, path)]
        found = next((e for e in fitting if not e.used), fitting[-1] if fitting else None)
        if found is None:
            return Exchange(method, path, 404, {"error": "nobody asked this when it was recorded"})
        found.used = True
        return found


class _Handler(BaseHTTPRequestHandler):
    script: Script
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        script, plain = self.script, self.path.partition("?")[0]
        script.asked.append(f"{self.command} {self.path}")
        script.sent.append(json.loads(data) if data.startswith(b"{") else data)
        faults = script.faults.get(f"{self.command} {plain}")
        if faults:
            self._fail(faults.pop(0))
            return
        exchange = script.answer(self.command, self.path)
        body = exchange.data().replace(b"http://127.0.0.1:8011/", self._own().encode())
        self._reply(exchange.status, body, len(body))

    def _own(self) -> str:
        return f"http://127.0.0.1:{self.connection.getsockname()[1]}/"

    def _fail(self, fault: Fault) -> None:
        match fault:
            case "502":
                self._reply(502, b"<html>bad gateway</html>", 24)
            case "503 later":
                self._reply(503, b"", 0, retry="7")
            case "cut short":
                self._reply(200, b'{"buil', 600)
                self.close_connection = True
            case "no json":
                self._reply(200, b"<html>welcome</html>", 20)
            case "hangs up":
                self.close_connection = True
            case "silent":
                self.script.release.wait(30)
                self.close_connection = True

    def _reply(self, status: int, body: bytes, length: int, retry: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if retry:
            self.send_header("Retry-After", retry)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""


@contextmanager
def serve(script: Script) -> Iterator[str]:
    """The address of a server that follows a script."""
    handler = type("Handler", (_Handler,), {"script": script})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            script.release.set()
            server.shutdown()
            thread.join()
