"""What can be wrong with recipes: their steps, parameters, cycles and tiers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.config.files import Definition
from orchestrator.config.messages import got
from orchestrator.config.models import (
    AnyStep,
    Param,
    ParamValue,
    PassStep,
    PipelineRecipe,
    Recipe,
    RecipeStep,
)
from orchestrator.config.recipes import (
    CHIP,
    REFERENCE,
    Libraries,
    Schedules,
    check_file,
    fits,
    library_file,
)
from orchestrator.config.source import Path, Source
from orchestrator.config.suggest import unknown
from orchestrator.errors import Problem

_NO_NAME = re.compile(r"\$\{(?![a-z][a-z0-9_-]*\})[^}\s]{0,20}\}?")
_NO_BRACES = re.compile(r"\$([A-Za-z_]\w*)")
_SAFE = re.compile(r"[A-Za-z0-9_.:+=/-]*")
"""What a text parameter may hold: nothing that ends an option or begins another."""

_A_TYPE = {"int": "a whole number", "float": "a number", "bool": "`true` or `false`", "str": "text"}
_BRACKETS = {")": "(", "}": "{", "]": "["}


def check_recipes(
    schedules: Schedules, pipelines: Mapping[str, Definition[PipelineRecipe]], libraries: Libraries
) -> list[Problem]:
    """Every problem of every recipe; with none, `recipes.expand` works on all of them."""
    problems: list[Problem] = []
    every: list[Definition[Recipe] | Definition[PipelineRecipe]]
    every = [*schedules.values(), *pipelines.values()]
    for definition in every:
        if definition.value is not None:
            check = _Check(definition.name, definition.source, definition.value, schedules)
            problems += check.problems(libraries)
    return problems + list(_cycles(schedules))


@dataclass(frozen=True)
class _Text:
    """A text in which `${name}` stands for a parameter, and where it is."""

    source: Source
    path: Path
    text: str

    def problem(self, offset: int, message: str) -> Problem:
        """At the value that holds the text; in a file that is nothing else, at the offset."""
        if self.path:
            return self.source.problem(self.path, message)
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return Problem(self.source.file, line, column, message)


@dataclass(frozen=True)
class _Check:
    name: str
    source: Source
    recipe: Recipe | PipelineRecipe
    schedules: Schedules

    def problems(self, libraries: Libraries) -> list[Problem]:
        problems = list(self._declarations())
        used: set[str] = set()
        unread = False
        for path, step in self._steps():
            problems += self._step(step, path)
            texts = self._texts(step, path, libraries)
            unread = unread or texts is None
            for text in texts or ():
                problems += self._references(text, used)
        if isinstance(self.recipe, Recipe) and self.recipe.check is not None:
            file = check_file(self.source.file, self.recipe.check)
            unread = unread or file not in libraries
            text = _Text(Source(file=file, data=None), (), libraries.get(file, ""))
            problems += self._references(text, used)
        if not unread:
            problems += [
                self.source.problem(("params", name), "no step uses this parameter", key=True)
                for name in self.recipe.params
                if name not in used
            ]
        return problems

    def _steps(self) -> Iterator[tuple[Path, AnyStep]]:
        for index, step in enumerate(self.recipe.steps):
            yield ("steps", index), step
        if isinstance(self.recipe, PipelineRecipe):
            for driver, egress in self.recipe.egress.items():
                for part, steps in (("kernels", egress.kernels), ("host", egress.host)):
                    for index, step in enumerate(steps):
                        yield ("egress", driver, part, index), step

    def _params(self, path: Path) -> Mapping[str, Param]:
        """The parameters that a step may refer to."""
        implied = {CHIP: Param(type="str")} if path[:1] == ("egress",) else {}
        return {**self.recipe.params, **implied}

    # --- parameters: declared

    def _declarations(self) -> Iterator[Problem]:
        for name, param in self.recipe.params.items():
            path: Path = ("params", name)
            if param.default is None:
                if isinstance(self.recipe, PipelineRecipe):
                    message = "needs a default: nothing sets the parameters of a pipeline"
                    yield self.source.problem(path, message)
            elif wrong := _wrong_value(param, param.default, self._written((*path, "default"))):
                yield self.source.problem((*path, "default"), wrong)

    def _written(self, path: Path) -> str:
        return self.source.texts.get(path, "")

    # --- parameters: used

    def _texts(self, step: AnyStep, path: Path, libraries: Libraries) -> list[_Text] | None:
        """None: a schedule could not be read, so nobody knows what it uses."""
        if isinstance(step, PassStep):
            return [_Text(self.source, (*path, "pass"), step.pass_)]
        if isinstance(step, RecipeStep):
            return [
                _Text(self.source, (*path, "params", name), value)
                for name, value in step.params.items()
                if isinstance(value, str)
            ]
        file = library_file(self.source.file, step)
        if file not in libraries:
            return None
        return [_Text(Source(file=file, data=None), (), libraries[file])]

    def _references(self, text: _Text, used: set[str]) -> Iterator[Problem]:
        params = self._params(text.path)
        for match in REFERENCE.finditer(text.text):
            used.add(match[1])
            if match[1] not in params:
                message = unknown("parameter", match[1], params)
                yield text.problem(match.start(), f"recipe `{self.name}` has {message}")
        for match in _NO_NAME.finditer(text.text):
            message = f"`{match[0]}` names no parameter: write `${{name}}`"
            yield text.problem(match.start(), message)

    # --- steps

    def _step(self, step: AnyStep, path: Path) -> Iterator[Problem]:
        if isinstance(step, PassStep):
            if wrong := _wrong_passes(step.pass_):
                yield self.source.problem((*path, "pass"), wrong)
        elif isinstance(step, RecipeStep):
            yield from self._call(step, path)

    def _call(self, step: RecipeStep, path: Path) -> Iterator[Problem]:
        definition = self.schedules.get(step.recipe)
        if definition is None:
            message = unknown("recipe", step.recipe, self.schedules)
            yield self.source.problem((*path, "recipe"), message)
            return
        callee = definition.value
        if callee is None:
            return
        if self.recipe.tier == "core" and callee.tier == "peripheral":
            message = f"a core recipe cannot depend on the peripheral recipe `{step.recipe}`"
            yield self.source.problem((*path, "recipe"), message)
        for name, value in step.params.items():
            place: Path = (*path, "params", name)
            if name not in callee.params:
                message = unknown("parameter", name, callee.params)
                message = f"recipe `{step.recipe}` has {message}"
                yield self.source.problem(place, message, key=True)
            elif wrong := self._wrong_argument(callee.params[name], value, place):
                yield self.source.problem(place, wrong)
        for name, param in callee.params.items():
            if param.default is None and name not in step.params:
                message = f"recipe `{step.recipe}` needs its parameter `{name}` set"
                yield self.source.problem((*path, "recipe"), message)

    def _wrong_argument(self, param: Param, value: ParamValue, place: Path) -> str:
        """Why a parameter cannot be set to a value, which may refer to our own; or nothing."""
        if isinstance(value, str) and (whole := REFERENCE.fullmatch(value)):
            ours = self._params(place).get(whole[1])
            if ours is None or ours.type == param.type or (ours.type, param.type) == _WIDENING:
                return ""
            return f"expected {_A_TYPE[param.type]}, and `{whole[1]}` is {_A_TYPE[ours.type]}"
        if isinstance(value, str):
            value = REFERENCE.sub("", value)
        return _wrong_value(param, value, self._written(place))


_WIDENING = ("int", "float")


def _wrong_value(param: Param, value: ParamValue, text: str) -> str:
    if not fits(param.type, value):
        return f"expected {_A_TYPE[param.type]}, got {got(value, text)}"
    if isinstance(value, str) and not _SAFE.fullmatch(value):
        bad = sorted(set(_SAFE.sub("", value)))
        return f"a text parameter cannot hold {' '.join(f'`{c}`' for c in bad)}"
    return ""


def _wrong_passes(text: str) -> str:
    """What is wrong with the text of a pass step, as far as it shows without `mlir-opt`."""
    if not text.strip():
        return "names no pass"
    if bare := _NO_BRACES.search(text):
        return f"write `${{{bare[1]}}}` for the parameter `{bare[1]}`"
    if _NO_NAME.search(text):
        return ""  # told where references are
    opened: list[str] = []
    for character in REFERENCE.sub("", text):
        if character in _BRACKETS.values():
            opened.append(character)
        elif character in _BRACKETS and (not opened or opened.pop() != _BRACKETS[character]):
            return f"`{character}` closes nothing"
    return f"`{opened[-1]}` is never closed" if opened else ""


# --- cycles -----------------------------------------------------------------------------------


def _cycles(schedules: Schedules) -> Iterator[Problem]:
    """Each cycle once, told at the step that closes it."""
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> Iterator[Problem]:
        definition = schedules[name]
        recipe = definition.value
        for index, step in enumerate(recipe.steps if recipe else ()):
            if not isinstance(step, RecipeStep) or step.recipe not in schedules:
                continue
            trail = (*above, name)
            if step.recipe in trail:
                cycle = (*trail[trail.index(step.recipe) :], step.recipe)
                path: Path = ("steps", index, "recipe")
                message = f"recipe cycle: {' -> '.join(cycle)}"
                yield definition.source.problem(path, message)
            elif step.recipe not in done:
                yield from visit(step.recipe, trail)
        done.add(name)

    for name in schedules:
        if name not in done:
            yield from visit(name, ())
