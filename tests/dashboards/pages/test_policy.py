"""If a text became markup after all, the policy of the pages would stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.render import CONTENT_SECURITY_POLICY
from tests.dashboards.pages.conftest import BASE, Sites, opened, served
from tests.dashboards.pages.sample import sample

pytestmark = pytest.mark.browser

_RUN = "window.__pwned=1"
_OUTSIDE = "http://127.0.0.1:9"
INJECTED = {
    "inline script": f"<script>{_RUN}</script>",
    "handler": f"<img src='data:,' onerror='{_RUN}'><details open ontoggle='{_RUN}'></details>",
    "script from elsewhere": f"<script src='{_OUTSIDE}/x.js'></script>",
    "script in an address": f"<iframe src='javascript:parent.{_RUN}'></iframe>",
    "script as data": f"<script src='data:text/javascript,{_RUN}'></script>",
    "frame": f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    "image from elsewhere": f"<img src='{_OUTSIDE}/x.png'>",
    "style": "<style>main{display:none}</style>",
    "style from elsewhere": f"<link rel='stylesheet' href='{_OUTSIDE}/x.css'>",
    "base": f"<base href='{_OUTSIDE}/'>",
    "object": f"<object data='{_OUTSIDE}/x'></object>",
}


@pytest.fixture(scope="module")
def injected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """A site with a page for each piece of markup, put where a text would be."""
    folder = tmp_path_factory.mktemp("injected")
    site = folder / BASE
    sample().write(site)
    page = (site / "agents.html").read_text(encoding="utf-8")
    for name, markup in INJECTED.items():
        _write(site / f"{name}.html", page.replace("<h1>", f"{markup}<h1>"))
    bare = page.replace(CONTENT_SECURITY_POLICY.replace("'", "&#39;"), "")
    _write(site / "bare.html", bare.replace("<h1>", f"{INJECTED['inline script']}<h1>"))
    with served(folder) as found:
        yield found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("way", ["file", "http"])
@pytest.mark.parametrize("name", INJECTED)
def test_injected_markup_does_nothing(chromium: Any, injected: Sites, way: str, name: str) -> None:
    root = injected.addresses[way]
    with opened(chromium, f"{root}{name}.html") as (page, watch):
        page.wait_for_function("() => document.querySelector('.tools .age').textContent !== ''")
        assert page.evaluate("window.__pwned") is None
        assert page.locator("main").is_visible()
        assert [url for url in watch.outside(root) if not url.startswith("about:")] == []
        assert page.evaluate("document.baseURI").startswith(root)
        assert any("Content Security Policy" in said for said in watch.complaints)


def test_without_the_policy_the_same_script_runs(chromium: Any, injected: Sites) -> None:
    with opened(chromium, f"{injected.addresses['file']}bare.html") as (page, _):
        assert page.evaluate("window.__pwned") == 1


@pytest.mark.parametrize("way", ["file", "http"])
def test_scripts_cannot_make_markup_or_code_of_texts(chromium: Any, sites: Sites, way: str) -> None:
    with opened(chromium, f"{sites.addresses[way]}index.html") as (page, _):
        outcome = page.evaluate(
            """outside => {
              const tried = {};
              const attempt = (name, act) => {
                try { act(); tried[name] = 'done'; } catch (error) { tried[name] = error.name; }
              };
              attempt('markup', () => { document.body.innerHTML = '<b>x</b>'; });
              attempt('address', () => { document.createElement('script').src = outside; });
              attempt('parent', () => { document.createElement('script').src = 'assets/../x.js'; });
              attempt('policy', () => trustedTypes.createPolicy('mine', {}));
              attempt('ours', () => { document.createElement('script').src = './data/x.js'; });
              return tried;
            }""",
            f"{_OUTSIDE}/x.js",
        )
        assert outcome == {
            "markup": "TypeError",
            "address": "TypeError",
            "parent": "TypeError",
            "policy": "TypeError",
            "ours": "done",
        }
        assert page.locator("h1").is_visible()
