"""Whether an index (PEP 503) lists a wheel, found out in seconds whatever the network does."""

from __future__ import annotations

import re
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path

import requests
from packaging.utils import canonicalize_name

ANSWER_S = 5.0
"""How long an index may take to connect, and to send each part of its answer."""
_DEADLINE_S = 12.0
"""For the whole answer, name lookup included, which `requests` does not limit."""
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
        """The first index that lists the wheel."""
        for url in indexes:
            if self._lists(f"{url.rstrip('/')}/{canonicalize_name(self.name)}/"):
                return url
        return None

    def _lists(self, page: str) -> bool:
        if not page.startswith(("http://", "https://")):
            return False
        try:
            text = _get(page, self._ca_bundle)
        except requests.HTTPError as error:
            if (status := error.response.status_code) not in {404, 410}:
                self.silent.append(f"{redacted(page)} (HTTP {status})")
            return False
        except (requests.RequestException, OSError) as error:
            self.silent.append(f"{redacted(page)} ({_why(error)})")
            return False
        names = (_filename(href) for href in re.findall(r"""href\s*=\s*["']([^"']+)""", text))
        return any(map(self._fits, names))


def _filename(href: str) -> str:
    return urllib.parse.unquote(urllib.parse.urlsplit(href).path.rpartition("/")[2])


def _get(url: str, ca_bundle: Path | None) -> str:
    """The text of a page, within seconds whatever the network does."""
    answer: list[str | BaseException] = []

    def fetch() -> None:
        try:
            answer.append(_fetch(url, ca_bundle))
        except BaseException as error:  # noqa: BLE001  raised again where it is awaited
            answer.append(error)

    thread = threading.Thread(target=fetch, daemon=True, name="lh-index")
    thread.start()
    thread.join(_DEADLINE_S)
    if not answer:
        raise requests.Timeout(f"no answer in {_DEADLINE_S:g} s")
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]


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
