"""Machines that may lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fleet.forge import Forge


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    """An honest bundle, to be bent; no power cut is to be survived here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Forge(tmp_path)
