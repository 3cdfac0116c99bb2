"""What `lh-ci dashboard` calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dashboards.build import Built, build
from dashboards.facts import Options, Registered
from dashboards.serve import serve
from orchestrator.results.history.source import Found, find

__all__ = ["Built", "Options", "Registered", "make", "serve"]


def make(
    results: Path,
    cache: Path,
    out: Path,
    options: Options,
    url: str,
    progress: Callable[[str], None],
) -> Built:
    """Finds results and writes their site; a folder that is not there yet has none.

    What was read and judged before is kept in `cache`.

    Raises:
        UsageError: `out` has something else in it, or `results` is no folder.
        InfrastructureError: results are damaged, or files cannot be written.
    """
    empty = Found(sources=(), problems=())
    missing = results.name == "runs" and not results.exists() and results.parent == cache.parent
    found = empty if missing else find(results, cache, progress)
    return build(found, out, options, url=url, memory=cache, progress=progress)
