"""A site made of results that attack: from archives to the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.history.events import Parameters
from benchmarks.history.writing import generate
from dashboards.command import Options, make
from tests.dashboards.pages.conftest import BASE, opened, ready, served
from tests.dashboards.pages.test_hostile import unharmed

pytestmark = pytest.mark.browser

_YEAR = Parameters(series=16, nights=14, seed=3, hostile=True)


def test_no_page_of_hostile_results_does_harm(chromium: Any, tmp_path: Path) -> None:
    generate(tmp_path / "results", _YEAR)
    out = tmp_path / "site" / BASE
    built = make(
        tmp_path / "results", tmp_path / "cache", out, Options(), "", progress=lambda _: None
    )
    assert built.cells >= _YEAR.series
    with served(tmp_path / "site") as sites:
        root = sites.addresses["file"]
        for path in sorted(out.rglob("*.html")):
            with opened(chromium, root + path.relative_to(out).as_posix()) as (page, watch):
                if path.name == "index.html":
                    ready(page)
                page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
                unharmed(page, watch, root)
