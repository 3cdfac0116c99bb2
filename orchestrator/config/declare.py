"""Definitions as a run keeps them: names and texts, nothing that needs the repository."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.config.files import read_text, whole
from orchestrator.config.models import Egress, Param, Pool, Recipe, RecipeStep, ScheduleStep
from orchestrator.config.objects import Config
from orchestrator.config.recipes import check_file, library_file, run_names
from orchestrator.job import Contract
from orchestrator.results.declared import (
    Declared,
    DeclaredEgress,
    DeclaredExpectation,
    DeclaredParam,
    DeclaredPipeline,
    DeclaredPool,
    DeclaredRecipe,
    DeclaredStack,
    DeclaredStage,
)


def declare(config: Config) -> Declared:
    """What `config` says, without what only this machine knows."""
    matrix = config.matrix
    return Declared(
        pipelines={name: _pipeline(config, name) for name in matrix.pipelines},
        recipes={name: _recipe(config, name) for name in sorted(config.schedules)},
        pools={name: _pool(pool) for name, pool in matrix.pools.items()},
        stacks={name: _stack(config, name) for name in matrix.stacks},
        workloads={name: config.workloads[name].about for name in sorted(config.workloads)},
        expectations=tuple(
            DeclaredExpectation(
                cells=each.cells,
                status=each.status,
                phase=each.phase,
                match=each.match,
                reason=each.reason,
                issue=each.issue,
                owner=each.owner,
                since=each.since.isoformat(),
                expires=each.expires.isoformat(),
            )
            for each in matrix.expectations
        ),
    )


def _pipeline(config: Config, name: str) -> DeclaredPipeline:
    entry = config.matrix.pipelines[name]
    recipe = config.pipelines[entry.recipe]
    return DeclaredPipeline(
        about=entry.about,
        tier=entry.tier,
        stack=entry.stack,
        ingress=recipe.ingress.frontend,
        stages=_stages(recipe.steps),
        egress={driver: _egress(egress) for driver, egress in recipe.egress.items()},
        pools=entry.pools,
        text=_text(config, f"recipes/pipelines/{entry.recipe}.yaml"),
    )


def _stages(steps: Sequence[RecipeStep]) -> tuple[DeclaredStage, ...]:
    return tuple(
        DeclaredStage(stage=stage, recipe=step.recipe)
        for stage, step in zip(run_names(steps), steps, strict=True)
    )


def _egress(egress: Egress) -> DeclaredEgress:
    return DeclaredEgress(kernels=_stages(egress.kernels), host=_stages(egress.host))


def _recipe(config: Config, name: str) -> DeclaredRecipe:
    definition = config.definitions[name]
    recipe, source = whole(definition), definition.source
    return DeclaredRecipe(
        about=recipe.about.strip(),
        tier=recipe.tier,
        params={key: _param(param) for key, param in recipe.params.items()},
        contract=Contract(**recipe.contract.model_dump()),
        uses=tuple(
            dict.fromkeys(step.recipe for step in recipe.steps if isinstance(step, RecipeStep))
        ),
        files={source.file: _text(config, source.file)}
        | {file: config.libraries[file] for file in _files(recipe, source.file)},
    )


def _text(config: Config, file: str) -> str:
    """What a file says now; empty when it is gone, which a run's results do not depend on."""
    return read_text(config.root, file, []) or ""


def _files(recipe: Recipe, file: str) -> list[str]:
    """What a recipe names, each once: schedules in order, then the check."""
    schedules = [library_file(file, s) for s in recipe.steps if isinstance(s, ScheduleStep)]
    checks = [] if recipe.check is None else [check_file(file, recipe.check)]
    return list(dict.fromkeys([*schedules, *checks]))


def _param(param: Param) -> DeclaredParam:
    return DeclaredParam(type=param.type, default=param.default, about=param.about)


def _pool(pool: Pool) -> DeclaredPool:
    return DeclaredPool(
        about=pool.about,
        tier=pool.tier,
        egress=pool.gpu.code if pool.gpu else "",
        executes=pool.gpu is None or pool.gpu.device != "none",
    )


def _stack(config: Config, name: str) -> DeclaredStack:
    stack = config.matrix.stacks[name]
    packages = config.pins.stacks[name].packages
    return DeclaredStack(
        about=stack.about,
        tier=stack.tier,
        versions={"LLVM": config.pins.llvm.version, **packages},
    )
