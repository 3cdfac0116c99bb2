"""Programs under test, as far as one can tell without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.config.frontends import read_frontends
from orchestrator.config.workloads import read_workload
from orchestrator.errors import Problem
from tests.config.tree import Tree

ROOT = Path(__file__).parents[2]
MODEL = "class Model: ...\n"
INPUTS = "def get_inputs(): ...\n"


def read(path: Path) -> tuple[object, list[str]]:
    problems: list[Problem] = []
    found = read_workload(path, "x.py", problems)
    return found, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    "text",
    [
        MODEL + INPUTS,
        "def model(): ...\n" + INPUTS,
        "model = print\nget_inputs: object = list\n",
        "from a import Model\nfrom b import x as get_inputs\n",
        "'''Odd escape: \\d'''\n" + MODEL + INPUTS,
    ],
)
def test_right(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.py"
    path.write_text(text, encoding="utf-8")
    found, problems = read(path)
    assert found is not None
    assert problems == []


def test_what_it_defines_names_its_frontends(tmp_path: Path) -> None:
    frontends = read_frontends(ROOT)
    path = tmp_path / "x.py"
    for frontend, entry in {
        "torch_mlir": "Model",
        "jax_stablehlo": "model",
        "triton_lang": "launch",
    }.items():
        path.write_text(f"def {entry}(): ...\n{INPUTS}", encoding="utf-8")
        found = read_workload(path, "x.py", [])
        assert found is not None
        assert found.entry == entry == frontends[frontend]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            INPUTS.encode(),
            (
                "x.py  defines neither a class `Model` (PyTorch) nor a function `model` (JAX) or "
                "`launch` (Triton)"
            ),
        ),
        (MODEL.encode(), "x.py  defines no function `get_inputs`"),
        (
            f"{MODEL}def get_input(): ...".encode(),
            "x.py  defines no function `get_inputs`. Did you mean `get_input` to be it?",
        ),
        (
            f"{MODEL}def get_init_inputs(): ...".encode(),
            "x.py  defines no function `get_inputs`",
        ),
        (b"class Model:", "x.py:1:13  not valid Python: expected an indented block"),
        (b"def f(:\n", "x.py:1:7  not valid Python: invalid syntax"),
    ],
)
def test_wrong(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(content)
    found, (problem,) = read(path)
    assert found is None
    assert problem.startswith(said)


@pytest.mark.parametrize("content", [b"\0", b"\xff\xfe", b"x = '\xff'", b"(" * 10_000])
def test_what_is_no_python_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(content)
    found, (problem,) = read(path)
    assert found is None
    assert "not valid Python" in problem


def test_not_there(tmp_path: Path) -> None:
    assert read(tmp_path / "x.py") == (None, ["x.py  cannot be read: No such file or directory"])


def test_two_workloads_with_one_name(tree: Tree) -> None:
    tree.write("recipes/workloads/more/sum.py", MODEL + INPUTS)
    assert tree.problems() == [
        ("recipes/workloads/more/sum.py  the name `sum` is taken by recipes/workloads/sum.py")
    ]


def test_a_file_name_that_is_no_name(tree: Tree) -> None:
    tree.write("recipes/workloads/My-model.py", MODEL + INPUTS)
    assert tree.problems() == [
        (
            "recipes/workloads/My-model.py  `My-model` is no name: begin with a letter, "
            "use lower-case letters, digits and `_`"
        )
    ]
