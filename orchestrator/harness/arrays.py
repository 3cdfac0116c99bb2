"""Arrays as files: goldens, inputs and outputs."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from orchestrator.harness.blame import DefinitionFault
from orchestrator.harness.ingress.base import Array
from orchestrator.job import Golden


def read_golden(folder: Path, golden: Golden, workload: str) -> Sequence[Array]:
    """The outputs in a golden file.

    Raises:
        DefinitionFault: it is not the file that was recorded.
    """
    data = (folder / golden.file).read_bytes()
    again = f"Record it again: lh-ci golden update {workload}"
    if len(data) < golden.size:
        raise DefinitionFault(
            f"{golden.file}: truncated at {len(data):,} of {golden.size:,} bytes. {again}"
        )
    if len(data) > golden.size:
        raise DefinitionFault(
            f"{golden.file}: has {len(data):,} bytes, {golden.size:,} were recorded. {again}"
        )
    if hashlib.sha256(data).hexdigest() != golden.sha256:
        raise DefinitionFault(f"{golden.file}: its bytes are not those recorded. {again}")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return [archive[f"output_{i}"] for i in range(len(archive.files))]


def npz(arrays: dict[str, Array]) -> bytes:
    """An `.npz` archive whose bytes depend on nothing but the arrays."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name, array in arrays.items():
            member = io.BytesIO()
            # in C order: an array and its transposed copy in memory are the same array
            whole = np.asarray(array, order="C")
            np.lib.format.write_array(member, whole, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(info, member.getvalue())
    return archive.getvalue()
