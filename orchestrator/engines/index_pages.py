"""Whether an index (PEP 503) lists a wheel, found out in seconds whatever the network does."""

from __future__ import annotations

import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path

import requests
from packaging.utils import canonicalize_name

ANSWER_S = 5.0
"""How long an index may take to connect, and to send each part of its answer."""
_DEADLINE_S = 8.0
"""For all answers, name lookup included, which `requests` does not limit."""
_MAX_PAGE = 32 << 20


def redacted(url: str) -> str:
    """An address without the user and password that it may carry."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


class IndexSearch:
    """Looks for a wheel of one package at the indexes that may have it."""

    def __init__(self, name: str, fits: Callable[[str], bool], ca_bundle: Path | None) -> None:
        """`fits` says of a file name whether it is the wheel that is wanted."""
        self.name = name
        self._fits = fits
        self._ca_bundle = ca_bundle
        self.silent: list[str] = []
        """Addresses that did not answer, with why."""

    def first_with_it(self, indexes: Iterable[str]) -> str | None:
        """The first index that lists the wheel; all are asked at the same time."""
        asked = [
            (url, _Page(f"{url.rstrip('/')}/{canonicalize_name(self.name)}/", self._ca_bundle))
            for url in indexes
            if url.startswith(("http://", "https://"))
        ]
        until = time.monotonic() + _DEADLINE_S
        return next((url for url, page in asked if self._lists(page, until)), None)

    def _lists(self, page: _Page, until: float) -> bool:
        try:
            text = page.text(until)
        except requests.HTTPError as error:
            if (status := error.response.status_code) not in {404, 410}:
                self.silent.append(f"{redacted(page.url)} (HTTP {status})")
            return False
        except (requests.RequestException, OSError) as error:
            self.silent.append(f"{redacted(page.url)} ({_why(error)})")
            return False
        names = (_filename(href) for href in re.findall(r"""href\s*=\s*["']([^"']+)""", text))
        return any(map(self._fits, names))


def _filename(href: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(href).path.rpartition("/")[2])


class _Page:
    """A page on its way: its thread may hang in the network, whoever waits for it does not."""

    def __init__(self, url: str, ca_bundle: Path | None) -> None:
        self.url = url
        self._answer: list[str | BaseException] = []
        self._thread = threading.Thread(
            target=self._get, args=(ca_bundle,), daemon=True, name="lh-index"
        )
        self._thread.start()

    def text(self, until: float) -> str:
        """Its text; `until` is a time of the monotonic clock."""
        self._thread.join(max(0.0, until - time.monotonic()))
        if not self._answer:
            raise requests.Timeout(f"no answer in {_DEADLINE_S:g} s")
        (answer,) = self._answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _get(self, ca_bundle: Path | None) -> None:
        try:
            self._answer.append(_fetch(self.url, ca_bundle))
        except BaseException as error:  # noqa: BLE001  raised again where it is awaited
            self._answer.append(error)


def _fetch(url: str, ca_bundle: Path | None) -> str:
    with requests.get(
        url,
        timeout=(ANSWER_S, ANSWER_S),
        verify=str(ca_bundle) if ca_bundle else True,
        headers={"Accept": "text/html"},
        stream=True,
    ) as response:
        response.raise_for_status()
        body = bytearray()
        for part in response.iter_content(1 << 16):
            body += part
            if len(body) > _MAX_PAGE:
                break
        return body.decode("utf-8", "replace")


def _why(error: BaseException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted: set LH_CA_BUNDLE"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy did not answer"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    return "cannot connect"
