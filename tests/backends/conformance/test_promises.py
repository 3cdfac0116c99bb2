"""Every backend keeps every promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.conformance.bench import Bench
from tests.backends.conformance.local_bench import LocalBench
from tests.backends.conformance.perfect import PerfectBench
from tests.backends.conformance.promises import PROMISES, Promise
from tests.config.tree import make_tree

BENCHES: dict[str, type[Bench]] = {"memory": PerfectBench, "local": LocalBench}
pytestmark = pytest.mark.process


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """The backend that is asked for."""
    (tmp_path / "repo").mkdir()
    tree = make_tree(tmp_path / "repo")
    kind = BENCHES[request.param]
    return kind(tree, tmp_path)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("bench", BENCHES, indirect=True)
def test_promise(bench: Bench, promise: Promise) -> None:
    promise(bench)
