"""Parcels: the same bytes for the same files, and nothing outside the folder, whatever is sent."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.backends import parcel
from orchestrator.backends.parcel import Bounds, ParcelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "results").mkdir(parents=True)
    (made / "results" / "a@b.1.json").write_text("{}")
    (made / "order.json").write_text("order")
    (made / "lock").touch()
    (made / ".hidden").write_text("secret")
    (made / "link").symlink_to("/etc/passwd")
    return made


def names(path: Path) -> set[str]:
    return {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()}


def test_a_folder_comes_back_without_what_does_not_travel(folder: Path, tmp_path: Path) -> None:
    sha256 = parcel.pack(folder, tmp_path / "p.tar.gz", skip=("lock",))
    assert parcel.digest(tmp_path / "p.tar.gz") == sha256
    parcel.unpack(tmp_path / "p.tar.gz", tmp_path / "back")
    assert names(tmp_path / "back") == {"results/a@b.1.json", "order.json"}
    assert (tmp_path / "back" / "order.json").read_text() == "order"


def test_the_same_files_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = parcel.pack(folder, tmp_path / "1.tar.gz")
    (folder / "order.json").touch()
    assert parcel.pack(folder, tmp_path / "2.tar.gz") == first
    (folder / "order.json").write_text("other")
    assert parcel.pack(folder, tmp_path / "3.tar.gz") != first


def test_what_tar_makes_of_a_folder_is_a_parcel(folder: Path, tmp_path: Path) -> None:
    (folder / "link").unlink()
    (folder / ".hidden").unlink()
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.add(folder, ".")
    parcel.unpack(tmp_path / "p.tar.gz", tmp_path / "back")
    assert names(tmp_path / "back") == {"results/a@b.1.json", "order.json", "lock"}


def member(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 1, link: str = ""
) -> Callable[[tarfile.TarFile], None]:
    """Adds one member to an archive."""

    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, size if kind == tarfile.REGTYPE else 0, link
        tar.addfile(info, io.BytesIO(b"x" * info.size))

    return add


HOSTILE = {
    "leads up": (member("../evil"), "no plain relative path"),
    "leads up from below": (member("results/../../evil"), "no plain relative path"),
    "absolute": (member("/tmp/evil"), "no plain relative path"),
    "hidden": (member(".ssh/authorized_keys"), "no plain relative path"),
    "control characters": (member("a\x1b[2Jb"), "no plain relative path"),
    "empty": (member(""), "no plain relative path"),
    "very long": (member("a/" * 500 + "a"), "no plain relative path"),
    "a link": (member("a", tarfile.SYMTYPE, link="/etc/passwd"), "no regular file"),
    "a hard link": (member("a", tarfile.LNKTYPE, link="/etc/passwd"), "no regular file"),
    "a device": (member("a", tarfile.CHRTYPE), "no regular file"),
    "a pipe": (member("a", tarfile.FIFOTYPE), "no regular file"),
    "too large": (member("a", size=2000), "too large"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_parcel_is_refused_as_a_whole(tmp_path: Path, kind: str) -> None:
    evil, told = HOSTILE[kind]
    inside = tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(inside / "p.tar.gz", "w:gz") as tar:
        member("fine")(tar)
        evil(tar)
    with pytest.raises(ParcelError, match=told):
        parcel.unpack(inside / "p.tar.gz", inside / "back", Bounds(file_bytes=1000))
    assert names(tmp_path) == {"inside/p.tar.gz"}


def archive(path: Path, *adds: Callable[[tarfile.TarFile], None]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for add in adds:
            add(tar)
    return path


def test_bounds_hold_for_all_files_together(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", *(member(f"f{n}", size=400) for n in range(5)))
    with pytest.raises(ParcelError, match="too large"):
        parcel.unpack(path, tmp_path / "back", Bounds(total_bytes=1000))
    with pytest.raises(ParcelError, match="more than 4 files"):
        parcel.unpack(path, tmp_path / "back", Bounds(files=4))
    parcel.unpack(path, tmp_path / "back", Bounds(files=5, total_bytes=2000))


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", member("a"), member("a", size=2))
    with pytest.raises(ParcelError, match="twice"):
        parcel.unpack(path, tmp_path / "back")


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", member("a"), member("a/b"))
    with pytest.raises(ParcelError, match="twice"):
        parcel.unpack(path, tmp_path / "back")


def test_a_header_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"comment": "x" * (8 << 20)}
        tar.addfile(info)

    path = archive(tmp_path / "p.tar.gz", add)
    with pytest.raises(ParcelError, match="a header is too large"):
        parcel.unpack(path, tmp_path / "back")


def test_what_follows_the_end_is_bounded(tmp_path: Path) -> None:
    path = archive(tmp_path / "p.tar.gz", member("a"))
    with gzip.open(path, "ab") as file:
        file.write(bytes(4 << 20))
    with pytest.raises(ParcelError, match="it does not end"):
        parcel.unpack(path, tmp_path / "back", Bounds(total_bytes=1 << 20))


@pytest.mark.parametrize("keep", [0, 1, 9, 60])
def test_one_that_was_cut_short_is_refused(folder: Path, tmp_path: Path, keep: int) -> None:
    whole = tmp_path / "p.tar.gz"
    parcel.pack(folder, whole)
    whole.write_bytes(whole.read_bytes()[:keep])
    with pytest.raises(ParcelError, match=r"p\.tar\.gz is no parcel"):
        parcel.unpack(whole, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_one_with_a_flipped_bit_is_refused(folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "p.tar.gz"
    parcel.pack(folder, whole)
    data = bytearray(whole.read_bytes())
    data[-6] ^= 1  # of the checksum at the end
    whole.write_bytes(bytes(data))
    with pytest.raises(ParcelError):
        parcel.unpack(whole, tmp_path / "back")
