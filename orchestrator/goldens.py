"""Recording goldens: what moves, shown before anything is written; then written for good.

Reading and checking them is `config.goldens`. A golden is `golden/<workload>/<variant>.npz`, with
its record beside it. The same arrays give the same bytes, whatever wrote them and whenever.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from orchestrator.config.models import GoldenRecord
from orchestrator.errors import InfrastructureError
from orchestrator.harness.arrays import npz as pack
from orchestrator.results.files import write_atomically

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What the framework computed for one workload and variant."""

    workload: str
    variant: str
    outputs: tuple[Array, ...]
    source: str
    """`eager@f64`, …"""
    inputs_sha256: str
    workload_sha256: str
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Moved:
    """How one output differs from what was recorded before."""

    index: int
    text: str
    """`unchanged`, `shape 2x3 -> 3x2`, `12 of 40 elements, max abs 1.2e-07, max rel 3e-06`."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A golden as it would be written, and how it differs from the one that is there."""

    path: Path
    """The `.npz`."""
    kind: Literal["new", "unchanged", "provenance", "changed"]
    """`provenance`: the same numbers, from another workload file, framework or input."""
    moved: tuple[Moved, ...]
    npz: bytes
    record: bytes


def read_npz(data: bytes) -> tuple[Array, ...]:
    """`output_0`, `output_1`, … of an `.npz`; nothing in it is executed.

    Raises:
        InfrastructureError: it is no such file.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return tuple(archive[f"output_{i}"] for i in range(len(archive.files)))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InfrastructureError(f"not a golden: {error}") from error


def change(folder: Path, recording: Recording, *, command: str, today: dt.date) -> Change:
    """What writing a recording would do to `golden/`.

    Args:
        folder: `golden/`.
        recording: what the framework computed.
        command: how it was recorded, for the record.
        today: the date, for the record.
    """
    path = folder / recording.workload / f"{recording.variant}.npz"
    npz = pack({f"output_{i}": array for i, array in enumerate(recording.outputs)})
    record = _record(recording, npz, command, today)
    text = json.dumps(record.model_dump(mode="json", by_alias=True), indent=2, sort_keys=True)
    old = _old(path)
    if old is None:
        moved = tuple(
            Moved(index=i, text=f"{_shape(output)} {output.dtype}")
            for i, output in enumerate(recording.outputs)
        )
        kind: Literal["new", "unchanged", "provenance", "changed"] = "new"
    else:
        moved = diff(old, recording.outputs)
        same = all(m.text == "unchanged" for m in moved)
        kind = "changed" if not same else "provenance"
        if same and _same_provenance(path, record):
            kind = "unchanged"
    return Change(path=path, kind=kind, moved=moved, npz=npz, record=f"{text}\n".encode())


def write(changed: Change) -> None:
    """Writes both files of a golden. Raises InfrastructureError."""
    write_atomically(changed.path, changed.npz)
    write_atomically(changed.path.with_suffix(".json"), changed.record)


def diff(old: Sequence[Array], new: Sequence[Array]) -> tuple[Moved, ...]:
    """How each output moved; outputs that came or went count too."""
    moved = [
        Moved(index=index, text=_difference(before, after))
        for index, (before, after) in enumerate(zip(old, new, strict=False))
    ]
    moved += [Moved(index=i, text="came") for i in range(len(old), len(new))]
    moved += [Moved(index=i, text="went") for i in range(len(new), len(old))]
    return tuple(moved)


def _difference(old: Array, new: Array) -> str:
    if old.shape != new.shape:
        return f"shape {_shape(old)} -> {_shape(new)}"
    if old.dtype != new.dtype:
        return f"type {old.dtype} -> {new.dtype}"
    if old.tobytes() == new.tobytes():
        return "unchanged"
    differs = np.atleast_1d(~((old == new) | ((old != old) & (new != new))))
    count = int(differs.sum())
    if not count:
        return "unchanged but for the bits of NaN or the sign of zero"
    if old.dtype.kind not in "biufc":
        return f"{count:,} of {old.size:,} elements"
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    before = np.atleast_1d(old).astype(wide)[differs]
    after = np.atleast_1d(new).astype(wide)[differs]
    with np.errstate(all="ignore"):
        gap = np.abs(after - before)
        relative = (gap / np.abs(before))[np.abs(before) > 0]
    return (
        f"{count:,} of {old.size:,} elements, max abs {_largest(gap)}, max rel {_largest(relative)}"
    )


def _largest(values: Array) -> str:
    finite = values[np.isfinite(values)]
    some = " (and some not finite)" if finite.size < values.size else ""
    return f"{finite.max():.3g}{some}" if finite.size else f"none{some}"


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape)) or "scalar"


def _old(path: Path) -> tuple[Array, ...] | None:
    """None when there is none, or none that can be read: then the new one replaces it."""
    try:
        return read_npz(path.read_bytes())
    except (OSError, InfrastructureError):
        return None


def _same_provenance(path: Path, record: GoldenRecord) -> bool:
    """Whether the files that are there fit each other, and tell the same as `record`.

    Date and command may differ, and so may the bytes of the archive: another zlib packs the same
    numbers differently.
    """
    try:
        old = json.loads(path.with_suffix(".json").read_bytes())
        npz = path.read_bytes()
    except (OSError, ValueError):
        return False
    new = record.model_dump(mode="json", by_alias=True)
    ignored = {"recorded", "command", "sha256", "size"}
    return (
        isinstance(old, dict)
        and all(old.get(name) == value for name, value in new.items() if name not in ignored)
        and old.get("sha256") == hashlib.sha256(npz).hexdigest()
        and old.get("size") == len(npz)
    )


def _record(recording: Recording, npz: bytes, command: str, today: dt.date) -> GoldenRecord:
    return GoldenRecord.model_validate(
        {
            "schema": 1,
            "workload": recording.workload,
            "variant": recording.variant,
            "source": recording.source,
            "sha256": hashlib.sha256(npz).hexdigest(),
            "size": len(npz),
            "inputs_sha256": recording.inputs_sha256,
            "workload_sha256": recording.workload_sha256,
            "versions": dict(recording.versions),
            "command": command,
            "recorded": today,
        }
    )
