"""What no file can get wrong alone: names that must exist, and promises that must agree."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cached_property
from pathlib import Path as FilePath

from orchestrator.config.cells import CellKey, cell_keys, selected
from orchestrator.config.files import Definition
from orchestrator.config.models import (
    Expectation,
    GpuPool,
    Matrix,
    Pins,
    Pipeline,
    PipelineRecipe,
    Recipe,
    Selection,
    Tolerances,
)
from orchestrator.config.recipes import run_names
from orchestrator.config.source import Path, Source
from orchestrator.config.suggest import listing, nearest, unknown
from orchestrator.errors import Problem
from orchestrator.harness.gpu.chips import wrong_chip
from orchestrator.job import Driver

PHASES = ("build", "ingress", "codegen", "execute", "compare", "perf")
"""Phases of a failure, besides `lower:<recipe>`."""


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """All files as they were read, right or wrong."""

    root: FilePath
    matrix: Definition[Matrix]
    pins: Definition[Pins]
    schedules: Mapping[str, Definition[Recipe]]
    pipelines: Mapping[str, Definition[PipelineRecipe]]
    tolerances: Definition[Tolerances]
    workloads: Sequence[str]
    """Names, those of files with problems included."""
    entries: Mapping[str, str]
    """Workload to what it defines, `Model` or `model`; those with problems are not here."""
    frontends: Mapping[str, str]
    """Frontend to what its workloads must define."""

    @cached_property
    def cells(self) -> tuple[CellKey, ...]:
        """The cells of what is left of the matrix."""
        matrix = self.matrix.value
        return tuple(cell_keys(matrix, self.workloads)) if matrix else ()


def cross_check(definitions: Definitions, today: dt.date | None) -> list[Problem]:
    """Every problem between files.

    Checks that need the whole matrix wait until all of it is right: what a wrong part would
    have named must not be called unused.
    """
    problems = [*_ingress(definitions)]
    matrix = definitions.matrix.value
    if matrix is None:
        return problems
    problems += _stacks(definitions, matrix)
    problems += _workload_options(definitions, matrix)
    problems += _chips(definitions, matrix)
    wrong = [
        problem
        for name, pipeline in matrix.pipelines.items()
        for problem in _pipeline(definitions, name, pipeline)
    ]
    if definitions.matrix.complete and not wrong:
        problems += _expectations(definitions, matrix, today)
        problems += _overrides(definitions)
    return problems + wrong


# --- stacks and frontends ---------------------------------------------------------------------


def _stacks(definitions: Definitions, matrix: Matrix) -> Iterator[Problem]:
    source, pins = definitions.matrix.source, definitions.pins
    for stack in matrix.stacks:
        dockerfile = f"images/{stack}/Dockerfile"
        if not (definitions.root / dockerfile).is_file():
            yield source.problem(("stacks", stack), f"{dockerfile} is missing", key=True)
        if pins.value is not None and stack not in pins.declared("stacks"):
            message = f"images/pins.yaml has no pins for it. It has: {listing(pins.value.stacks)}"
            yield source.problem(("stacks", stack), message, key=True)
    known = definitions.matrix.declared("stacks")
    for stack in pins.declared("stacks"):
        if stack not in known:
            message = f"matrix.yaml has {unknown('stack', stack, known)}"
            yield pins.source.problem(("stacks", stack), message, key=True)


def _chips(definitions: Definitions, matrix: Matrix) -> Iterator[Problem]:
    """Chips that nobody knows, or of another vendor."""
    source = definitions.matrix.source
    for name, pool in matrix.pools.items():
        if pool.gpu is None:
            continue
        path: Path = ("pools", name, "gpu")
        for i, chip in enumerate(pool.gpu.chips or ()):
            if wrong := wrong_chip(chip, pool.gpu.driver):
                yield source.problem((*path, "chips", i), wrong)
        if pool.gpu.device == "none" and pool.gpu.chips is None and pool.gpu.driver != "opencl":
            yield source.problem(path, "`device: none` needs `chips` to make code for")
        yield from _other_egress(source, path, pool.gpu)


def _other_egress(source: Source, path: Path, gpu: GpuPool) -> Iterator[Problem]:
    """An egress that makes no code for the pool's driver, or that has to be told the chips."""
    wanted: Driver = "opencl" if gpu.code == "xevm" else gpu.code
    if gpu.driver != wanted:
        message = f"egress `{gpu.code}` makes code for driver `{wanted}`, not for `{gpu.driver}`"
        yield source.problem((*path, "egress"), message)
    elif gpu.code == "xevm" and gpu.chips is None:
        yield source.problem(path, "egress `xevm` needs `chips` to make code for")


def _ingress(definitions: Definitions) -> Iterator[Problem]:
    frontends = definitions.frontends
    for definition in definitions.pipelines.values():
        recipe = definition.value
        if recipe is not None and recipe.ingress.frontend not in frontends:
            message = unknown("ingress module", recipe.ingress.frontend, frontends)
            yield definition.source.problem(("ingress", "frontend"), message)


# --- pipelines --------------------------------------------------------------------------------


def _pipeline(definitions: Definitions, name: str, pipeline: Pipeline) -> Iterator[Problem]:
    matrix, source = definitions.matrix, definitions.matrix.source
    path: Path = ("pipelines", name)
    named: list[tuple[Path, str, str, Collection[str]]] = [
        ((*path, "stack"), "stack", pipeline.stack, matrix.declared("stacks")),
        ((*path, "recipe"), "recipe", pipeline.recipe, definitions.pipelines),
    ]
    for i, pool in enumerate(pipeline.pools):
        named.append(((*path, "pools", i), "pool", pool, matrix.declared("pools")))
    for place, kind, value, known in named:
        if value not in known:
            message = unknown(kind, value, known)
            if kind == "recipe":
                message = message.replace("Recipes:", "recipes/pipelines has:")
            yield source.problem(place, message)
        elif pipeline.tier == "core" and _tier(definitions, kind, value) == "peripheral":
            message = f"a core pipeline cannot depend on the peripheral {kind} `{value}`"
            yield source.problem(place, message)
        elif kind == "pool" and (wrong := _no_egress(definitions, pipeline, value)):
            yield source.problem(place, wrong)
    for i, selection in enumerate(pipeline.runs):
        yield from _selection(definitions, (*path, "runs", i), selection)
        for j, pool in enumerate(selection.pools):
            if pool not in pipeline.pools:
                message = f"the pipeline has {unknown('pool', pool, pipeline.pools)}"
                yield source.problem((*path, "runs", i, "pools", j), message)
        yield from _conventions(definitions, pipeline, (*path, "runs", i), selection)


def _no_egress(definitions: Definitions, pipeline: Pipeline, name: str) -> str:
    """Why a pipeline's recipe makes no code for a pool; empty when it does."""
    matrix, definition = definitions.matrix.value, definitions.pipelines.get(pipeline.recipe)
    assert matrix is not None
    pool, recipe = matrix.pools.get(name), definition.value if definition else None
    if pool is None or recipe is None or not recipe.steps:
        return ""  # told elsewhere, or a frontend that compiles by itself
    if pool.gpu is None:
        wrong = f"recipe `{pipeline.recipe}` makes GPU code, and `{name}` is a pool of CPUs"
        return wrong if recipe.egress else ""
    if pool.gpu.code in recipe.egress:
        return ""
    known = listing(recipe.egress) or "none: it makes code for CPUs"
    return f"recipe `{pipeline.recipe}` has no egress `{pool.gpu.code}` for it. It has: {known}"


def _tier(definitions: Definitions, kind: str, name: str) -> str | None:
    """None: its own definition is wrong, and told elsewhere."""
    matrix = definitions.matrix.value
    assert matrix is not None
    if kind == "recipe":
        recipe = definitions.pipelines[name].value
        return recipe.tier if recipe else None
    thing = matrix.stacks.get(name) if kind == "stack" else matrix.pools.get(name)
    return thing.tier if thing else None


def _selection(definitions: Definitions, path: Path, selection: Selection) -> Iterator[Problem]:
    names = definitions.workloads
    for i, glob in enumerate(selection.workloads):
        if not any(fnmatchcase(name, glob) for name in names):
            message = _no_workload(glob, names)
            yield definitions.matrix.source.problem((*path, "workloads", i), message)
    taken = list(selected(selection.model_copy(update={"without": ()}), names))
    for i, glob in enumerate(selection.without):
        if taken and not any(fnmatchcase(name, glob) for name in taken):
            message = f"takes nothing away: {_no_workload(glob, taken)}"
            yield definitions.matrix.source.problem((*path, "without", i), message)
    if taken and not any(selected(selection, names)):
        yield definitions.matrix.source.problem(path, "`without` leaves no workload")


def _conventions(
    definitions: Definitions, pipeline: Pipeline, path: Path, selection: Selection
) -> Iterator[Problem]:
    """Workloads in another frontend's convention."""
    definition = definitions.pipelines.get(pipeline.recipe)
    if definition is None or definition.value is None:
        return
    frontend = definition.value.ingress.frontend
    wanted = definitions.frontends.get(frontend)
    for name in selected(selection, definitions.workloads):
        entry = definitions.entries.get(name)
        if wanted and entry and entry != wanted:
            message = f"`{name}` defines `{entry}`; the frontend {frontend} takes `{wanted}`"
            yield definitions.matrix.source.problem((*path, "workloads"), message)


def _no_workload(glob: str, names: Collection[str]) -> str:
    if re.search(r"[*?[]", glob):
        return f"`{glob}` matches no workload. Workloads: {listing(names)}"
    return unknown("workload", glob, names)


def _workload_options(definitions: Definitions, matrix: Matrix) -> Iterator[Problem]:
    for name in matrix.workloads:
        if name not in definitions.workloads:
            message = unknown("workload", name, definitions.workloads)
            yield definitions.matrix.source.problem(("workloads", name), message, key=True)


# --- globs over cells -------------------------------------------------------------------------


def _expectations(
    definitions: Definitions, matrix: Matrix, today: dt.date | None
) -> Iterator[Problem]:
    source = definitions.matrix.source
    expected: dict[str, str] = {}
    for i, expectation in enumerate(matrix.expectations):
        path: Path = ("expectations", i)
        try:
            re.compile(expectation.match)
        except re.error as e:
            yield source.problem((*path, "match"), f"not a regular expression: {e}")
        if today is not None and expectation.expires < today:
            message = f"expired. Fix {expectation.issue}, or look again and set a later day"
            yield source.problem((*path, "expires"), message)
        keys = _matching(definitions, expectation.cells)
        if not keys:
            yield source.problem((*path, "cells"), _no_cell(definitions, expectation.cells))
            continue
        yield from _phase(definitions, matrix, (*path, "phase"), expectation, keys)
        twice = [(key.id, expected[key.id]) for key in keys if key.id in expected]
        if twice:
            cell, other = twice[0]
            message = f"{cell} is expected to fail by `{other}` already: a cell fails in one way"
            yield source.problem((*path, "cells"), message)
        expected |= {key.id: expectation.cells for key in keys}


def _phase(
    definitions: Definitions,
    matrix: Matrix,
    path: Path,
    expectation: Expectation,
    keys: Sequence[CellKey],
) -> Iterator[Problem]:
    phases = list(PHASES)
    for recipe_name in sorted({matrix.pipelines[key.pipeline].recipe for key in keys}):
        recipe = definitions.pipelines[recipe_name].value
        if recipe is None or not recipe.steps:  # a frontend that compiles by itself names its own
            return
        parts = [part for e in recipe.egress.values() for part in (e.kernels, e.host)]
        for steps in (recipe.steps, *parts):
            if any(step.recipe not in definitions.schedules for step in steps):
                return
            phases += [f"lower:{name}" for name in run_names(steps)]
    if expectation.phase not in phases:
        message = unknown("phase", expectation.phase, set(phases))
        yield definitions.matrix.source.problem(path, message)


def _overrides(definitions: Definitions) -> Iterator[Problem]:
    tolerances = definitions.tolerances
    for i, override in enumerate(tolerances.value.overrides if tolerances.value else ()):
        if not _matching(definitions, override.cells):
            message = _no_cell(definitions, override.cells)
            yield tolerances.source.problem(("overrides", i, "cells"), message)


def _matching(definitions: Definitions, glob: str) -> list[CellKey]:
    matches = re.compile(translate(glob)).match
    return [key for key in definitions.cells if matches(key.id)]


def _no_cell(definitions: Definitions, glob: str) -> str:
    ids = [key.id for key in definitions.cells]
    meant = nearest(glob, ids)
    question = f" Did you mean `{meant}`?" if meant else ""
    return f"`{glob}` matches no cell.{question} A cell is `pipeline.workload.variant@pool`"
