"""Reading a bundle that may come from anywhere: nothing is used before it was checked.

Every size is bounded, nothing outside the bundle is reached, and a file is read against its digest
whenever it is used: what is loaded is what was checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from orchestrator import records
from orchestrator.errors import DefinitionError
from orchestrator.harness import formula
from orchestrator.harness.arrays import read_npz
from orchestrator.harness.elements import FLOATS, Array, ElementType, rounded, storage
from orchestrator.harness.gpu import launches
from orchestrator.harness.gpu.bundle import (
    ARGUMENTS,
    BUFFERS,
    DOCUMENT,
    GOLDEN,
    SCHEMA,
    Bundle,
)
from orchestrator.harness.gpu.launches import BundledProgram
from orchestrator.harness.gpu.sources import Source, source_of
from orchestrator.harness.gpu.validity import problems
from orchestrator.harness.triton.plan import Plan

_MAX_DOCUMENT_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A bundle whose every file is there and is what was bundled."""

    path: Path
    bundle: Bundle
    source: Source

    def read(self, name: str) -> bytes:
        """A file's content.

        Raises:
            DefinitionError: it is gone, or is not what was bundled.
        """
        about = self.bundle.files[name]
        data = self.source.read(name, about.size)
        if len(data) < about.size:
            raise self._bad(f"{name}: cut short at {len(data):,} of {about.size:,} bytes")
        if hashlib.sha256(data).hexdigest() != about.sha256:
            raise self._bad(f"{name}: its bytes are not those that were bundled")
        return data

    def library(self, chip: str, folder: Path) -> Path:
        """A chip's shared object, as a new file in `folder`."""
        path = folder / f"{chip}.so"
        path.write_bytes(self.read(self.bundle.chips[chip].library))
        return path

    def arguments(self) -> tuple[tuple[ElementType, Array], ...]:
        """What to call the program with: element types, and arrays in storage types.

        Raises:
            DefinitionError: these are not the numbers that it was bundled with.
        """
        every = self.bundle.arguments
        given = {i: a for i, a in enumerate(every) if a.formula is None}
        wanted = {f"argument_{i}": (a.shape, storage(a.element).kind) for i, a in given.items()}
        stored = self._arrays(ARGUMENTS, wanted) if wanted else {}
        arrays = []
        for i, about in enumerate(every):
            if about.formula is None:
                array = stored[f"argument_{i}"]
            else:
                array = rounded(about.formula.numbers(about.shape), about.through)
            if array.dtype != storage(about.element):
                raise self._bad(f"argument {i} is {array.dtype}, and should be {about.element}")
            arrays.append((about.element, array))
        if formula.digest(array for _, array in arrays) != self.bundle.inputs_sha256:
            raise self._bad("its arguments are not those that it was made with")
        return tuple(arrays)

    def plan(
        self, program: BundledProgram, chip: str, arguments: Sequence[tuple[ElementType, Array]]
    ) -> Plan:
        """What to launch on a chip: a program of kernels alone, on what it is called with.

        Raises:
            DefinitionError: its buffers are not what `bundle.json` says.
        """
        wanted = {
            f"buffer_{i}": ((each.size,), "u")
            for i, each in enumerate(program.buffers)
            if each.stored
        }
        stored = self._arrays(BUFFERS, wanted) if wanted else {}
        if any(array.dtype.itemsize != 1 for array in stored.values()):
            raise self._bad(f"{BUFFERS}: what is in it are no bytes")
        return launches.plan(program, chip, self.read, [array for _, array in arguments], stored)

    def golden(self) -> tuple[Array, ...]:
        """What the outputs should be: floats of any width, or integers.

        Raises:
            DefinitionError: they are not what `bundle.json` says.
        """
        wanted = {
            f"output_{i}": (each.shape, "f" if each.element in FLOATS else "biu")
            for i, each in enumerate(self.bundle.results)
        }
        return tuple(self._arrays(GOLDEN, wanted).values())

    def _arrays(
        self, file: str, wanted: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> dict[str, Array]:
        try:
            return read_npz(self.read(file), wanted)
        except ValueError as error:
            raise self._bad(f"{file}: {error}") from error

    def _bad(self, what: str) -> DefinitionError:
        return DefinitionError(f"{self.path}: {what}")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """A bundle: a folder, or an archive of it.

    Raises:
        DefinitionError: it is no bundle, is damaged, or asks for what no bundle may have.
        UsageError: there is nothing at `path`, or we may not read it.
    """
    with source_of(path) as source:
        found = Opened(path=path, bundle=_document(path, source), source=source)
        for name in found.bundle.files:
            found.read(name)
        yield found


def _document(path: Path, source: Source) -> Bundle:
    """`bundle.json`, with nothing wrong in it."""
    where = f"{path}: {DOCUMENT}"
    data = source.read(DOCUMENT, _MAX_DOCUMENT_BYTES)
    try:
        value = json.loads(data, parse_constant=_refuse)
        schema = value.get("schema") if isinstance(value, dict) else None
        if schema != SCHEMA:
            raise DefinitionError(
                f"{where}: of schema {schema!r:.20}, and this program reads schema {SCHEMA}: "
                "execute it with the version that made it, or make it again"
            )
        bundle = records.decode(Bundle, value, DOCUMENT)
    except RecursionError:
        raise DefinitionError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from error
    for problem in problems(bundle):
        raise DefinitionError(f"{where}: {problem}")
    return bundle


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
