"""Histories that several tests read."""

from __future__ import annotations

import pytest

from benchmarks.history.events import Parameters
from benchmarks.history.writing import generate
from tests.benchmarks.year import Year

SMALL = Parameters(series=60, nights=40, seed=1)


@pytest.fixture(scope="session")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    """60 cells on 40 nights."""
    folder = tmp_path_factory.mktemp("year")
    return Year(folder, generate(folder, SMALL))
