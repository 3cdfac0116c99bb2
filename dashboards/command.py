"""What `lh-ci dashboard` calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dashboards.build import Built, build
from dashboards.facts import Options, Registered
from dashboards.serve import serve
from orchestrator.engines.locks import if_free
from orchestrator.results.archives.objects import every, open_objects
from orchestrator.results.history.source import Found, find

__all__ = ["Built", "Options", "Registered", "make", "serve"]


def make(
    results: Path | str,
    cache: Path,
    out: Path,
    options: Options,
    url: str,
    progress: Callable[[str], None],
) -> Built:
    """Finds results and writes their site; a workspace that has no runs yet has no results.

    `results` is a folder, or a store's address. What was fetched, read and judged before is kept in
    `cache`.

    Raises:
        UsageError: `out` has something else in it, or `results` is no folder or address.
        InfrastructureError: results are damaged, or files cannot be written.
    """
    empty = Found(sources=(), problems=())
    remote = isinstance(results, str) and "://" in results
    folder = every(open_objects(str(results)), cache) if remote else Path.cwd() / results
    missing = folder == cache.parent / "runs" and not folder.exists()
    found = empty if missing else find(folder, cache, progress)
    with if_free(cache / "lock") as free:
        # another build is at it: this one remembers nothing
        memory = cache if free else None
        return build(found, out, options, url=url, memory=memory, progress=progress)
