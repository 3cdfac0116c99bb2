"""A site on this machine, for a quick look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from orchestrator.errors import UsageError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as it is called
        """Says nothing: what a browser asks for is nobody's news."""


def serve(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serves a folder to this machine alone until Ctrl-C; `ready` is told the address.

    Raises:
        UsageError: the port is taken.
    """
    handler = partial(_Quiet, directory=str(folder))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({error.strerror}). Give another: --port 0"
        ) from error
    with server:
        ready(f"http://127.0.0.1:{server.server_address[1]}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
