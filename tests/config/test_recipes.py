"""Recipes that do not fit each other, or themselves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.files import Definition
from orchestrator.config.models import PipelineRecipe, Recipe
from orchestrator.config.recipe_checks import check_recipes
from orchestrator.config.recipes import expand
from orchestrator.config.source import read
from orchestrator.config.validate import validate
from tests.config.tree import Tree

TILE = "recipes/schedules/tile.yaml"
MLIR = "recipes/schedules/tile.mlir"
CLEAN = "recipes/schedules/clean-up.yaml"
LLVM = "recipes/schedules/to-llvm.yaml"
TORCH = "recipes/pipelines/torch_cpu.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        # names
        (
            TORCH,
            "  - recipe: to-llvm",
            "  - recipe: to-lvm",
            (
                f"{TORCH}:11:13  steps[1].recipe: no recipe `to-lvm`. Did you mean `to-llvm`? "
                "Recipes: clean-up, tile, to-llvm"
            ),
        ),
        (
            TILE,
            "  - recipe: clean-up",
            "  - recipe: nowhere",
            f"{TILE}:15:13  steps[2].recipe: no recipe `nowhere`. Recipes: clean-up, tile, to-llvm",
        ),
        (
            TILE,
            "schedule: tile.mlir",
            "schedule: tail.mlir",
            (
                f"{TILE}:14:15  steps[1].schedule: no schedule recipes/schedules/tail.mlir: "
                "it stands beside the recipe"
            ),
        ),
        (
            TILE,
            "schedule: tile.mlir",
            "schedule: ../../tile.mlir",
            f"{TILE}:14:15  steps[1].schedule: no schedule tile.mlir: it stands beside the recipe",
        ),
        (
            MLIR,
            "@__transform_main",
            "@main",
            f"{MLIR}  defines no `@__transform_main`, the sequence that is interpreted",
        ),
        # parameters of the recipe itself
        (
            TILE,
            "size=${size}",
            "size=${siez}",
            (
                f"{TILE}:11:11  steps[0].pass: recipe `tile` has no parameter `siez`. "
                "Did you mean `size`? Parameters: fast, size"
            ),
        ),
        (
            MLIR,
            "${fast}",
            "${fast} ${last}",
            (
                f"{MLIR}:2:26  recipe `tile` has no parameter `last`. Did you mean `fast`? "
                "Parameters: fast, size"
            ),
        ),
        (
            LLVM,
            "convert-to-llvm",
            "convert-to-llvm{x=${y}}",
            (
                f"{LLVM}:4:11  steps[0].pass: recipe `to-llvm` has no parameter `y`. "
                "There are no parameters"
            ),
        ),
        (
            MLIR,
            "${fast}",
            "fast",
            f"{TILE}:5:3  params.fast: no step uses this parameter",
        ),
        (
            TORCH,
            "${width}",
            "8",
            (
                f"{TORCH}:7:3  params.width: no step uses this parameter\n"
                f"{TORCH}:10:20  steps[0].params.size: expected a whole number, got the text `8`"
            ),
        ),
        (
            TORCH,
            "{type: int, default: 8}",
            "{type: int}",
            (
                f"{TORCH}:7:10  params.width: needs a default: nothing sets the parameters of a "
                "pipeline"
            ),
        ),
        (
            TILE,
            "default: true",
            "default: 1",
            f"{TILE}:5:31  params.fast.default: expected `true` or `false`, got the number 1",
        ),
        (
            TILE,
            "size=${size}",
            "size=${size} x=${}",
            f"{TILE}:11:11  steps[0].pass: `${{}}` names no parameter: write `${{name}}`",
        ),
        (
            TILE,
            "size=${size}",
            "size=${size} x=${Size}",
            f"{TILE}:11:11  steps[0].pass: `${{Size}}` names no parameter: write `${{name}}`",
        ),
        (
            TILE,
            "size=${size}",
            "size=${size} x=$size",
            f"{TILE}:11:11  steps[0].pass: write `${{size}}` for the parameter `size`",
        ),
        # parameters of others
        (
            TORCH,
            "    params: {size: 4}",
            "    params: {size: 4, sise: 5}",
            (
                f"{TORCH}:13:23  steps[2].params.sise: recipe `tile` has no parameter `sise`. "
                "Did you mean `size`? Parameters: fast, size"
            ),
        ),
        (
            TORCH,
            "    params: {size: 4}",
            "    params: {}",
            f"{TORCH}:12:13  steps[2].recipe: recipe `tile` needs its parameter `size` set",
        ),
        (
            TORCH,
            "    params: {size: 4}",
            "    params: {size: 4.0}",
            f"{TORCH}:13:20  steps[2].params.size: expected a whole number, got the number 4.0",
        ),
        (
            TORCH,
            "    params: {size: 4}",
            "    params: {size: true}",
            f"{TORCH}:13:20  steps[2].params.size: expected a whole number, got `true`",
        ),
        (
            TORCH,
            "    params: {size: 4}",
            '    params: {size: "4${width}"}',
            f"{TORCH}:13:20  steps[2].params.size: expected a whole number, got the text `4`",
        ),
        (
            TORCH,
            "{type: int, default: 8}",
            "{type: float, default: 8}",
            (
                f"{TORCH}:10:20  steps[0].params.size: expected a whole number, "
                "and `width` is a number"
            ),
        ),
        # the text of passes
        (
            TILE,
            "{size=${size}}",
            "{size=${size}",
            f"{TILE}:11:11  steps[0].pass: `{{` is never closed",
        ),
        (LLVM, "to-llvm\n", "to-llvm)\n", f"{LLVM}:4:11  steps[0].pass: `)` closes nothing"),
        (LLVM, "convert-to-llvm", "f(g{)}", f"{LLVM}:4:11  steps[0].pass: `)` closes nothing"),
        (LLVM, "convert-to-llvm", '" "', f"{LLVM}:4:11  steps[0].pass: names no pass"),
        # tiers
        (
            CLEAN,
            "tier: core",
            "tier: peripheral",
            (
                f"{TILE}:15:13  steps[2].recipe: a core recipe cannot depend on the "
                "peripheral recipe "
                "`clean-up`"
            ),
        ),
        (
            LLVM,
            "tier: core",
            "tier: peripheral",
            (
                f"{TORCH}:11:13  steps[1].recipe: a core recipe cannot depend on the peripheral "
                "recipe `to-llvm`"
            ),
        ),
    ],
)
def test_one_slip(tree: Tree, file: str, old: str, new: str, said: str) -> None:
    tree.edit(file, old, new)
    assert tree.problems() == said.splitlines()


def test_peripheral_recipes_may_depend_on_anything(tree: Tree) -> None:
    for file in (CLEAN, TILE, TORCH):
        tree.edit(file, "tier: core", "tier: peripheral")
    tree.edit("matrix.yaml", "tier: core\n    about: PyTorch", "tier: peripheral\n    about: P")
    assert tree.problems() == []


def test_a_recipe_that_uses_itself(tree: Tree) -> None:
    tree.edit(LLVM, "  - pass: convert-to-llvm", "  - recipe: to-llvm")
    assert tree.problems() == [f"{LLVM}:4:13  steps[0].recipe: recipe cycle: to-llvm -> to-llvm"]


def test_a_longer_cycle_is_shown_whole_and_once(tree: Tree) -> None:
    tree.edit(LLVM, "  - pass: convert-to-llvm", "  - recipe: clean-up")
    tree.edit(CLEAN, "    tool: frontend-opt", "  - recipe: tile\n    params: {size: 1}")
    tree.edit(TILE, "  - recipe: clean-up\n", "  - recipe: clean-up\n  - recipe: to-llvm\n")
    tree.edit(TILE, '    params: {rate: "${size}"}\n', "")
    assert tree.problems() == [
        f"{TILE}:15:13  steps[2].recipe: recipe cycle: clean-up -> tile -> clean-up",
        f"{LLVM}:4:13  steps[0].recipe: recipe cycle: clean-up -> tile -> to-llvm -> clean-up",
    ]


def test_two_recipes_with_one_name(tree: Tree) -> None:
    tree.write("recipes/schedules/cpu/tile.yaml", "x: 1")
    tree.write("recipes/pipelines/torch_cpu.yml", "x: 1")
    assert tree.problems() == [
        (
            "recipes/pipelines/torch_cpu.yml  the name `torch_cpu` is taken by "
            "recipes/pipelines/torch_cpu.yaml"
        ),
        "recipes/schedules/cpu/tile.yaml  the name `tile` is taken by recipes/schedules/tile.yaml",
    ]


def test_a_file_name_that_is_no_name(tree: Tree) -> None:
    tree.write("recipes/schedules/Tile 2.yaml", "x: 1")
    assert tree.problems() == [
        (
            "recipes/schedules/Tile 2.yaml  `Tile 2` is no name: begin with a letter, "
            "use lower-case letters, digits and `_` or `-`"
        )
    ]


def test_a_wrong_recipe_leads_to_no_further_messages(tree: Tree) -> None:
    tree.edit(CLEAN, "steps:", "steps: 3\nstopes:")
    assert len(tree.problems()) == 2


# --- parameters, whatever they are -------------------------------------------------------------


def recipe(name: str, value: dict[str, Any]) -> Definition[Recipe]:
    source, problems = read(f"{name}.yaml", json.dumps({"about": "For a test.", **value}))
    assert problems == []
    checked = validate(Recipe, source)
    assert checked.problems == ()
    return Definition(name=name, source=source, value=checked.value, complete=True)


def pipeline(param: dict[str, Any]) -> Definition[PipelineRecipe]:
    """Hands its parameter through two recipes, `outer` and `inner`, to a pass."""
    value = {
        "about": "For a test.",
        "tier": "core",
        "ingress": {"frontend": "torch_mlir"},
        "params": {"x": param},
        "steps": [{"recipe": "outer", "params": {"y": "${x}"}}],
    }
    source, _ = read("p.yaml", json.dumps(value))
    return Definition(
        name="p", source=source, value=validate(PipelineRecipe, source).value, complete=True
    )


def schedules(kind: str) -> dict[str, Definition[Recipe]]:
    step = {"recipe": "inner", "params": {"z": "${y}"}}
    outer = {"tier": "core", "params": {"y": {"type": kind}}, "steps": [step]}
    inner = {"tier": "core", "params": {"z": {"type": kind}}, "steps": [{"pass": "p{o=${z}}"}]}
    return {"outer": recipe("outer", outer), "inner": recipe("inner", inner)}


_VALUES = (
    st.tuples(st.just("int"), st.integers(-(2**63), 2**63 - 1))
    | st.tuples(st.just("float"), st.floats(allow_nan=False, allow_infinity=False))
    | st.tuples(st.just("bool"), st.booleans())
    | st.tuples(st.just("str"), st.text("abcXYZ019_.:+=/-", max_size=10))
)


@given(_VALUES)
def test_a_value_reaches_the_pass_as_it_was_set(
    typed: tuple[str, bool | int | float | str],
) -> None:
    kind, value = typed
    known = schedules(kind)
    caller = pipeline({"type": kind, "default": value})
    assert check_recipes(known, {"p": caller}, {}) == []
    assert caller.value is not None
    ((step,),) = [run.steps for run in expand(caller.value, known, {})]
    written = re.fullmatch(r"p\{o=(.*)\}", step.passes)
    assert written is not None
    if kind == "float":
        # MLIR's literal, and nothing lost on the way
        assert re.fullmatch(r"-?\d+\.\d+(e[-+]?\d+)?", written[1])
        assert float(written[1]) == value
    else:
        assert written[1] == (str(value).lower() if kind == "bool" else str(value))


@given(st.text(max_size=12))
def test_no_text_parameter_can_end_its_option(text: str) -> None:
    caller = pipeline({"type": "str", "default": text})
    problems = check_recipes(schedules("str"), {"p": caller}, {})
    dangerous = re.search(r"""[\s,;{}()\[\]<>"'`$\\]""", text)
    assert problems or not dangerous
    assert all("a text parameter cannot hold" in problem.message for problem in problems)
