"""Objects at an address: listed, read, created once, removed; never edited.

Two collectors may add at the same time. Where the file system creates exclusively, one of them
wins a name, and the other is told:

- folders: a file is written beside and linked to its name, which fails where there is one;
- `s3:`, `gs:`: a conditional write (`If-None-Match: *`, `ifGenerationMatch=0`), which fsspec sends
  for `mode="create"`; `memory:` looks and writes in one thread.

Everywhere else fsspec looks first and then writes, so that two may both find nothing: there, names
have a digest of the content, both stay, and what differs is found when it is listed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.files import TEMPORARY, create_atomically, write_atomically
from orchestrator.results.history.archive import SUFFIX

_EXCLUSIVE = frozenset({"s3", "s3a", "gs", "gcs", "memory"})
"""Protocols whose `pipe_file(mode="create")` is one conditional write."""
_VERSION = ("etag", "md5hash", "generation", "mtime", "last_modified", "lastmodified", "created")
"""Of what listings tell: what changes when an object is replaced behind our back."""
_STALE_S = 24 * 3600.0
"""Older temporary files are of a writer that died."""
_TRIES = 5
_PASSWORD = re.compile(r"(?<=://)[^/@]*@")


class Gone(LookupError):  # noqa: N818  others may remove things: that is no error
    """There is no such object, or no more."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An object, as it is listed."""

    name: str
    size: int
    """Bytes."""
    version: str
    """16 hexadecimal digits that differ when the object was replaced."""


class Objects(Protocol):
    """Where a store is. Names have `/` between folders; all raise InfrastructureError when the
    file system fails.
    """

    @property
    def address(self) -> str:
        """As people write it, without a password."""

    @property
    def exclusive(self) -> bool:
        """Whether `create` lets one of several win."""

    def listed(self) -> tuple[Stored, ...]:
        """Files directly in the store, by name."""

    def read(self, name: str) -> bytes:
        """Raises Gone."""

    def create(self, name: str, data: bytes) -> bool:
        """Whether it was created: where there is one of that name, it stays. A file system that
        does not create exclusively replaces it: its names say what is in them.
        """

    def remove(self, name: str) -> None:
        """What is gone is gone."""

    def fetched(self, stored: Stored, cache: Path) -> Path:
        """A local file with an object's content. Raises Gone."""


class Folder:
    """Objects in a folder of this machine."""

    exclusive = True

    def __init__(self, folder: Path) -> None:
        """Takes its path, which need not exist."""
        self.folder = folder
        self.address = str(folder)

    def listed(self) -> tuple[Stored, ...]:
        """See `Objects`; temporary files of writers that died are removed."""
        found = []
        with _told(self.address, "list"):
            for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
                with contextlib.suppress(FileNotFoundError):
                    state = path.stat()
                    if path.name.startswith("."):
                        if path.suffix == TEMPORARY and time.time() - state.st_mtime > _STALE_S:
                            path.unlink()
                    elif path.is_file():
                        version = _version(state.st_size, state.st_mtime_ns, state.st_ino)
                        found.append(Stored(name=path.name, size=state.st_size, version=version))
        return tuple(found)

    def read(self, name: str) -> bytes:
        """See `Objects`."""
        with _told(self.address, f"read {name} from"):
            return (self.folder / name).read_bytes()

    def create(self, name: str, data: bytes) -> bool:
        """See `Objects`."""
        return create_atomically(self.folder / name, data)

    def remove(self, name: str) -> None:
        """See `Objects`."""
        with _told(self.address, f"remove {name} from"):
            (self.folder / name).unlink(missing_ok=True)

    def fetched(self, stored: Stored, cache: Path) -> Path:  # noqa: ARG002  it is here already
        """See `Objects`."""
        path = self.folder / stored.name
        if not path.exists():
            raise Gone(stored.name)
        return path


class Remote:
    """Objects in a file system of fsspec."""

    def __init__(self, address: str, system: Any, root: str) -> None:
        """Takes the address as given, its `AbstractFileSystem`, and the path in it."""
        self.address = _PASSWORD.sub("", address).rstrip("/")
        protocols = system.protocol if isinstance(system.protocol, tuple) else (system.protocol,)
        self.exclusive = not _EXCLUSIVE.isdisjoint(protocols)
        self._system = system
        self._root = root.rstrip("/")

    def listed(self) -> tuple[Stored, ...]:
        """See `Objects`."""
        found = []
        with _told(self.address, "list"):
            self._system.invalidate_cache()
            try:
                entries = self._system.ls(self._root, detail=True)
            except FileNotFoundError:
                return ()
            for entry in entries:
                name, size = str(entry["name"]).rpartition("/")[2], int(entry.get("size") or 0)
                if entry["type"] == "file" and name and not name.startswith("."):
                    told = {str(key).lower(): value for key, value in entry.items()}
                    version = _version(size, *(told.get(key) for key in _VERSION))
                    found.append(Stored(name=name, size=size, version=version))
        return tuple(sorted(found, key=lambda stored: stored.name))

    def read(self, name: str) -> bytes:
        """See `Objects`."""
        with _told(self.address, f"read {name} from"):
            return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def create(self, name: str, data: bytes) -> bool:
        """See `Objects`."""
        path = f"{self._root}/{name}"
        with _told(self.address, f"create {name} in"):
            if not self.exclusive:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.pipe_file(path, data)
                return True
            try:
                self._system.pipe_file(path, data, mode="create")
            except Exception:
                # systems tell a lost race in words of their own; so is a request that was
                # answered late and sent again. Whoever asked compares what is there.
                self._system.invalidate_cache()
                if self._system.exists(path):
                    return False
                raise
        return True

    def remove(self, name: str) -> None:
        """See `Objects`."""
        with _told(self.address, f"remove {name} from"), contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{name}")

    def fetched(self, stored: Stored, cache: Path) -> Path:
        """See `Objects`; what was fetched before is not fetched again."""
        stem, _, suffix = stored.name.rpartition(".")
        path = _cached(self.address, cache) / f"{stem}.{stored.version}.{suffix}"
        if not path.is_file() or path.stat().st_size != stored.size:
            write_atomically(path, self.read(stored.name))
        return path


def open_objects(address: str) -> Objects:
    """The objects at an address.

    Raises:
        UsageError: nobody knows such addresses, or the library for them is not installed.
    """
    if "://" not in address:
        return Folder(Path.cwd() / Path(address).expanduser())
    if address.startswith("file://"):
        return Folder(Path(address.removeprefix("file://")))
    shown = _PASSWORD.sub("", address)
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"{shown}: the store's libraries are not installed. "
            "Do: pip install 'lighthouse-ci[store]'"
        ) from None
    try:
        system, root = fsspec.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{shown}: {error}. Do that with pip.") from error
    except ValueError as error:
        raise UsageError(
            f"{shown}: {error}. A store's address is a folder, or such as s3://bucket/folder."
        ) from error
    return Remote(address, system, root)


def every(objects: Objects, cache: Path) -> Path:
    """A local folder with all archives of a store, and none that it has no more."""
    if isinstance(objects, Folder):
        return objects.folder
    folder = _cached(objects.address, cache)
    for _ in range(_TRIES):
        listed = [stored for stored in objects.listed() if stored.name.endswith(SUFFIX)]
        try:
            paths = {objects.fetched(stored, cache) for stored in listed}
        except Gone:
            continue  # it was merged into what was not yet there to be listed
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path not in paths and path.suffix != TEMPORARY:
                path.unlink(missing_ok=True)
        return folder
    raise InfrastructureError(f"{objects.address} changes all the time: try again")


def _cached(address: str, cache: Path) -> Path:
    return cache / hashlib.sha256(address.encode()).hexdigest()[:16]


def _version(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _told(address: str, what: str) -> Iterator[None]:
    """Failures of file systems in words for people; what is gone as `Gone`."""
    try:
        yield
    except FileNotFoundError as error:
        if what.startswith("create"):
            raise InfrastructureError(f"cannot {what} {address}: there is no such place") from error
        raise Gone(what) from error
    except (InfrastructureError, UsageError, Gone):
        raise
    except Exception as error:  # each library of fsspec has its own
        text = _PASSWORD.sub("", str(error)) or type(error).__name__
        raise InfrastructureError(f"cannot {what} {address}: {text}") from error
