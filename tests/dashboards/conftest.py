"""A small history that several tests make sites of."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.history.events import Parameters
from benchmarks.history.writing import generate

SMALL = Parameters(series=40, nights=24, seed=11)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives of 40 cells on 24 nights; nobody writes here."""
    folder = tmp_path_factory.mktemp("small")
    generate(folder, SMALL)
    return folder
