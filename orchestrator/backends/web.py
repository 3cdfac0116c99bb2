"""HTTP to services that hand out jobs: patient, bounded, and careful with their token.

What can be repeated is repeated, with growing pauses and some chance in them, until it is answered
or patience ends; a service that says how long to wait is obeyed. What cannot be repeated blindly
says so, and its caller looks first whether it was heard. The token goes to the service alone: not
to where it redirects, not into messages, not into anything that is shown.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

import requests

from orchestrator.backends.clock import Clock
from orchestrator.backends.service import (
    AbsentError,
    Bearer,
    BusyError,
    ConflictError,
    LimitError,
    Patience,
    Service,
    UnclearError,
    limited,
    origin,
    save,
)
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.files import unwritable
from orchestrator.settings import Secret

T = TypeVar("T")

_MOST_JSON = 32 << 20
_BUSY = (408, 425, 500, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_MOST_PAGES = 100
_KNOWN = 256
"""Answers that are kept, to be asked for by their ETag."""


class Web:
    """One service."""

    def __init__(
        self,
        service: Service,
        token: Secret,
        *,
        say: Callable[[str], None],
        clock: Clock | None = None,
        ca_bundle: Path | None = None,
        patience: Patience | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Asks nothing yet.

        Args:
            service: see there.
            token: goes to that address alone.
            say: gets a line for people when the service lets us wait.
            clock: what waiting goes by.
            ca_bundle: certificates to trust; None: the usual ones.
            patience: see there.
            chance: from 0 to 1; makes pauses differ, so that not all clients come back at once.
        """
        self.service = service
        self._own = Bearer(token, service.api)
        self._token = token
        self._say = say
        self._clock = clock or Clock()
        self._patience = patience or Patience()
        self._chance = chance
        self._session = requests.Session()
        if ca_bundle is not None:
            self._session.verify = str(ca_bundle)
        self._known: dict[str, tuple[str, Any, str]] = {}

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """A JSON value.

        Raises:
            AbsentError: there is none.
            InfrastructureError: no answer within our patience.
            UsageError: the token is refused, or may not do that.
        """
        return self._get(self._url(path), params)[0]

    def pages(
        self, path: str, params: Mapping[str, Any] | None = None, key: str = ""
    ) -> Iterator[dict[str, Any]]:
        """The items of all pages of a list; `key`: where they are in each page, if not at the top.

        Raises what `get` does.
        """
        url, given = self._url(path), {"per_page": 100, **(params or {})}
        for _ in range(_MOST_PAGES):
            document, following = self._get(url, given)
            items = document.get(key, []) if key and isinstance(document, dict) else document
            yield from (item for item in items if isinstance(item, dict))
            if not following or origin(following) != origin(self.service.api):
                return
            url, given = following, {}

    def post(self, path: str, body: Mapping[str, Any], method: str = "POST") -> Any:
        """Has the service do something; its JSON answer, None when it has no body.

        Raises:
            UnclearError: whether it was done is not known.
            ConflictError: it cannot be done now.
            AbsentError: there is no such thing.
            InfrastructureError: it does not take our requests for long.
            UsageError: the token is refused, or may not do that.
        """

        def once() -> Any:
            try:
                response = self._send(method, self._url(path), json=dict(body))
            except (requests.RequestException, BusyError) as error:
                if isinstance(error, LimitError):
                    raise
                raise UnclearError(self._brief(error)) from None
            with contextlib.suppress(ValueError):
                return response.json()
            return None

        return self._patiently(once)

    def fetch(self, url: str, file: Path, most: int) -> None:
        """Downloads a file of at most `most` bytes, whole, from wherever the service says it is.

        Raises:
            AbsentError: there is none.
            InfrastructureError: it is larger, or no answer within our patience.
            UsageError: the token is refused, or may not do that.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.part")
        try:
            self._patiently(lambda: self._download(self._url(url), partial, most))
            partial.replace(file)
        except OSError as error:
            raise unwritable(file, error) from error
        finally:
            partial.unlink(missing_ok=True)

    # --- how --------------------------------------------------------------------------------

    def _url(self, path: str) -> str:
        return path if "://" in path else f"{self.service.api}/{path}"

    def _get(self, url: str, params: Mapping[str, Any] | None) -> tuple[Any, str]:
        """A JSON value, and the address of the next page."""

        def once() -> tuple[Any, str]:
            asked = requests.Request("GET", url, params=dict(params or {})).prepare().url or url
            known = self._known.get(asked)
            headers = {"If-None-Match": known[0]} if known else {}
            response = self._asked(asked, headers=headers)
            if response.status_code == 304 and known:
                return known[1], known[2]
            if response.status_code in _REDIRECTS:
                raise UsageError(f"{asked.partition('?')[0]} has moved: use its new name")
            if len(response.content) > _MOST_JSON:
                raise InfrastructureError(f"{self.service.name} answers with far too much")
            document = response.json()
            following = str(response.links.get("next", {}).get("url", ""))
            if tag := response.headers.get("ETag"):
                while len(self._known) >= _KNOWN:
                    del self._known[next(iter(self._known))]
                self._known[asked] = (tag, document, following)
            return document, following

        return self._patiently(once)

    def _download(self, url: str, file: Path, most: int) -> None:
        for _ in range(_MOST_REDIRECTS):
            response = self._asked(url, stream=True, headers={"Accept": "*/*"})
            with contextlib.closing(response):
                if response.status_code not in _REDIRECTS:
                    save(response, file, most)
                    return
                url = urljoin(url, response.headers.get("Location", ""))
        raise InfrastructureError(f"{self.service.name} redirects for ever")

    def _asked(self, url: str, **given: Any) -> requests.Response:
        """A GET; what is called a conflict then, such as a commit that it lacks, is not there."""
        try:
            return self._send("GET", url, **given)
        except ConflictError as error:
            raise AbsentError(str(error)) from None

    def _send(self, method: str, url: str, **given: Any) -> requests.Response:
        """One request; the token goes along to the service itself, and nowhere else."""
        own = origin(url) == origin(self.service.api)
        headers = {
            **(self.service.headers if own else {}),
            "Accept-Encoding": "gzip" if not given.get("stream") else "identity",
            **given.pop("headers", {}),
        }
        response = self._session.request(
            method,
            url,
            timeout=(self._patience.connect_s, self._patience.read_s),
            allow_redirects=False,
            auth=self._own,
            headers=headers,
            **given,
        )
        self._judge(response, own=own)
        return response

    def _judge(self, response: requests.Response, *, own: bool) -> None:
        """Raises for every status that is no answer."""
        code = response.status_code
        if code == 429 or (code in (403, 503) and limited(response)):
            raise LimitError(f"HTTP {code}", self._until_lifted(response))
        if code in _BUSY:
            raise BusyError(f"HTTP {code}")
        if code in (404, 410):
            raise AbsentError(self._hidden(response.url))
        if code == 401 and own:
            raise UsageError(
                f"{self.service.name} refuses the token: it is wrong, expired or revoked. "
                f"{self.service.renew}"
            )
        if code in (401, 403) and own:
            raise UsageError(
                f"{self.service.name}: the token may not do that ({self._told(response)}). "
                f"{self.service.renew}"
            )
        if code in (409, 422):
            raise ConflictError(self._told(response))
        if code >= 400:
            raise InfrastructureError(
                f"{self.service.name} answers HTTP {code}: {self._told(response)}"
            )

    def _until_lifted(self, response: requests.Response) -> float:
        """Seconds until it takes requests again, as it says; 60 when it does not."""
        headers, now = response.headers, self._clock.now()
        if (after := headers.get("Retry-After", "")).isdigit():
            return float(after)
        with contextlib.suppress(TypeError, ValueError):
            when = email.utils.parsedate_to_datetime(after)
            return max(0.0, (when - now).total_seconds())
        if (reset := headers.get("RateLimit-Reset", "")).isdigit():
            return float(reset)
        if (reset := headers.get("X-RateLimit-Reset", "")).isdigit():
            when = dt.datetime.fromtimestamp(int(reset), dt.UTC)
            return max(1.0, (when - now).total_seconds())
        return 60.0

    def _patiently(self, once: Callable[[], T]) -> T:
        began, pause, told = self._clock.monotonic(), self._patience.first_s, False
        barred = 0.0
        while True:
            try:
                return once()
            except requests.exceptions.SSLError as error:
                raise InfrastructureError(
                    f"{self.service.name} cannot be trusted: {self._brief(error)}. LH_CA_BUNDLE "
                    "names certificates"
                ) from None
            except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
                raise UsageError(f"{self.service.api}: {self._brief(error)}") from None
            except LimitError as error:
                wait = error.after_s + self._chance()
                barred += wait
                spent, allowed, why = barred, self._patience.limit_s, str(error)
            except (requests.RequestException, BusyError) as error:
                wait = pause * (0.5 + self._chance())
                pause = min(2 * pause, self._patience.most_s)
                spent = self._clock.monotonic() + wait - began - barred
                allowed, why = self._patience.total_s, self._brief(error)
            if spent > allowed:
                raise InfrastructureError(
                    f"{self.service.name} did not answer for {allowed:g} s: {why}"
                )
            if not told:
                told = True
                self._say(f"{self.service.name} lets us wait ({why}): trying again")
            self._clock.sleep(wait)

    def _told(self, response: requests.Response) -> str:
        """What an error's body says, in a line."""
        text = response.reason or ""
        with contextlib.suppress(ValueError, requests.RequestException):
            document = response.json()
            text = str(document.get("message", text)) if isinstance(document, dict) else text
        return self._hidden(" ".join(text.split())[:200])

    def _brief(self, error: Exception) -> str:
        """What kind of error it is; addresses may have signatures in them, and are left out."""
        if isinstance(error, BusyError):
            return str(error)
        return type(error).__name__

    def _hidden(self, text: str) -> str:
        return text.partition("?")[0].replace(self._token.reveal(), "…")
