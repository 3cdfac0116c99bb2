"""Where tests find the pinned LLVM release: where the `venv` engine does, fetched if need be."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from orchestrator.config.load import load
from orchestrator.engines.llvm_release import ReleaseFinder
from orchestrator.settings import Settings

ROOT = Path(__file__).parents[2]


@cache
def _prefix() -> tuple[Path | None, str]:
    finder = ReleaseFinder(
        folder=ROOT / ".lh" / "llvm",
        settings=Settings.from_environment(os.environ),
        environ=os.environ,
    )
    release = finder.find(load(ROOT, goldens=False).pins.llvm, lambda _: None)
    return release.prefix, release.note


def tool(name: str) -> Path:
    """A tool of the release; skips where there is none to be had."""
    prefix, note = _prefix()
    if prefix is None:
        pytest.skip(f"no LLVM release: {note}")
    return prefix / "bin" / name
