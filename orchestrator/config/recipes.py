"""Recipes: checked against each other, and expanded into the steps that a cell runs.

All that can be wrong with a recipe is found by `recipe_checks`, so that `expand` cannot fail:
parameters are typed, and a reference `${name}` has the type of the parameter it names.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from orchestrator.config.files import Definition, read_text, whole
from orchestrator.config.models import (
    GpuPool,
    Param,
    ParamValue,
    PassStep,
    PipelineRecipe,
    Recipe,
    RecipeStep,
    ScheduleStep,
)
from orchestrator.errors import Problem
from orchestrator.job import Contract, RecipeRun, Step, Target

Schedules = Mapping[str, Definition[Recipe]]
"""Focused recipes by name; one whose file is wrong has no value."""

Libraries = Mapping[str, str]
"""Transform-dialect schedules and FileCheck directives: file, relative to the repository, to
text."""

CHIP = "chip"
"""The parameter that an egress has without declaring it."""

REFERENCE = re.compile(r"\$\{([a-z][a-z0-9_-]*)\}")
"""`${name}`: the value of a parameter."""


def library_file(recipe_file: str, step: ScheduleStep) -> str:
    """Where the schedule of a recipe's step is, relative to the repository."""
    return posixpath.normpath((PurePosixPath(recipe_file).parent / step.schedule).as_posix())


def check_file(recipe_file: str, name: str) -> str:
    """Where the FileCheck directives of a recipe are, relative to the repository."""
    return posixpath.normpath((PurePosixPath(recipe_file).parent / name).as_posix())


def read_libraries(root: Path, schedules: Schedules, problems: list[Problem]) -> dict[str, str]:
    """The files that recipes name, schedules and checks; a problem for each that is none."""
    libraries: dict[str, str] = {}
    for definition in schedules.values():
        for path, file in _named_files(definition):
            kind = "check" if path == ("check",) else "schedule"
            if not (root / file).is_file() or not file.startswith("recipes/"):
                message = f"no {kind} {file}: it stands beside the recipe"
                problems.append(definition.source.problem(path, message))
            elif (text := read_text(root, file, problems)) is not None:
                libraries[file] = text
                if wrong := _wrong_library(kind, text):
                    problems.append(Problem(file, 0, 0, wrong))
    return libraries


def _named_files(definition: Definition[Recipe]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    recipe, file = definition.value, definition.source.file
    if recipe is None:
        return
    for index, step in enumerate(recipe.steps):
        if isinstance(step, ScheduleStep):
            yield ("steps", index, "schedule"), library_file(file, step)
    if recipe.check is not None:
        yield ("check",), check_file(file, recipe.check)


def _wrong_library(kind: str, text: str) -> str:
    if kind == "check":
        return "" if "CHECK" in text else "has no CHECK directive: it would accept anything"
    if "@__transform_main" in text:
        return ""
    return "defines no `@__transform_main`, the sequence that is interpreted"


def fits(kind: str, value: ParamValue) -> bool:
    """Whether a value has the type that a parameter declares; a whole number is a number."""
    if isinstance(value, bool):
        return kind == "bool"
    if isinstance(value, int):
        return kind in ("int", "float")
    return kind == ("float" if isinstance(value, float) else "str")


def run_names(steps: Sequence[RecipeStep]) -> tuple[str, ...]:
    """The stage names `lower:<name>` of steps: their recipes, `-2` and so on when repeated."""
    names: list[str] = []
    for step in steps:
        name, count = step.recipe, 1
        while name in names:
            count += 1
            name = f"{step.recipe}-{count}"
        names.append(name)
    return tuple(names)


# --- expansion --------------------------------------------------------------------------------


def expand(
    pipeline: PipelineRecipe, schedules: Schedules, libraries: Libraries
) -> tuple[RecipeRun, ...]:
    """One run for each step of a pipeline, nested recipes flattened into its steps.

    Works on recipes that `recipe_checks` found nothing wrong with.
    """
    env = {name: _default(param) for name, param in pipeline.params.items()}
    return _expand(pipeline.steps, env, schedules, libraries)


def expand_target(
    pipeline: PipelineRecipe, gpu: GpuPool, chip: str, schedules: Schedules, libraries: Libraries
) -> Target:
    """A pipeline's egress to one kind of GPU; empty where the frontend compiles by itself."""
    egress = pipeline.egress.get(gpu.code)
    if egress is None:
        return Target(driver=gpu.driver, chip=chip)
    env = {name: _default(param) for name, param in pipeline.params.items()} | {CHIP: chip}
    return Target(
        driver=gpu.driver,
        chip=chip,
        kernels=_expand(egress.kernels, env, schedules, libraries),
        host=_expand(egress.host, env, schedules, libraries),
    )


def _expand(
    steps: Sequence[RecipeStep],
    env: Mapping[str, ParamValue],
    schedules: Schedules,
    libraries: Libraries,
) -> tuple[RecipeRun, ...]:
    runs = []
    for name, step in zip(run_names(steps), steps, strict=True):
        definition = schedules[step.recipe]
        recipe = whole(definition)
        bound = _bind(recipe, step, env)
        check = ""
        if recipe.check is not None:
            check = libraries[check_file(definition.source.file, recipe.check)]
        runs.append(
            RecipeRun(
                name=name,
                steps=tuple(_flatten(definition, bound, schedules, libraries)),
                contract=Contract(**recipe.contract.model_dump()),
                check=_substitute(check, bound),
            )
        )
    return tuple(runs)


def _flatten(
    definition: Definition[Recipe],
    env: Mapping[str, ParamValue],
    schedules: Schedules,
    libraries: Libraries,
) -> Iterator[Step]:
    for index, step in enumerate(whole(definition).steps):
        line = definition.source.values[("steps", index)].line
        source = f"{definition.source.file}:{line}"
        if isinstance(step, PassStep):
            passes = " ".join(_substitute(step.pass_, env).split())
            yield Step(tool=step.tool, passes=passes, source=source)
        elif isinstance(step, ScheduleStep):
            text = libraries[library_file(definition.source.file, step)]
            yield Step(tool="mlir-opt", passes="", library=_substitute(text, env), source=source)
        else:
            callee = schedules[step.recipe]
            yield from _flatten(callee, _bind(whole(callee), step, env), schedules, libraries)


def _default(param: Param) -> ParamValue:
    assert param.default is not None
    return float(param.default) if param.type == "float" else param.default


def _bind(recipe: Recipe, step: RecipeStep, env: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """The parameters of a recipe, as a step of its caller sets them."""
    bound: dict[str, ParamValue] = {}
    for name, param in recipe.params.items():
        if name not in step.params:
            bound[name] = _default(param)
            continue
        value = step.params[name]
        if isinstance(value, str):
            whole = REFERENCE.fullmatch(value)
            value = env[whole[1]] if whole else _substitute(value, env)
        bound[name] = float(value) if param.type == "float" else value
    return bound


def _substitute(text: str, env: Mapping[str, ParamValue]) -> str:
    return REFERENCE.sub(lambda match: _spelled(env[match[1]]), text)


def _spelled(value: ParamValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # MLIR's floating-point literals have a point: 1.0e-05
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return str(value)
