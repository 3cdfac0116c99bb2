"""Local web servers that answer as services do, with faults in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """One answer."""

    body: Any = None
    """Bytes as they are, anything else as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    """So many bytes of the body are announced and do not come."""
    hangs_up: bool = False

    def data(self) -> bytes:
        """The body's bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    """One question."""

    what: str
    """`METHOD /path`."""
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any


@dataclass
class Conversation:
    """What is answered to `METHOD /path`: each answer once and in order, the last one for ever."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    """Of the server; `{url}` in headers and bodies is this."""

    def answer(self, asked: Asked) -> Answer:
        """The next one."""
        self.asked.append(asked)
        left = self.answers.get(asked.what)
        if not left:
            return Answer({"message": "Not Found"}, 404)
        return left.pop(0) if len(left) > 1 else left[0]

    def count(self, what: str) -> int:
        """How often something was asked."""
        return sum(asked.what == what for asked in self.asked)


class _Handler(BaseHTTPRequestHandler):
    conversation: Conversation
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        conversation = self.conversation
        answer = conversation.answer(
            Asked(
                what=f"{self.command} {parts.path}",
                query=parse_qs(parts.query),
                headers=dict(self.headers.items()),
                body=json.loads(data) if data else None,
            )
        )
        if answer.hangs_up:
            self.close_connection = True
            return
        body = answer.data().replace(b"{url}", conversation.url.encode())
        if self.headers.get("If-None-Match", "-") == answer.headers.get("ETag"):
            answer, body = Answer(status=304), b""
        self.send_response(answer.status)
        if answer.status != 304:
            self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value.replace("{url}", conversation.url))
        self.end_headers()
        self.wfile.write(body[: len(body) - answer.cut])
        self.close_connection = bool(answer.cut)

    do_GET = do_POST = do_PUT = _handle  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nobody reads it."""


@contextmanager
def serve(conversation: Conversation) -> Iterator[Conversation]:
    """A server that follows a conversation, which knows its address then."""
    handler = type("Handler", (_Handler,), {"conversation": conversation})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        conversation.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield conversation
        finally:
            server.shutdown()
            thread.join()
