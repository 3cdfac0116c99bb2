"""Every backend keeps every promise."""

from __future__ import annotations

import pytest

from tests.backends.conformance.bench import Bench
from tests.backends.conformance.promises import PROMISES, Promise

BACKENDS = ("memory", "local", "buildkite", "github", "buildbot")
pytestmark = pytest.mark.process


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("bench", BACKENDS, indirect=True)
def test_promise(bench: Bench, promise: Promise) -> None:
    promise(bench)
