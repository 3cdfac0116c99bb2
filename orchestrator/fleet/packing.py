"""Packing an output folder of `lh-ci exec` into a bundle.

Text is made harmless here (`orchestrator.text.plain`): colours of a compiler's message go, so that
what still has them at the other end was not packed by us.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import hashlib
import io
import itertools
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import signed
from orchestrator.fleet.archive import Inflater, Limits
from orchestrator.fleet.bundle import (
    DECLINED,
    DECLINED_TYPE,
    EXEC,
    INFO,
    LOG,
    MANIFEST,
    MANIFEST_TYPE,
    Manifest,
    Names,
    PackedFile,
    cell_of,
    is_safe,
)
from orchestrator.fleet.envelope import Warrant
from orchestrator.fleet.refusal import Refused
from orchestrator.fleet.signed import Signer
from orchestrator.results.artifacts import MAX_CELL_BYTES, MAX_CELL_FILES
from orchestrator.results.files import unwritable
from orchestrator.results.store import utc
from orchestrator.text import plain, size


def pack(
    folder: Path,
    target: Path,
    *,
    warrant: Warrant,
    signers: Sequence[Signer],
    now: dt.datetime,
    limits: Limits | None = None,
) -> Manifest:
    """Writes a bundle of an output folder; artifacts that do not fit are left out and counted.

    Args:
        folder: of `lh-ci exec`.
        target: the file to write.
        warrant: what was executed.
        signers: every key of this agent.
        now: aware of its time zone.
        limits: those of the intake; for tests.

    Raises:
        InfrastructureError: the folder is damaged or cannot be read, the results alone are too
            much, or `target` cannot be written.
    """
    limits = limits or Limits()
    try:
        documents = _documents(folder, limits)
        artifacts, left_out = _artifacts(folder, documents, limits)

        def files() -> Iterator[tuple[str, bytes]]:
            for name in sorted([*documents, *artifacts]):
                yield name, documents[name] if name in documents else (folder / name).read_bytes()

        manifest = Manifest(
            job=warrant.job,
            digest=warrant.digest,
            agent=warrant.agent,
            pool=warrant.pool,
            nonce=warrant.nonce,
            packed=utc(now),
            files=tuple(
                PackedFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())
                for name, data in files()
            ),
            left_out=left_out,
        )
        head = signed.seal(MANIFEST_TYPE, records.dumps(manifest).encode(), signers)
        _write(target, head, files, limits)
    except FileNotFoundError as error:
        raise InfrastructureError(f"{error.filename} is missing: did lh-ci exec end?") from error
    except OSError as error:
        raise unwritable(target, error) from error
    return manifest


def pack_declined(folder: Path, target: Path, signers: Sequence[Signer]) -> None:
    """Writes a bundle that says why the job of an output folder was not run.

    Raises:
        InfrastructureError: the folder cannot be read, or `target` cannot be written.
    """
    try:
        payload = (folder / DECLINED).read_bytes()
        head = signed.seal(DECLINED_TYPE, payload, signers)
        with _replacing(target) as temporary:
            _write_archive(temporary, 6, [(DECLINED, head)])
    except OSError as error:
        raise unwritable(target, error) from error


# --- how --------------------------------------------------------------------------------------


def _documents(folder: Path, limits: Limits) -> dict[str, bytes]:
    """Results, summary and log, made harmless."""
    found = {}
    info = [path for path in (folder / INFO,) if path.is_file()]
    for path in sorted([*(folder / "results").glob("*.json"), folder / EXEC, *info]):
        name = path.relative_to(folder).as_posix()
        try:
            value = json.loads(path.read_bytes())
        except ValueError as error:
            raise InfrastructureError(f"{path} is damaged: {error}") from error
        found[name] = json.dumps(_harmless(value), sort_keys=True, allow_nan=False).encode()
        if len(found[name]) > limits.document:
            raise InfrastructureError(f"{path} is larger than {size(limits.document)}")
    with (folder / LOG).open("rb") as file:
        # the end of a long log; a byte that is no UTF-8 grows to three
        file.seek(-min(limits.log // 4, (folder / LOG).stat().st_size), os.SEEK_END)
        found[LOG] = plain(file.read().decode("utf-8", "replace")).encode()
    return found


def _harmless(value: Any) -> Any:
    match value:
        case str():
            return plain(value)
        case list():
            return [_harmless(item) for item in value]
        case dict():
            return {plain(key): _harmless(item) for key, item in value.items()}
    return value


def _artifacts(
    folder: Path, documents: Mapping[str, bytes], limits: Limits
) -> tuple[list[str], int]:
    """The artifacts that there is room for, and how many others there are."""
    taken: list[str] = []
    names = Names()
    for name in documents:
        names.add(name)
    left = limits.unpacked - sum(map(len, documents.values()))
    room = limits.files - len(documents)
    cells: dict[str, tuple[int, int]] = {}
    paths = sorted(p for p in (folder / "artifacts").rglob("*") if p.is_file())
    for path in paths:
        name = path.relative_to(folder).as_posix()
        cell, length = cell_of(name) or "", path.stat().st_size
        files, total = cells.get(cell, (0, 0))
        within = files < MAX_CELL_FILES and total + length <= MAX_CELL_BYTES
        fits = within and length <= min(left, limits.file) and len(taken) < room
        if path.is_symlink() or not fits or not is_safe(name) or not names.add(name):
            continue
        cells[cell] = (files + 1, total + length)
        left -= length
        taken.append(name)
    return taken, len(paths) - len(taken)


def _write(
    target: Path, head: bytes, files: Callable[[], Iterator[tuple[str, bytes]]], limits: Limits
) -> None:
    """Compressed; as it is where it would unfold like an archive bomb."""
    with _replacing(target) as temporary:
        for level in (6, 0):
            _write_archive(temporary, level, itertools.chain([(MANIFEST, head)], files()))
            if _unfolds(temporary, limits):
                break


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A file that takes the place of `target` when it is whole."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write_archive(path: Path, level: int, files: Iterable[tuple[str, bytes]]) -> None:
    """Owners and times are left out: the same files give the same bytes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", level, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _unfolds(path: Path, limits: Limits) -> bool:
    """Whether the intake's bound on compression holds everywhere in it."""
    with path.open("rb") as packed:
        inflater = Inflater(packed, limits)
        try:
            while inflater.some(1 << 20):
                pass
        except Refused:
            return False
    return True
