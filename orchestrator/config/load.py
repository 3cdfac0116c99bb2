"""Reading a repository's definitions: every problem of every file at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from orchestrator.config.checks import Definitions, cross_check
from orchestrator.config.files import read_definition, read_folder, whole
from orchestrator.config.frontends import read_frontends
from orchestrator.config.goldens import missing_goldens, read_goldens
from orchestrator.config.models import Matrix, Pins, PipelineRecipe, Recipe, Tolerances
from orchestrator.config.objects import Config, GoldenFile, WorkloadFile
from orchestrator.config.recipe_checks import check_recipes
from orchestrator.config.recipes import Libraries, expand, read_libraries
from orchestrator.config.workloads import read_workloads
from orchestrator.errors import DefinitionError, Problem, UsageError

__all__ = ["Config", "GoldenFile", "WorkloadFile", "find_root", "load"]

MATRIX = "matrix.yaml"


def find_root(start: Path) -> Path:
    """The nearest folder at or above `start` that has a `matrix.yaml`, absolute.

    Raises:
        UsageError: there is none.
    """
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / MATRIX).is_file():
            return folder
    raise UsageError(
        f"no {MATRIX} in {here} or any folder above it. Go into a clone of the repository first"
    )


def load(root: Path, *, goldens: bool = True, today: dt.date | None = None) -> Config:
    """All definitions under `root`. Workload files are parsed, never run.

    Args:
        root: the folder with `matrix.yaml`.
        goldens: False leaves them out and unchecked (`Config.goldens` is empty), for recording.
        today: when given, an expectation that expired before that day is a problem.

    Raises:
        DefinitionError: carries all problems of all files.
    """
    root = root.resolve()
    problems: list[Problem] = []
    workloads, names = read_workloads(root, problems)
    definitions = Definitions(
        root=root,
        matrix=read_definition(root, MATRIX, Matrix, problems),
        pins=read_definition(root, "images/pins.yaml", Pins, problems),
        schedules=read_folder(root, "recipes/schedules", Recipe, problems),
        pipelines=read_folder(root, "recipes/pipelines", PipelineRecipe, problems),
        tolerances=read_definition(root, "golden/tolerances.yaml", Tolerances, problems),
        workloads=names,
        entries={workload.name: workload.entry for workload in workloads.values()},
        frontends=read_frontends(root),
    )
    libraries = read_libraries(root, definitions.schedules, problems)
    problems += check_recipes(definitions.schedules, definitions.pipelines, libraries)
    problems += cross_check(definitions, today)
    recorded = {}
    if goldens:
        recorded = read_goldens(root, workloads, names, problems)
        if definitions.matrix.complete:
            problems += missing_goldens(root, definitions.cells)
    if problems:
        raise DefinitionError(list(dict.fromkeys(problems)))
    return _config(definitions, libraries, workloads, recorded)


def _config(
    definitions: Definitions,
    libraries: Libraries,
    workloads: Mapping[str, WorkloadFile],
    goldens: Mapping[tuple[str, str], GoldenFile],
) -> Config:
    """What definitions without a problem come to."""
    schedules = definitions.schedules
    pipelines = {name: whole(d) for name, d in definitions.pipelines.items()}
    return Config(
        frontends=definitions.frontends,
        root=definitions.root,
        matrix=whole(definitions.matrix),
        pins=whole(definitions.pins),
        schedules={name: whole(d) for name, d in schedules.items()},
        pipelines=pipelines,
        runs={name: expand(recipe, schedules, libraries) for name, recipe in pipelines.items()},
        definitions=schedules,
        libraries=libraries,
        workloads=workloads,
        goldens=goldens,
        tolerances=whole(definitions.tolerances),
    )
