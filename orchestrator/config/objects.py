"""Everything that people edit, loaded and checked: what planning works from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.config.models import (
    GoldenRecord,
    Matrix,
    Pins,
    PipelineRecipe,
    Recipe,
    Tolerances,
)
from orchestrator.config.recipes import Libraries, Schedules
from orchestrator.job import RecipeRun

Entry = Literal["Model", "model", "launch"]
"""What a workload defines: `Model`, a class, the PyTorch convention; `model`, a function, JAX;
`launch`, a function that launches kernels, Triton."""


@dataclass(frozen=True, kw_only=True)
class WorkloadFile:
    """A program under test, found but never imported."""

    name: str
    path: Path
    """Absolute."""
    sha256: str
    about: str
    """First line of its docstring."""
    entry: Entry = "Model"


@dataclass(frozen=True, kw_only=True)
class GoldenFile:
    """A recorded output and where it comes from."""

    record: GoldenRecord
    path: Path
    """The `.npz`, absolute."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All definitions of one repository, consistent with each other."""

    root: Path
    matrix: Matrix
    pins: Pins
    schedules: Mapping[str, Recipe]
    """Focused recipes, by name."""
    pipelines: Mapping[str, PipelineRecipe]
    """End-to-end recipes, by name."""
    runs: Mapping[str, tuple[RecipeRun, ...]]
    """The end-to-end recipes expanded, by name: parameters put in, schedules read."""
    definitions: Schedules
    """The focused recipes with their places in files, from which an egress is expanded for a
    chip that only planning knows."""
    libraries: Libraries
    """The files that recipes name."""
    workloads: Mapping[str, WorkloadFile]
    goldens: Mapping[tuple[str, str], GoldenFile]
    """By workload and variant; empty when loaded without goldens."""
    tolerances: Tolerances
    frontends: Mapping[str, str]
    """Frontend to what a workload of its must define, an `Entry`."""
