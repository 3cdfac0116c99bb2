"""What tests of backends share."""

from __future__ import annotations

import pytest

from tests.backends.gpus import Lab
from tests.fakes import FakeEngine, FakeGpus


@pytest.fixture
def lab() -> Lab:
    """GPUs that are well."""
    engine = FakeEngine()
    return Lab(engine, FakeGpus(engine.time))
