"""HTTP to a master: its REST API and its depot, with patience for what comes and goes.

What can be repeated is repeated, with growing pauses, until it is answered or patience ends: a
master that is restarted, a proxy's 502, a body cut short. What cannot be repeated blindly is not:
`force` says so, and its caller looks first whether it was heard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from orchestrator.backends.buildbot.fleet import DISPATCHER
from orchestrator.backends.clock import Clock
from orchestrator.errors import InfrastructureError, UsageError

T = TypeVar("T")

DIGEST_HEADER = "X-Sha256"
_BLOCK = 1 << 20
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class UnclearError(Exception):
    """Whether the master heard is not known."""


class AbsentError(Exception):
    """There is no such thing (404)."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait, in seconds."""

    connect_s: float = 10.0
    read_s: float = 60.0
    """Between two bytes."""
    total_s: float = 900.0
    """For an answer, over all tries: a master takes minutes to be restarted."""
    first_s: float = 0.5
    most_s: float = 30.0
    """Between two tries; the pause doubles up to it."""


class Api:
    """One master."""

    def __init__(
        self,
        url: str,
        password: str,
        *,
        say: Callable[[str], None],
        clock: Clock | None = None,
        ca_bundle: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Asks nothing yet. `say` gets a line for people when the master lets us wait."""
        self.url = url if url.endswith("/") else f"{url}/"
        self._login = (DISPATCHER, password)
        self._say = say
        self._clock = clock or Clock()
        self._patience = patience or Patience()
        self._session = requests.Session()
        self._session.trust_env = True
        if ca_bundle is not None:
            self._session.verify = str(ca_bundle)
        self._known = False

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A JSON object of the REST API, such as `buildrequests`.

        Raises:
            AbsentError: there is none.
            InfrastructureError: no answer within our patience.
            UsageError: the address is of something else.
        """

        def once() -> dict[str, Any]:
            response = self._send("GET", f"{self.url}api/v2/{path}", params=params)
            document = response.json()
            if not isinstance(document, dict):
                raise requests.exceptions.InvalidJSONError("no object")
            return document

        return self._patiently(once)

    def control(self, path: str, method: str, params: Mapping[str, Any]) -> Any:
        """Has the master do something that can be repeated: see `get` for what is raised."""
        return self._patiently(lambda: self._control(path, method, params))

    def force(self, scheduler: str, params: Mapping[str, Any]) -> Any:
        """Starts builds.

        Raises:
            UnclearError: whether they were started is not known.
            UsageError: the master refuses.
        """
        try:
            return self._control(f"forceschedulers/{scheduler}", "force", params)
        except (requests.RequestException, _BusyError) as error:
            raise UnclearError(str(error)) from error

    def put(self, url: str, file: Path, sha256: str) -> None:
        """Sends a file to the depot."""

        def once() -> None:
            with file.open("rb") as data:
                headers = {DIGEST_HEADER: sha256, "Content-Type": "application/octet-stream"}
                self._send("PUT", url, data=data, headers=headers, auth=self._login)

        self._patiently(once)

    def fetch(self, url: str, file: Path) -> None:
        """Gets a file from the depot. Raises AbsentError when there is none."""

        def once() -> None:
            headers = {"Accept-Encoding": "identity"}
            response = self._send("GET", url, stream=True, headers=headers, auth=self._login)
            with contextlib.closing(response), file.open("wb") as target:
                for block in response.iter_content(_BLOCK):
                    target.write(block)

        file.parent.mkdir(parents=True, exist_ok=True)
        self._patiently(once)

    def fetch_json(self, url: str) -> Any:
        """A JSON value from the depot."""
        return self._patiently(lambda: self._send("GET", url, auth=self._login).json())

    def delete(self, url: str) -> None:
        """Removes something from the depot."""
        self._patiently(lambda: self._send("DELETE", url, auth=self._login))

    def close(self) -> None:
        """Closes its connections."""
        self._session.close()

    # --- how --------------------------------------------------------------------------------

    def _control(self, path: str, method: str, params: Mapping[str, Any]) -> Any:
        if not self._known:
            self._log_in()
        url = f"{self.url}api/v2/{path}"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        try:
            return self._send("POST", url, json=body).json().get("result")
        except _ForbiddenError:
            # a session lasts a week, and not always that long
            self._log_in()
            try:
                return self._send("POST", url, json=body).json().get("result")
            except _ForbiddenError as error:
                raise UsageError(f"{self.url} refuses `{method}`: {error}") from None

    def _log_in(self) -> None:
        url = f"{self.url}auth/login"
        try:
            self._send("GET", url, auth=self._login, allow_redirects=False)
        except _ForbiddenError:
            raise UsageError(
                f"{self.url} refuses the password of {DISPATCHER}. It is in the master's "
                f"secrets/{DISPATCHER}.password; LH_BUILDBOT_PASSWORD names a copy of that file"
            ) from None
        self._known = True

    def _send(self, method: str, url: str, **given: Any) -> requests.Response:
        timeout = (self._patience.connect_s, self._patience.read_s)
        response = self._session.request(method, url, timeout=timeout, **given)
        code = response.status_code
        if code in (401, 403):
            raise _ForbiddenError(_told(response))
        if code == 404:
            raise AbsentError(url)
        if code in _BUSY:
            raise _BusyError(f"HTTP {code}", _retry_after(response))
        if code >= 400:
            raise UsageError(f"{url} refuses: HTTP {code}, {_told(response)}")
        return response

    def _patiently(self, once: Callable[[], T]) -> T:
        began, pause, told = self._clock.monotonic(), self._patience.first_s, False
        while True:
            try:
                return once()
            except _ForbiddenError as error:
                raise UsageError(f"{self.url} refuses {DISPATCHER}: {error}") from None
            except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
                raise UsageError(f"{self.url}: {error}") from None
            except requests.exceptions.SSLError as error:
                raise InfrastructureError(
                    f"{self.url} cannot be trusted: {error}. LH_CA_BUNDLE names certificates"
                ) from error
            except (requests.RequestException, _BusyError) as error:
                wait = max(pause, error.after_s if isinstance(error, _BusyError) else 0.0)
                if self._clock.monotonic() + wait > began + self._patience.total_s:
                    raise InfrastructureError(
                        f"{self.url} did not answer for {self._patience.total_s:g} s: "
                        f"{_brief(error)}"
                    ) from error
                if not told:
                    told = True
                    self._say(f"{self.url} does not answer ({_brief(error)}): trying again")
                self._clock.sleep(wait)
                pause = min(2 * pause, self._patience.most_s)


class _BusyError(Exception):
    """Worth asking again."""

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.after_s = after_s


class _ForbiddenError(Exception):
    """401 or 403."""


def _retry_after(response: requests.Response) -> float:
    value = response.headers.get("Retry-After", "")
    return min(float(value), 300.0) if value.isdigit() else 0.0


def _told(response: requests.Response) -> str:
    """What an error's body says, in a line."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        error = response.json().get("error", "")
        return str(error.get("message", error) if isinstance(error, dict) else error)[:200]
    return " ".join(response.text.split())[:200] or response.reason


def _brief(error: Exception) -> str:
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return " ".join(str(cause).split())[:160] or type(error).__name__
