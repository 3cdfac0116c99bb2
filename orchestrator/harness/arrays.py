"""Arrays as files: goldens, inputs and outputs."""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from orchestrator.harness.blame import MachineFault
from orchestrator.harness.elements import Array
from orchestrator.job import Golden


def read_given(folder: Path, file: str, sha256: str) -> bytes:
    """A file that came with the job, whose bytes were checked when the job was written.

    Raises:
        MachineFault: it is gone, or something else by now.
    """
    try:
        data = (folder / file).read_bytes()
    except OSError as error:
        raise MachineFault(f"{file} of the job cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise MachineFault(f"{file} is not the file that was planned")
    return data


def read_golden(folder: Path, golden: Golden) -> Sequence[Array]:
    """The outputs in a golden file. Raises MachineFault: see `read_given`."""
    data = read_given(folder, golden.file, golden.sha256)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return [archive[f"output_{i}"] for i in range(len(archive.files))]


def npz(arrays: Mapping[str, Array]) -> bytes:
    """An `.npz` archive whose bytes depend on nothing but the arrays."""
    members = {}
    for name, array in arrays.items():
        member = io.BytesIO()
        # in C order: an array and its transposed copy in memory are the same array
        whole = np.asarray(array, order="C")
        np.lib.format.write_array(member, whole, allow_pickle=False)
        members[f"{name}.npy"] = member.getvalue()
    return archive(members)


def archive(members: Mapping[str, bytes]) -> bytes:
    """A zip archive whose bytes depend on nothing but its members."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            target.writestr(info, content)
    return data.getvalue()


def read_npz(data: bytes, wanted: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Array]:
    """The arrays of an `.npz` archive from an unknown source, none larger than it should be.

    Args:
        data: the archive.
        wanted: name to shape, and kinds of number (`numpy.dtype.kind`) that it may hold. What else
            is in the archive is not looked at.

    Raises:
        ValueError: an array is missing or damaged, or is not of that shape and kind.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            return {name: _read_npy(members, name, *about) for name, about in wanted.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"a damaged archive: {error}") from error


def _read_npy(members: zipfile.ZipFile, name: str, shape: tuple[int, ...], kinds: str) -> Array:
    try:
        info = members.getinfo(f"{name}.npy")
    except KeyError:
        raise ValueError(f"it has no {name}") from None
    with members.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError(f"{name}: format {version}, not (1, 0)")
        found, fortran, dtype = np.lib.format.read_array_header_1_0(member)
        if found != shape or fortran or dtype.kind not in kinds or not dtype.isnative:
            raise ValueError(f"{name} is {found} {dtype}, and should be {shape}")
        count = math.prod(shape)
        content = member.read(count * dtype.itemsize)
    if len(content) != count * dtype.itemsize:
        raise ValueError(f"{name} is cut short")
    return np.ndarray(shape, dtype, content)
