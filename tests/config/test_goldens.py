"""Goldens that cannot be trusted."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.config.tree import Tree, npz

AGAIN = ". Record it again: lh-ci golden update mlp"


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (shorten, "truncated at 100 of 298 bytes"),
        (lengthen, "has 299 bytes, 298 were recorded"),
        (flip_a_bit, "its digest (sha256) is not the recorded one: it was changed"),
        (Path.unlink, "the record is there, the array file is missing"),
        (lambda p: p.with_suffix(".json").unlink(), "its record f32.json is missing"),
        (
            lambda p: p.with_suffix(".json").write_text("{"),
            (
                "its record f32.json is not valid JSON: Expecting property name enclosed in "
                "double quotes: line 1 column 2 (char 1)"
            ),
        ),
        (
            lambda p: p.with_suffix(".json").write_text("[]"),
            "its record f32.json is wrong: expected a mapping of keys to values, got a list",
        ),
    ],
)
def test_damaged_file(tree: Tree, damage: Callable[[Path], object], said: str) -> None:
    path = tree.record("mlp", "f32", zipped(output_0=npy(np.ones((2, 3)))))
    damage(path)
    assert tree.problems() == [f"golden/mlp/f32.npz  {said}{AGAIN}"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"size": "300"},
            "its record f32.json is wrong: size: expected a whole number, got the text `300`",
        ),
        ({"sha257": "x"}, "its record f32.json is wrong: sha257: unknown key. "),
        (
            {"recorded": "yesterday"},
            (
                "its record f32.json is wrong: recorded: expected a date such as 2026-11-20, "
                "got the text `yesterday`"
            ),
        ),
        ({"versions": []}, "its record f32.json is wrong: versions: expected a mapping"),
        ({"workload": "sum"}, "recorded as sum/f32"),
        ({"variant": "f16"}, "recorded as mlp/f16"),
        ({"workload_sha256": "1" * 64}, "recorded from another version of mlp.py"),
    ],
)
def test_wrong_record(tree: Tree, changed: dict[str, object], said: str) -> None:
    tree.record("mlp", "f32", changed=changed)
    (problem,) = tree.problems()
    assert problem.startswith(f"golden/mlp/f32.npz  {said}")
    assert problem.endswith(AGAIN)


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


ONES = npy(np.ones(4))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "corrupt: File is not a zip file"),
        (b"no zip at all", "corrupt: File is not a zip file"),
        (zipped(), "corrupt: it holds nothing"),
        (zipped(outputs=ONES), "corrupt: it holds outputs.npy"),
        (zipped(output_1=ONES), "corrupt: it holds output_1.npy"),
        (zipped(output_0=b"\x93NUMPY"), "corrupt: output_0 is no array of numbers"),
        (zipped(output_0=b""), "corrupt: output_0 is no array of numbers"),
        (zipped(output_0=ONES[:-8]), "corrupt: output_0 has 24 of 32 bytes"),
        (zipped(output_0=b"\x94" + ONES[1:]), "corrupt: output_0 has 32 of 32 bytes"),
        (
            zipped(output_0=ONES, output_1=npy(np.array([object()]))),
            "corrupt: output_1 is no array of numbers",
        ),
        (
            zipped(output_0=npy(np.zeros(2, [("a", "f4")]))),
            "corrupt: output_0 is no array of numbers",
        ),
    ],
)
def test_array_file_that_was_recorded_wrongly(tree: Tree, content: bytes, said: str) -> None:
    tree.record("mlp", "f32", content)
    assert tree.problems() == [f"golden/mlp/f32.npz  {said}{AGAIN}"]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "u1", "?", "c8", "V2"])
def test_arrays_of_every_number_type_are_read(tree: Tree, dtype: str) -> None:
    scalar, empty = np.zeros((), dtype), np.zeros((0, 3), dtype)
    tree.record("mlp", "f32", npz(output_0=scalar, output_1=empty, output_2=empty.T))
    assert tree.problems() == []


def test_ten_outputs_are_in_order(tree: Tree) -> None:
    tree.record("mlp", "f32", npz(**{f"output_{i}": np.zeros(1) for i in range(11)}))
    assert tree.problems() == []


def test_missing_golden(tree: Tree) -> None:
    for suffix in (".npz", ".json"):
        (tree.root / "golden/mlp/f16").with_suffix(suffix).unlink()
    assert tree.problems() == [
        "golden/mlp/f16.npz  no golden for torch_cpu. Record it: lh-ci golden update mlp"
    ]


def test_a_changed_workload_makes_its_goldens_stale(tree: Tree) -> None:
    tree.edit("recipes/workloads/sum.py", "class Model: ...", "class Model: 'changed'")
    assert tree.problems() == [
        (
            "golden/sum/f32.npz  recorded from another version of sum.py. "
            "Record it again: lh-ci golden update sum"
        )
    ]


def test_goldens_of_no_workload(tree: Tree) -> None:
    tree.record("summ", "f32")
    tree.record("gone", "f32")
    assert tree.problems() == [
        "golden/gone  no workload `gone`. Bring it back, or delete the folder",
        (
            "golden/summ  no workload `summ`. Did you mean `sum`? Bring it back, "
            "or delete the folder"
        ),
    ]


def test_a_workload_with_a_problem_leaves_its_goldens_alone(tree: Tree) -> None:
    tree.write("recipes/workloads/sum.py", "def (")
    assert tree.problems() == ["recipes/workloads/sum.py:1:5  not valid Python: invalid syntax"]


def test_nothing_is_unpickled(tree: Tree) -> None:
    marker = tree.root / "unpickled"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (marker,))

    tree.record("mlp", "f32", npz(output_0=np.array([Bomb()])))
    assert len(tree.problems()) == 1
    assert not marker.exists()


def test_records_are_plain_json(tree: Tree) -> None:
    text = (tree.root / "golden/mlp/f32.json").read_text(encoding="utf-8")
    assert json.loads(text)["recorded"] == "2026-11-20"
    assert tree.load().goldens["mlp", "f32"].record.recorded.year == 2026
