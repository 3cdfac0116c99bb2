"""Bundles as they are written, and as they come back."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import __version__
from orchestrator.harness import formula
from orchestrator.harness.blame import CompilerFault, DefinitionFault
from orchestrator.harness.elements import Array, rounded
from orchestrator.harness.formula import FormulaSpec, for_input
from orchestrator.harness.gpu.bundle import archive_name
from orchestrator.harness.gpu.opened import opened
from tests.harness.gpu import bundles
from tests.harness.gpu.bundles import INPUT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of two chips whose second argument is stored."""
    return bundles.with_stored(tmp_path / "toy")


def test_a_bundle_comes_back_from_its_folder_and_from_its_archive(
    folder: Path, tmp_path: Path
) -> None:
    with opened(folder) as found:
        bundle = found.bundle
    for path in (folder, bundles.archived(folder)):
        with opened(path) as found:
            assert found.bundle == bundle
            (_, first), (element, second) = found.arguments()
            assert first.tobytes() == INPUT.tobytes()
            assert element == "i64"
            assert second.tolist() == [[0, 1, 2], [3, 4, 5]]
            (golden,) = found.golden()
            assert np.array_equal(golden, 2 * INPUT.astype(np.float64) + 1)
            library = found.library("sm_80", tmp_path)
            assert library.read_bytes() == b"host code for sm_80"
            library.unlink()


def test_the_document_says_where_everything_comes_from(folder: Path) -> None:
    with opened(folder) as found:
        bundle = found.bundle
    assert (bundle.cell, bundle.workload, bundle.variant) == (bundles.CELL, "toy", "f32")
    assert (bundle.entry, bundle.driver, bundle.machine) == ("forward", "cuda", platform.machine())
    assert bundle.golden == "computed"
    assert bundle.versions == {"mlir-opt": "22.1.8", "lighthouse-ci": __version__}
    assert list(bundle.tolerance) == ["f32"]
    code = bundle.chips["sm_90"]
    assert code.library == "chips/sm_90/host.so"
    assert code.kernels == ("chips/sm_90/first.ptx",)
    assert code.facts == (bundles.FACTS,)
    on_disk = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert on_disk == {*bundle.files, "bundle.json"}


def test_an_archive_depends_on_nothing_but_the_bundle(tmp_path: Path) -> None:
    archives = []
    for name in ("one", "two"):
        bundles.write(tmp_path / name, bundles.built(tmp_path, "sm_90"))
        archives.append(bundles.archived(tmp_path / name).read_bytes())
    assert archives[0] == archives[1]


def test_an_archive_is_named_after_its_program() -> None:
    assert archive_name(bundles.cell(variant="bf16")) == "toy.bf16.bundle.zip"


def test_arguments_by_formula_are_not_stored(tmp_path: Path) -> None:
    bundle = bundles.write(tmp_path / "b", bundles.built(tmp_path, "sm_90"))
    assert bundle.arguments[0].formula == for_input(0)
    assert bundle.arguments[0].through == ("f32",)
    assert "arguments.npz" not in bundle.files


WEIGHTS = formula.for_parameter("w", np.zeros((6, 7)))


@pytest.mark.parametrize(
    ("element", "through"),
    [
        ("f32", ("f32",)),
        ("f16", ("f16",)),
        ("bf16", ("bf16",)),
        ("f64", ("f64",)),
        ("f64", ("f32", "f64")),
    ],
)
def test_rounding_is_found_out(tmp_path: Path, element: Any, through: Any) -> None:
    array = rounded(WEIGHTS.numbers((6, 7)), through)
    bundle = bundles.write(
        tmp_path / "b",
        bundles.built(tmp_path, "sm_90"),
        loaded=bundles.loaded((element, array), formulas=[WEIGHTS]),
    )
    assert bundle.arguments[0].through == through
    with opened(tmp_path / "b") as found:
        ((_, again),) = found.arguments()
    assert again.tobytes() == array.tobytes()


def test_rounding_in_two_steps_is_told_from_one(tmp_path: Path) -> None:
    # 1 + 2**-11 is in the middle of two f16; a little more is lost on the way through f32
    spec = FormulaSpec(stream="input:0", times=2.0**-40, plus=1 + 2.0**-11)
    numbers = spec.numbers((64,))
    once, twice = rounded(numbers, ("f16",)), rounded(numbers, ("f32", "f16"))
    assert once.tobytes() != twice.tobytes()
    for array, through in ((once, ("f16",)), (twice, ("f32", "f16"))):
        target = tmp_path / through[0]
        bundle = bundles.write(
            target,
            bundles.built(tmp_path, "sm_90"),
            loaded=bundles.loaded(("f16", array), formulas=[spec]),
        )
        assert bundle.arguments[0].through == through


@pytest.mark.parametrize("formulas", [[for_input(1)], [None], []])
def test_what_no_formula_gives_to_the_bit_is_stored(
    tmp_path: Path, formulas: list[FormulaSpec | None]
) -> None:
    bundle = bundles.write(
        tmp_path / "b",
        bundles.built(tmp_path, "sm_90"),
        loaded=bundles.loaded(("f32", INPUT), formulas=formulas),
    )
    assert bundle.arguments[0].formula is None
    with opened(tmp_path / "b") as found:
        ((_, again),) = found.arguments()
    assert again.tobytes() == INPUT.tobytes()


def test_one_bit_is_enough_to_store_an_argument(tmp_path: Path) -> None:
    array = INPUT.copy()
    array.view(np.uint32)[99] ^= 1
    bundle = bundles.write(
        tmp_path / "b",
        bundles.built(tmp_path, "sm_90"),
        loaded=bundles.loaded(("f32", array), formulas=[for_input(0)]),
    )
    assert bundle.arguments[0].formula is None


@pytest.mark.parametrize("array", [np.zeros((0, 3), np.uint8), np.array(True), np.array(7)])
def test_arrays_of_any_shape_are_stored(tmp_path: Path, array: Array) -> None:
    element: Any = {"uint8": "u8", "bool": "i1", "int64": "i64"}[array.dtype.name]
    bundles.write(
        tmp_path / "b",
        bundles.built(tmp_path, "sm_90"),
        loaded=bundles.loaded((element, array)),
        results=[(element, array.shape)],
        golden=[array],
    )
    with opened(tmp_path / "b") as found:
        ((_, again),) = found.arguments()
        (golden,) = found.golden()
    for each in (again, golden):
        assert each.dtype == array.dtype
        assert np.array_equal(each, array)


def test_a_golden_that_cannot_be_compared_is_not_bundled(tmp_path: Path) -> None:
    program = bundles.built(tmp_path, "sm_90")
    with pytest.raises(CompilerFault, match=r"output 0 is \(100,\), its golden \(99,\)"):
        bundles.write(tmp_path / "b", program, golden=[np.zeros(99)])
    with pytest.raises(CompilerFault, match="output 0 is f32, its golden int64"):
        bundles.write(tmp_path / "b", program, golden=[np.zeros(100, np.int64)])
    with pytest.raises(CompilerFault, match="the program has 1 outputs, its golden 0"):
        bundles.write(tmp_path / "b", program, golden=[])
    with pytest.raises(DefinitionFault, match="no tolerance for f32"):
        bundles.write(tmp_path / "b", program, cell={"tolerance": {}})
    assert not (tmp_path / "b").exists()


def test_a_bundle_is_for_one_driver(tmp_path: Path) -> None:
    one, two = bundles.built(tmp_path, "sm_90"), bundles.built(tmp_path, "gfx942", driver="hip")
    with pytest.raises(ValueError, match="too many values"):
        bundles.write(tmp_path / "b", one, two)
