"""What talking to services needs: whom, how patiently, what goes wrong, and who gets the token."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from orchestrator.errors import InfrastructureError
from orchestrator.settings import Secret

_BLOCK = 1 << 18


class AbsentError(Exception):
    """There is no such thing, or not any more (404, 410)."""


class UnclearError(Exception):
    """Whether the service heard is not known."""


class ConflictError(Exception):
    """It is in no state for that (409, 422)."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """Whom we talk to."""

    name: str
    """As people know it."""
    api: str
    """Where its REST API is, without a slash at the end."""
    headers: Mapping[str, str]
    renew: str
    """What to do when the token is refused, a sentence."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait, in seconds."""

    connect_s: float = 10.0
    read_s: float = 60.0
    """Between two bytes."""
    total_s: float = 900.0
    """For an answer, over all tries."""
    limit_s: float = 3900.0
    """For a limit on our requests to be lifted, beyond that: GitHub counts by the hour."""
    first_s: float = 1.0
    most_s: float = 60.0
    """Between two tries; the pause doubles up to it."""


class BusyError(Exception):
    """Worth asking again."""


class LimitError(BusyError):
    """We have asked too often, and nothing was done."""

    def __init__(self, text: str, after_s: float) -> None:
        """`after_s`: when to ask again, in seconds."""
        super().__init__(text)
        self.after_s = after_s


class Bearer(AuthBase):
    """Puts the token into requests to one origin, and keeps others from being given any."""

    def __init__(self, token: Secret, api: str) -> None:
        """`api`: an address of that origin."""
        self._token = token
        self._origin = origin(api)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests for each one that goes out."""
        if origin(request.url or "") == self._origin:
            request.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        return request


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: who answers at an address."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or usual


def limited(response: requests.Response) -> bool:
    """Whether a refusal says that we ask too often, and not that we may not."""
    headers = response.headers
    if "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0":
        return True
    with contextlib.suppress(ValueError, requests.RequestException, AttributeError):
        return "rate limit" in str(response.json().get("message", "")).lower()
    return False


def save(response: requests.Response, file: Path, most: int) -> None:
    """Writes a body of at most `most` bytes, which is all of what was announced.

    Raises:
        InfrastructureError: it is larger.
        requests.RequestException: it was cut short.
    """
    announced = response.headers.get("Content-Length", "")
    if announced.isdigit() and int(announced) > most:
        raise InfrastructureError(
            f"a file of {int(announced):,} bytes is refused: {most:,} at most"
        )
    size = 0
    with file.open("wb") as target:
        for block in response.iter_content(_BLOCK):
            size += len(block)
            if size > most:
                raise InfrastructureError(f"a file of more than {most:,} bytes is refused")
            target.write(block)
    if announced.isdigit() and size != int(announced):
        raise requests.exceptions.ChunkedEncodingError("cut short")
