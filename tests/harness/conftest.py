"""Fixtures for what runs inside a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.incell import Surroundings


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Surroundings]:
    """A job's folder and a scratch folder."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = Surroundings(tmp_path, scratch, tmp_path / "marks")
    yield made
    os.close(made.marks)
