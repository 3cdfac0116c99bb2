"""HTML from page records, and the files that every page uses.

Templates escape every text: what results say is data. A page runs no script but the site's own
files, and none of those makes HTML, addresses or code of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined, Template

from dashboards.documents import (
    LETTERS,
    AgentsPage,
    CellPage,
    Chrome,
    ComparePage,
    ExpectationsPage,
    PipelinePage,
    TonightPage,
    TrendsPage,
    WorkloadPage,
)
from dashboards.headline import headline
from dashboards.nights import slug
from dashboards.words import FILTERS, KINDS_IN_WORDS, STATUSES_IN_WORDS
from orchestrator.results.files import unwritable

Page = (
    TonightPage
    | CellPage
    | PipelinePage
    | WorkloadPage
    | ComparePage
    | AgentsPage
    | ExpectationsPage
    | TrendsPage
)

_TEMPLATES: Mapping[type, str] = {
    TonightPage: "index.html",
    CellPage: "cell.html",
    PipelinePage: "pipeline.html",
    WorkloadPage: "workload.html",
    ComparePage: "compare.html",
    AgentsPage: "agents.html",
    ExpectationsPage: "expectations.html",
    TrendsPage: "trends.html",
}

_FEW = 4096
"""Pieces of pages that are kept, of a kind."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; "
    # of a page from disk, 'self' is any file: inline scripts and other hosts stay shut out
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self' data:; "
    "font-src 'none'; "
    "connect-src 'none'; "
    "worker-src 'none'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    # assets/app.js has the one policy: it lets through no HTML, and no script of another place
    "require-trusted-types-for 'script'; "
    "trusted-types default"
)
"""What pages may do, https://www.w3.org/TR/CSP3/ and https://www.w3.org/TR/trusted-types/."""


def render(page: Page, chrome: Chrome) -> str:
    """The HTML of a page."""
    return _template(_TEMPLATES[type(page)]).render(page=page, chrome=chrome, root=chrome.root)


def keep_compiled(folder: Path, version: str) -> None:
    """Keeps templates as Python code in a folder, which has those of one version.

    Raises:
        InfrastructureError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if not path.name.startswith(version):
                path.unlink()
    except OSError as error:
        raise unwritable(folder, error) from error
    _environment().bytecode_cache = FileSystemBytecodeCache(str(folder), f"{version}-%s")


@cache
def _template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _macros() -> Any:
    """Those of `macros.html`, as functions."""
    return _template("macros.html").module


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(FILTERS, slug=slug)
    environment.globals.update(
        # in tables of thousands of rows; there are few statuses, and few nights
        badge=lru_cache(_FEW)(lambda status: _macros().badge(status)),
        day=lru_cache(_FEW)(lambda night: _macros().night(night)),
        csp=CONTENT_SECURITY_POLICY,
        headline=headline,
        letters=LETTERS,
        words=STATUSES_IN_WORDS,
        kinds=KINDS_IN_WORDS,
    )
    return environment


@cache
def assets() -> Mapping[str, bytes]:
    """The files under `assets/` that pages load, by name; `charts.js` is made apart."""
    folder = files("dashboards") / "assets"
    return {
        each.name: each.read_bytes()
        for each in sorted(folder.iterdir(), key=lambda each: each.name)
        if each.is_file()
    }


def charts_version() -> str:
    """Of the library that `charts` is made of."""
    return version("vl-convert-python")


@cache
def charts() -> bytes:
    """`assets/charts.js`: Vega, Vega-Lite and vega-embed as vl-convert carries them, some 300 KB
    when compressed: pages load it when a chart is about to be seen.
    """
    from vl_convert import javascript_bundle

    # of all that it has, pages use this; its own names of one letter would be everybody's
    return f"(()=>{{{javascript_bundle('window.vegaEmbed=vegaEmbed;')}}})();\n".encode()
