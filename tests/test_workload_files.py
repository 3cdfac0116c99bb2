"""Every workload file follows the convention, seen without importing it or its framework."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "recipes" / "workloads"
FILES = sorted(FOLDER.glob("*.py"))
IMPORTABLE = {
    "torch": {"torch", "math"},
    "jax": {"jax", "numpy", "math"},
    "triton": {"triton", "torch", "numpy", "math"},
}

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def frontend(path: Path) -> str:
    prefix = path.stem.partition("_")[0]
    return prefix if prefix in IMPORTABLE else "torch"


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), path.name)


def defined(tree: ast.Module) -> set[str]:
    """Names of the module's own functions and classes."""
    return {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The module's upper-case names and what is assigned to them."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def imported(tree: ast.Module) -> set[str]:
    """Top-level names of all imports, at any depth; a relative import counts as `.`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else str(node.module).split(".")[0])
    return names


def test_enough_workloads_for_each_frontend() -> None:
    kinds = [frontend(path) for path in FILES]
    assert kinds.count("torch") >= 34
    assert kinds.count("jax") >= 8
    assert kinds.count("triton") >= 5


@each_file
def test_first_docstring_line_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(parse(path))
    assert docstring is not None
    about = docstring.splitlines()[0]
    assert 20 <= len(about) <= 94
    assert about.endswith(".")


@each_file
def test_defines_what_the_harness_calls(path: Path) -> None:
    expected = {
        "torch": {"Model", "get_inputs", "get_init_inputs"},
        "jax": {"model", "get_inputs"},
        "triton": {"launch", "get_inputs", "reference"},
    }
    assert expected[frontend(path)] <= defined(parse(path))


@each_file
def test_constants_are_literals(path: Path) -> None:
    # one computed from another when the file is loaded would ignore a later override
    values = constants(parse(path))
    assert values
    for value in values.values():
        ast.literal_eval(value)


@each_file
def test_imports_its_frontend_and_nothing_of_ours(path: Path) -> None:
    names = imported(parse(path))
    assert frontend(path) in names
    assert names <= IMPORTABLE[frontend(path)]
