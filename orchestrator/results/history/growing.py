"""Files that grow together at their ends: what was read once is mapped, and not read again.

Whoever opens them is alone with them (`orchestrator.engines.locks`). They are a cache: a folder
whose head cannot be read, or is another version's, is an empty one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.results.files import unwritable, write_atomically

_HEAD = "head.json"
_END = b"\n"

Data = bytes | NDArray[Any]


class Growing:
    """A folder of files, and a mark for each time that they grew: its name, and how long they
    were then. What lies behind the last mark is nothing: a process ended before it was marked.
    """

    def __init__(self, folder: Path, key: str) -> None:
        """Opens them; `key` is of whatever they depend on besides the names of marks."""
        self._folder = folder
        self._key = key
        self._marks: list[tuple[str, dict[str, int]]] = _marks(folder, key)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the marks, the oldest first."""
        return tuple(name for name, _ in self._marks)

    def back_to(self, count: int) -> None:
        """Forgets all marks but the first so many."""
        del self._marks[count:]

    def append(self, name: str, data: Mapping[str, Data]) -> None:
        """Makes files longer; those that are not there begin. Counts from `mark` on.

        Raises:
            InfrastructureError: the disk is full, or cannot be written.
        """
        sizes = dict(self._sizes)
        for file, each in data.items():
            raw = _raw(each)
            self._write(file, sizes.get(file, 0), raw)
            sizes[file] = sizes.get(file, 0) + len(raw)
        self._marks.append((name, sizes))

    def keep(self) -> None:
        """Makes what was appended last, also through a power cut.

        Raises:
            InfrastructureError: the disk is full, or cannot be written.
        """
        for file in self._sizes:
            handle = os.open(self._folder / file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        document = {"key": self._key, "marks": self._marks}
        write_atomically(self._folder / _HEAD, json.dumps(document).encode())

    def array(self, file: str, dtype: Any, *tail: int) -> NDArray[Any]:
        """A file's numbers, of shape (any, *tail); not to be written to."""
        size = self._sizes.get(file, 0)
        each = np.dtype(dtype).itemsize * int(np.prod(tail, dtype=np.int64))
        shape = (size // each if each else 0, *tail)
        if not size:
            return np.zeros(shape, dtype)
        return np.memmap(self._folder / file, dtype, "r", shape=shape).view(np.ndarray)

    def texts(self, file: str) -> list[str]:
        """A file's texts, appended as `lines` gives them."""
        size = self._sizes.get(file, 0)
        with (self._folder / file).open("rb") if size else open(os.devnull, "rb") as opened:  # noqa: PTH123
            parts = opened.read(size).split(_END)
        return [text for part in parts if part for text in json.loads(part)]

    @property
    def _sizes(self) -> dict[str, int]:
        return self._marks[-1][1] if self._marks else {}

    def _write(self, file: str, at: int, raw: memoryview) -> None:
        path = self._folder / file
        try:
            if not at:
                path.parent.mkdir(parents=True, exist_ok=True)
                # who has mapped the old one keeps it
                path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644), "wb", 0) as opened:  # noqa: PTH123
                opened.seek(at)
                while raw:
                    raw = raw[opened.write(raw) :]
        except OSError as error:
            raise unwritable(path, error) from error


def lines(texts: Sequence[str]) -> bytes:
    """Texts as `Growing.texts` reads them."""
    return json.dumps(texts).encode() + _END if texts else b""


def common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many names both begin with."""
    same = (a == b for a, b in zip(old, new, strict=False))
    return next((n for n, each in enumerate(same) if not each), min(len(old), len(new)))


def _raw(data: Data) -> memoryview:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return memoryview(data)


def _marks(folder: Path, key: str) -> list[tuple[str, dict[str, int]]]:
    """Those of the head; none where it, or a file, is not as it should be."""
    try:
        document = json.loads((folder / _HEAD).read_bytes())
        if document["key"] != key:
            return []
        marks = [(str(name), dict(sizes)) for name, sizes in document["marks"]]
        for file, size in marks[-1][1].items() if marks else ():
            if (folder / file).stat().st_size < size:
                return []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return marks
