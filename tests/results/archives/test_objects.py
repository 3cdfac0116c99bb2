"""Objects at addresses: created once, fetched once, and failures in words for people."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.archives.objects import Folder, Gone, Remote, every, open_objects
from tests.results.archives.samples import KINDS, Loose, make_store


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_there_stays_where_creation_is_exclusive(tmp_path: Path, kind: str) -> None:
    objects = make_store(tmp_path, kind).objects
    assert objects.listed() == ()
    assert objects.create("a/b.parquet", b"1")
    assert objects.create("c.parquet", b"1")
    assert objects.create("c.parquet", b"22") != objects.exclusive
    assert objects.read("c.parquet") == (b"1" if objects.exclusive else b"22")
    assert [stored.name for stored in objects.listed()] == ["c.parquet"]
    objects.remove("c.parquet")
    objects.remove("c.parquet")
    with pytest.raises(Gone):
        objects.read("c.parquet")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_replaced_is_fetched_again(tmp_path: Path, kind: str) -> None:
    objects, cache = make_store(tmp_path, kind).objects, tmp_path / "cache"
    for data in (b"1", b"2"):
        objects.create("a.parquet", data)
        (stored,) = objects.listed()
        path = objects.fetched(stored, cache)
        assert path.read_bytes() == data
        assert list(every(objects, cache).glob("*.parquet")) == [path]
        objects.remove("a.parquet")
    with pytest.raises(Gone):
        objects.fetched(type(stored)(name="b.parquet", size=1, version="0"), cache)


def test_folders_are_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address in ("x", str(tmp_path / "x"), f"file://{tmp_path}/x"):
        objects = open_objects(address)
        assert isinstance(objects, Folder)
        assert objects.folder == tmp_path / "x"


@pytest.mark.parametrize("address", ["zzz://bucket", "s4://x"])
def test_an_address_that_nobody_knows(address: str) -> None:
    with pytest.raises(UsageError, match="A store's address is a folder, or such as s3://"):
        open_objects(address)


class Failing(Loose):
    """Raises whatever it is told to."""

    protocol = "memory"
    error: Exception = OSError()

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Fails."""
        raise self.error

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """Fails."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError("denied"), "denied"),
        (FileNotFoundError("no bucket"), "there is no such place"),
        (RuntimeError("sftp://me:secret@host says no"), "sftp://host says no"),
        (KeyError(), "KeyError"),
    ],
)
def test_failures_are_told_without_passwords(error: Exception, message: str) -> None:
    system = Failing()
    system.error = error
    objects = Remote("memory://me:secret@x/y", system, "/x/y")
    with pytest.raises(InfrastructureError) as caught:
        objects.create("a.parquet", b"")
    assert str(caught.value) == f"cannot create a.parquet in memory://x/y: {message}"


def test_a_race_that_a_system_tells_in_its_own_words_is_lost() -> None:
    system = Failing()
    system.error = RuntimeError("412")
    Loose().pipe_file("/x/y/taken.parquet", b"first")
    assert not Remote("memory://x/y", system, "/x/y").create("taken.parquet", b"")


def test_a_store_that_cannot_be_listed(tmp_path: Path) -> None:
    system = Failing()
    system.error = RuntimeError("down")
    with pytest.raises(InfrastructureError, match="cannot list memory://x: down"):
        Remote("memory://x", system, "/x").listed()


def test_a_file_system_without_hard_links_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(InfrastructureError, match="has no hard links"):
        Folder(tmp_path).create("a.parquet", b"")
    assert list(tmp_path.iterdir()) == []


def test_what_dead_writers_left_goes(tmp_path: Path) -> None:
    for name, age in ((".old.tmp", 2 * 24 * 3600), (".new.tmp", 60)):
        (tmp_path / name).write_bytes(b"x")
        then = (tmp_path / name).stat().st_mtime - age
        os.utime(tmp_path / name, (then, then))
    assert Folder(tmp_path).listed() == ()
    assert [path.name for path in tmp_path.iterdir()] == [".new.tmp"]
