"""The sample repository, for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.tree import Tree, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A repository that loads without a problem."""
    return make_tree(tmp_path)
