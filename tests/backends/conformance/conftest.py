"""Benches, and what their processes need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.conformance.bench import Bench
from tests.backends.conformance.local_bench import LocalBench
from tests.backends.conformance.perfect import PerfectBench
from tests.backends.conformance.service_benches import BuildkiteBench, GitHubBench
from tests.backends.services.conftest import _loopback  # noqa: F401  for every test here
from tests.config.tree import make_tree

BENCHES: dict[str, type[Bench]] = {
    "memory": PerfectBench,
    "local": LocalBench,
    "buildkite": BuildkiteBench,
    "github": GitHubBench,
}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A master of Buildbot and a worker, once for all tests."""
    pytest.importorskip("buildbot")
    pytest.importorskip("buildbot_worker")
    from tests.backends.conformance import buildbot_bench

    with buildbot_bench.site(tmp_path_factory.mktemp("buildbot")) as found:
        yield found


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """The backend that is asked for."""
    (tmp_path / "repo").mkdir()
    tree = make_tree(tmp_path / "repo")
    if request.param == "buildbot":
        from tests.backends.conformance.buildbot_bench import BuildbotBench

        made: Bench = BuildbotBench(tree, tmp_path, site=request.getfixturevalue("site"))
    else:
        made = BENCHES[request.param](tree, tmp_path)
    try:
        yield made
    finally:
        made.close()
