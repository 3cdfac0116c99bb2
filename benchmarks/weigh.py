"""How much of a site a page takes, before anybody does anything."""

from __future__ import annotations

import functools
import gzip
import http.server
import re
import shutil
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_REFERENCE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="([^"]+)\"""")
_LINKS = re.compile(r"""<link\b[^>]*\brel="(?:alternate|icon|canonical)"[^>]*>""")
_WHEN_THERE = """
(() => {
  const look = () => {
    const found = document.querySelector(%r);
    if (found && found.getBoundingClientRect().height > 0)
      requestAnimationFrame(() => { window.__there = performance.now(); });
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()
"""
_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@dataclass(frozen=True, kw_only=True)
class Weight:
    """A page with all that it loads by itself."""

    page: str
    raw: int
    """Bytes."""
    gzipped: int
    """Bytes, each file by itself at level 6, as web servers do it."""
    files: int


@dataclass(frozen=True, kw_only=True)
class Paint:
    """From the start of navigation, in milliseconds: the median of several cold loads."""

    first_contentful: float
    matrix: float
    """The frame after the one in which it had a size."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """All files of a site."""

    files: int
    bytes: int


def folder(site: Path) -> Folder:
    """How large a site is on disk."""
    sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    return Folder(files=len(sizes), bytes=sum(sizes))


def heaviest(site: Path, count: int = 3) -> list[str]:
    """The pages with the most bytes in them and in what they name, the heaviest first."""
    sizes: dict[Path, int] = {}
    weights = []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        named = {(page.parent / unquote(name)).resolve() for name in _loaded(text)}
        weight = page.stat().st_size + sum(_size(path, sizes) for path in named)
        weights.append((weight, page.relative_to(site).as_posix()))
    return [name for _, name in sorted(weights, reverse=True)[:count]]


def _loaded(text: str) -> list[str]:
    return [n for n in _REFERENCE.findall(_LINKS.sub("", text)) if not urlsplit(n).scheme]


def _size(path: Path, known: dict[Path, int]) -> int:
    if path not in known:
        known[path] = path.stat().st_size if path.is_file() else 0
    return known[path]


class Browser:
    """A headless Chromium that looks at a site over HTTP."""

    def __init__(self, browser: Any, address: str) -> None:
        """Takes one of Playwright's browsers."""
        self._browser = browser
        self._address = address

    def weight(self, page: str) -> Weight:
        """Loads a page and waits until it loads nothing more."""
        context = self._browser.new_context()
        try:
            view = context.new_page()
            bodies: dict[str, Any] = {}
            view.on("response", lambda response: bodies.setdefault(response.url, response))
            view.goto(f"{self._address}/{page}", wait_until="networkidle")
            loaded = [response.body() for response in list(bodies.values()) if response.ok]
        finally:
            context.close()
        return Weight(
            page=page,
            raw=sum(map(len, loaded)),
            gzipped=sum(len(gzip.compress(body, 6)) for body in loaded),
            files=len(loaded),
        )

    def paint(self, page: str, selector: str, times: int = 5) -> Paint:
        """Loads a page several times, each with an empty cache."""
        first, there = [], []
        for _ in range(times):
            context = self._browser.new_context()
            try:
                view = context.new_page()
                view.add_init_script(_WHEN_THERE % selector)
                view.goto(f"{self._address}/{page}", wait_until="load")
                view.wait_for_function("window.__there !== undefined")
                first.append(view.evaluate(_FIRST_PAINT))
                there.append(max(first[-1], view.evaluate("window.__there")))
            finally:
                context.close()
        return Paint(
            first_contentful=round(statistics.median(first), 1),
            matrix=round(statistics.median(there), 1),
        )


@contextmanager
def browser(site: Path) -> Iterator[Browser]:
    """The machine's Chromium, and a server of a folder for it.

    Raises:
        RuntimeError: there is none.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise RuntimeError("no chromium on PATH: install it, or leave the browser out")
    with _served(site) as address, sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield Browser(started, address)
        finally:
            started.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


@contextmanager
def _served(site: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
