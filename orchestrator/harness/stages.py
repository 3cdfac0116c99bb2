"""Recipes one after the other, each a stage with a name and an IR that is kept."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.harness.context import Stage
from orchestrator.harness.lowering import check_before, lower
from orchestrator.job import RecipeRun, Step


class Lowering:
    """Takes a module through recipes and keeps what each of them leaves."""

    def __init__(self, stage: Stage, folder: str) -> None:
        """`folder`: of the kept IR, numbered from 01 in it."""
        self._stage = stage
        self._folder = folder
        self._kept = 0

    def through(self, recipes: Sequence[RecipeRun], ir: str) -> str:
        """The module after all recipes.

        Raises:
            CompilerFault: a pass refused it, or a contract was broken.
        """
        toolchain = self._stage.context.toolchain
        printer = ""
        for recipe in recipes:
            self._stage.enter(f"lower:{recipe.name}", "fail")
            check_before(recipe.contract, ir)
            if printer != recipe.steps[0].tool:  # else a change of printer would pass for a change
                ir = toolchain.apply(Step(tool=recipe.steps[0].tool, passes=""), ir)
            ir = lower(toolchain, recipe, ir)
            printer = recipe.steps[-1].tool
            self.keep(recipe.name, ir)
        return ir

    def keep(self, name: str, ir: str) -> None:
        """Keeps a module under the next number."""
        self._kept += 1
        self._stage.context.keep(f"{self._folder}/{self._kept:02}-{name}.mlir", ir.encode())
