"""A headless Chromium, and the sample as a site: from disk, and from a server under a path."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from benchmarks.history.events import Parameters
from benchmarks.history.writing import generate
from dashboards.command import Options, make
from tests.dashboards.pages.sample import AFTER, sample

BASE = "some/base"
"""The path under which the server has the site."""
NOW = f"{AFTER}T09:00:00Z"
"""What the browser's clock says: seven hours after the newest run."""
_REQUIRED = bool(os.environ.get("REQUIRE_BROWSER"))


def _without(reason: str) -> None:
    if _REQUIRED:
        pytest.fail(f"REQUIRE_BROWSER is set, and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """The browser; tests that need one are skipped where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed: pip install '.[browser]'")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        _without("there is no chromium on PATH")
    with sync_playwright() as playwright:
        # a sandbox needs a user of its own; pages of ours load nothing from anywhere else
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Where a folder's files are, by the way to reach them."""

    folder: Path
    addresses: dict[str, str]
    """`file`, `http`: of the site's root, with a slash at its end."""


@contextmanager
def served(folder: Path) -> Iterator[Sites]:
    """A folder that has the site under `BASE`."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        site = folder / BASE
        yield Sites(
            folder=site,
            addresses={
                "file": f"{site.as_uri()}/",
                "http": f"http://127.0.0.1:{server.server_address[1]}/{BASE}/",
            },
        )
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as it is called
        """Says nothing."""


@pytest.fixture(scope="package")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """The sample's site."""
    folder = tmp_path_factory.mktemp("site")
    sample().write(folder / BASE)
    with served(folder) as found:
        yield found


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A site that the builder made of results in which every text, name and number attacks."""
    folder = tmp_path_factory.mktemp("attacked")
    generate(folder / "results", Parameters(series=80, nights=24, seed=5, hostile=True))
    make(folder / "results", folder / "cache", folder / BASE, Options(), "", lambda _: None)
    with served(folder) as found:
        yield found


@dataclass(kw_only=True)
class Watch:
    """What a page did that nobody should see."""

    complaints: list[str] = field(default_factory=list)
    """Of the console, errors, dialogs."""
    requests: list[str] = field(default_factory=list)
    """What was asked for, apart from what the policy of the page stopped."""

    def failed(self, request: Any) -> None:
        """Takes note of what the policy stopped: it was never sent."""
        if request.failure == "csp":
            self.requests.remove(request.url)

    def asked(self, dialog: Any) -> None:
        """Takes note of a dialog."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def outside(self, root: str) -> list[str]:
        """Requests for what is not of the site."""
        return [url for url in self.requests if not url.startswith((root, "data:"))]


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[tuple[Any, Watch]]:
    """A page in a context of its own, with its clock at `NOW`."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.clock.set_fixed_time(NOW)
    watch = Watch()
    page.on("console", lambda said: watch.complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: watch.complaints.append(f"error: {error}"))
    page.on("request", lambda request: watch.requests.append(request.url))
    page.on("requestfailed", watch.failed)
    page.on("dialog", watch.asked)
    page.goto(url)
    yield page, watch
    context.close()


PHONE = {"width": 360, "height": 740}
PAGES = (
    "index.html",
    "compare.html",
    "agents.html",
    "expectations.html",
    "trends.html",
    "pipelines/pytorch_cpu.html",
    "workloads/mlp.html",
    "cells/pytorch_gpu/mlp/bf16@nvidia-gpu.html",
    "cells/pytorch_cpu/gelu/f32@arm-cpu.html",
)
"""One of each kind; of cells a red one and a green one."""


def ready(page: Any) -> None:
    """Waits until a page has shown what it loads when somebody reads it."""
    page.mouse.move(10, 10)
    page.wait_for_function("() => document.querySelector('.tools .age').textContent !== ''")
    for figure in page.query_selector_all("#plots, #coverage-chart, #speed-chart"):
        figure.wait_for_selector("figure", state="attached")
    for figure in page.query_selector_all("figure"):
        figure.scroll_into_view_if_needed()
        figure.wait_for_selector("svg")
    if page.query_selector("#compare"):
        page.wait_for_selector(".results > *", state="attached")


def fragment(page: Any) -> dict[str, str]:
    """The filters in the address."""
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).fragment).items()}
