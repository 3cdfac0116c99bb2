"""Stores that several tests begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.results.archives.store import Store
from tests.results.archives.samples import KINDS, fill, make_store


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Of file system."""
    return str(request.param)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three runs of January and one of February; nobody writes here."""
    folder = tmp_path_factory.mktemp("template")
    store = make_store(folder)
    fill(store, folder / "runs")
    return store


@pytest.fixture
def store(tmp_path: Path, kind: str, template: Store) -> Store:
    """The same runs, on each kind of file system."""
    return make_store(tmp_path, kind, template)
