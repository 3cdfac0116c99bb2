"""Bundles that are damaged, or made on purpose to do harm: each is refused, and says why."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import DefinitionError, UsageError
from orchestrator.harness.arrays import npz
from orchestrator.harness.gpu import sources, validity
from orchestrator.harness.gpu.opened import opened
from tests.harness.gpu import bundles
from tests.harness.gpu.bundles import INPUT, SHAPE
from tests.property import examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of two chips whose second argument is stored."""
    return bundles.with_stored(tmp_path / "toy")


def use(path: Path) -> None:
    """Reads everything in a bundle."""
    with opened(path) as found:
        found.arguments()
        found.golden()


def refused(path: Path) -> str:
    """Why a bundle is refused, before or when it is used; its path is told first."""
    with pytest.raises(DefinitionError) as caught:
        use(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


# --- Reading what is damaged ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / "bundle.json").unlink(), "bundle.json: missing: the bundle is not whole"),
        (
            lambda f: (f / "golden.npz").unlink(),
            "golden.npz: missing: the bundle is not whole",
        ),
        (
            lambda f: (f / "chips/sm_90/host.so").write_bytes(b"host code for sm_91"),
            "chips/sm_90/host.so: its bytes are not those that were bundled",
        ),
        (
            lambda f: (f / "orchestrator/records.py").write_bytes(b""),
            "orchestrator/records.py: cut short at 0 of ",
        ),
        (
            lambda f: os.truncate(f / "golden.npz", 100),
            "golden.npz: cut short at 100 of ",
        ),
        (
            lambda f: (f / "chips/sm_80/first.ptx").write_bytes(b"x" * 99),
            "chips/sm_80/first.ptx: larger than 8 bytes",
        ),
        (
            lambda f: shutil.rmtree(f / "chips"),
            "chips/sm_80/first.ptx: missing: the bundle is not whole",
        ),
        (
            lambda f: os.truncate(f / "bundle.json", 1000),
            "bundle.json: ",
        ),
    ],
)
def test_a_damaged_bundle_is_refused(
    folder: Path, damage: Callable[[Path], object], why: str
) -> None:
    damage(folder)
    assert refused(folder).startswith(why)


def test_an_archive_that_is_damaged_is_refused(folder: Path, tmp_path: Path) -> None:
    whole = bundles.archived(folder).read_bytes()
    path = tmp_path / "x.bundle.zip"
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert refused(path).startswith("no bundle: no zip archive")
    place = whole.index(b"golden.npz") + len("golden.npz") + 20
    path.write_bytes(whole[:place] + bytes(40) + whole[place + 40 :])
    assert refused(path).startswith("golden.npz: damaged: ")


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no bundle .*/nothing"):
        use(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "no bundle: neither a folder nor an archive"
    assert refused(tmp_path) == "bundle.json: missing: the bundle is not whole"


# --- Reading what was made on purpose ---------------------------------------------------------


def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.move(folder / "chips", outside)
    (folder / "chips").symlink_to(outside)
    assert refused(folder).startswith("chips/sm_80/first.ptx: no file that can be read")
    (folder / "chips").unlink()
    shutil.move(outside, folder / "chips")
    (folder / "golden.npz").rename(tmp_path / "golden.npz")
    (folder / "golden.npz").symlink_to(tmp_path / "golden.npz")
    assert refused(folder).startswith("golden.npz: no file that can be read")


def test_a_pipe_among_the_files_is_not_waited_for(folder: Path) -> None:
    (folder / "golden.npz").unlink()
    os.mkfifo(folder / "golden.npz")
    assert refused(folder) == "golden.npz: no regular file"


def test_a_link_in_an_archive_is_refused(folder: Path) -> None:
    path = bundles.archived(folder)
    with zipfile.ZipFile(path) as old:
        members = {info.filename: (info, old.read(info)) for info in old.infolist()}
    members["golden.npz"][0].external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as new:
        for info, data in members.values():
            new.writestr(info, data)
    assert refused(path) == "golden.npz: no regular file"


def test_an_archive_that_says_less_than_it_holds(folder: Path, tmp_path: Path) -> None:
    # a few bytes that become a gigabyte of zeros, where a small file was promised
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.rglob("*"):
            if file.is_file() and file.name != "golden.npz":
                archive.write(file, file.relative_to(folder).as_posix())
        with archive.open("golden.npz", "w", force_zip64=True) as member:
            for _ in range(64):
                member.write(bytes(1 << 20))
    size = (folder / "golden.npz").stat().st_size
    assert refused(path) == f"golden.npz: larger than {size:,} bytes"


def test_an_archive_with_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_INDEX_BYTES", 70_000)
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(2000):
            archive.writestr(f"file-{i}", b"")
    assert refused(path) == "no bundle: no zip archive (its index is too large)"


def change(*keys: str | int, to: Any) -> Callable[[Any], None]:
    """Sets what is below these keys."""

    def apply(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return apply


def moved(name: str, new: str) -> Callable[[Any], None]:
    """Renames a file."""

    def apply(value: Any) -> None:
        value["files"][new] = value["files"].pop(name)

    return apply


HOSTILE: list[tuple[Callable[[Any], None], str]] = [
    (change("schema", to=2), "of schema 2, and this program reads schema 1"),
    (change("schema", to="1"), "of schema '1', and this program"),
    (lambda v: v.pop("entry"), "bundle.json: missing key 'entry'"),
    (change("more", to=1), "bundle.json: unknown key 'more'"),
    (change("driver", to="metal"), "bundle.json.driver: expected one of"),
    (change("entry", to="x\0y"), "is no name of a function"),
    (change("entry", to=""), "'' is no name of a function"),
    (change("chips", to={}), "no code for any chip"),
    (lambda v: v["chips"].update({"../../x": v["chips"]["sm_90"]}), "is no name of a chip"),
    (lambda v: v["chips"].update({"a/b": v["chips"]["sm_90"]}), "is no name of a chip"),
    (change("chips", "sm_90", "library", to="/etc/passwd"), "'/etc/passwd' is not among its files"),
    (change("chips", "sm_80", "kernels", to=["x.ptx"]), "'x.ptx' is not among its files"),
    (moved("golden.npz", "../golden.npz"), "'../golden.npz' is no name for a file"),
    (moved("golden.npz", "/golden.npz"), "'/golden.npz' is no name for a file"),
    (moved("golden.npz", "a/../../golden.npz"), "is no name for a file of a bundle"),
    (moved("golden.npz", ".golden"), "'.golden' is no name for a file"),
    (moved("golden.npz", "bundle.json"), "'bundle.json' is no name for a file"),
    (moved("golden.npz", "x" * 300), "is no name for a file of a bundle"),
    (moved("golden.npz", "other.npz"), "no golden.npz among its files"),
    (moved("arguments.npz", "other.npz"), "no arguments.npz among its files"),
    (change("files", "golden.npz", "size", to=-1), "golden.npz: no size and digest"),
    (change("files", "golden.npz", "sha256", to="x"), "golden.npz: no size and digest"),
    (change("files", "golden.npz", "size", to=1 << 62), "bytes of files; a bundle has at most"),
    (change("files", "golden.npz", "size", to=10**400), "bytes of files; a bundle has at most"),
    (change("arguments", 0, "shape", to=[-1]), "(-1,) is no shape"),
    (change("arguments", 0, "shape", to=[1] * 40), "is no shape"),
    (change("arguments", 0, "shape", to=[1 << 40, 1 << 40]), "bytes of arguments and outputs"),
    (change("results", 0, "shape", to=[10**30]), "bytes of arguments and outputs; at most"),
    (change("results", to=[]), "no outputs: there is nothing to compare"),
    (change("arguments", 0, "element", to="f8"), "expected one of"),
    (change("arguments", 0, "through", to=[]), "rounded to nothing, not to f32"),
    (change("arguments", 0, "through", to=["f32", "i8"]), "argument 0: a formula rounded to"),
    (change("arguments", 0, "formula", "divide_by", to=0), "a formula that gives no numbers"),
    (change("arguments", 0, "formula", "plus", to="NaN"), "a formula that gives no numbers"),
    (change("arguments", 0, "formula", "times", to="Infinity"), "a formula that gives no numbers"),
    (change("tolerance", to={}), "no tolerance for f32"),
    (change("tolerance", "f32", "rtol", to="NaN"), "not two numbers of 0 or more"),
    (change("tolerance", "f32", "atol", to="Infinity"), "not two numbers of 0 or more"),
    (change("tolerance", "f32", "atol", to=-1), "not two numbers of 0 or more"),
    (change("tolerance", "f32", "atol", to=10**400), "a number too large for a float"),
]


@pytest.mark.parametrize(("spoil", "why"), HOSTILE, ids=[why for _, why in HOSTILE])
def test_what_no_bundle_may_ask_for(folder: Path, spoil: Callable[[Any], None], why: str) -> None:
    bundles.edit(folder, spoil)
    message = refused(folder)
    assert message.startswith("bundle.json: ")
    assert why in message


def test_too_many_files_are_refused(folder: Path) -> None:
    about = {"size": 0, "sha256": "0" * 64}

    def spoil(value: Any) -> None:
        value["files"] |= {f"x{i}": about for i in range(validity.MAX_FILES)}

    bundles.edit(folder, spoil)
    assert "files; a bundle has at most 2,000" in refused(folder)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "bundle.json: nested too deeply"),
        (b'{"schema": 1, "x": ' + b"[" * 100_000, "bundle.json: nested too deeply"),
        (b"\xff\xfe", "bundle.json: "),
        (b"", "bundle.json: Expecting value"),
        (b"[]", "bundle.json: of schema None"),
        (b'{"schema": NaN}', "bundle.json: NaN is no number in JSON"),
        (b'{"schema": 1' + b"0" * 5000 + b"}", "bundle.json: Exceeds the limit"),
        (b" " * ((8 << 20) + 1), "bundle.json: larger than 8,388,608 bytes"),
    ],
    ids=["deep", "deep inside", "no text", "empty", "a list", "NaN", "huge", "long"],
)
def test_a_document_that_is_none(folder: Path, text: bytes, why: str) -> None:
    (folder / "bundle.json").write_bytes(text)
    assert refused(folder).startswith(why)


def raw_npy(shape: str, dtype: str = "<i8", data: bytes = b"") -> bytes:
    """An `.npy` file with any header."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def raw_npz(member: bytes, name: str = "argument_1.npy") -> bytes:
    """An `.npz` archive of one member."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "a damaged archive"),
        (raw_npz(raw_npy("(2, 3)", data=bytes(48)))[:90], "a damaged archive"),
        (raw_npz(raw_npy("(2, 3)"), "output_1.npy"), "it has no argument_1"),
        (raw_npz(raw_npy("(2, 3)", data=bytes(47))), "argument_1 is cut short"),
        (raw_npz(raw_npy("(1000000000000, 3)")), "argument_1 is (1000000000000, 3) int64"),
        (raw_npz(raw_npy("(2, 3)", "|O", bytes(48))), "argument_1 is (2, 3) object"),
        (raw_npz(raw_npy("(2, 3)", ">i8", bytes(48))), "argument_1 is (2, 3) >i8"),
        (raw_npz(raw_npy("(2, 3)", "<f8", bytes(48))), "argument_1 is (2, 3) float64"),
        (raw_npz(raw_npy("(2, 3)", "<i4", bytes(24))), "argument 1 is int32, and should be i64"),
        (raw_npz(b"\x93NUMPY\x09\x00"), "argument_1: format (9, 0)"),
        (raw_npz(b"no array"), "magic string"),
        (npz({"argument_1": np.arange(6).reshape(2, 3) + 1}), "are not those that it was made"),
    ],
    ids=[
        *("empty", "truncated", "another name", "short", "huge", "pickled"),
        *("swapped", "floats", "narrow", "format", "no array", "other numbers"),
    ],
)
def test_arguments_that_are_not_what_they_should_be(folder: Path, data: bytes, why: str) -> None:
    bundles.replace(folder, "arguments.npz", data)
    assert why in refused(folder)


def test_a_golden_of_the_wrong_kind(folder: Path) -> None:
    bundles.replace(folder, "golden.npz", npz({"output_0": np.zeros(SHAPE, np.uint16)}))
    assert refused(folder) == "golden.npz: output_0 is (100,) uint16, and should be (100,)"


@examples(30)
@given(cut=st.integers(0, 10**6), flip=st.integers(0, 10**6), with_digest=st.booleans())
def test_arrays_are_refused_or_right_whatever_is_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, with_digest: bool
) -> None:
    target = tmp_path_factory.mktemp("bundle") / "b"
    bundles.write(
        target, bundles.built(target.parent, "sm_90"), loaded=bundles.loaded(("f32", INPUT))
    )
    whole = (target / "arguments.npz").read_bytes()
    data = bytearray(whole[: cut % (len(whole) + 1)])
    if data:
        data[flip % len(data)] ^= 0x55
    if with_digest:
        bundles.replace(target, "arguments.npz", bytes(data))
    else:
        (target / "arguments.npz").write_bytes(data)
    try:
        with opened(target) as found:
            ((_, again),) = found.arguments()
    except DefinitionError:
        return
    assert again.tobytes() == INPUT.tobytes()


def test_a_file_that_changes_after_it_was_checked_is_not_used(folder: Path) -> None:
    with opened(folder) as found:
        (folder / "chips/sm_90/host.so").write_bytes(b"host code for sm_91")
        with pytest.raises(DefinitionError, match="its bytes are not those"):
            found.library("sm_90", folder)


def test_the_document_is_plain_json(folder: Path) -> None:
    value = json.loads((folder / "bundle.json").read_bytes())
    assert value["schema"] == 1
    assert value["arguments"][0]["formula"]["stream"] == "input:0"
