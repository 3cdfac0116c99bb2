"""A job's documents as one line of text, for services that carry text and not folders.

A job's folder has its documents, the harness, workloads and goldens. All but the documents are in
the checkout of the commit that the job was planned in, and the documents have the digest of each:
so only they travel, with the job's warrants, and the folder is made again, byte for byte, where the
job is run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import tempfile
import zlib
from pathlib import Path

from orchestrator import records
from orchestrator.backends import jobdir, parcel
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet.folder import WARRANTS
from orchestrator.job import Job, is_plain_path
from orchestrator.order import JOB_FILE, ORDER_FILE
from orchestrator.results.files import write_atomically

_WARRANT = re.compile(rf"{WARRANTS}/[a-z0-9][a-z0-9-]*\.json")
_MAX_BYTES = 64 << 20
"""Of both documents; a thousand cells have a tenth of it."""


def encode(folder: Path) -> str:
    """The documents of a job's folder, and its warrants.

    Raises:
        InfrastructureError: they cannot be read.
    """
    try:
        warrants = sorted(path.name for path in (folder / WARRANTS).glob("*.json"))
        names = (JOB_FILE, ORDER_FILE, *(f"{WARRANTS}/{name}" for name in warrants))
        documents = {name: (folder / name).read_text("utf-8") for name in names}
    except OSError as error:
        raise InfrastructureError(f"{folder}: {error.strerror or error}") from error
    packed = zlib.compress(json.dumps(documents, sort_keys=True).encode(), 9)
    return base64.b64encode(packed).decode("ascii")


def restore(text: str, folder: Path, root: Path) -> Job:
    """Makes the job's folder again, from its documents and the checkout in `root`.

    Args:
        text: what `encode` gave.
        folder: exists, empty.
        root: a checkout of the commit that the job was planned in.

    Raises:
        UsageError: this is no such text.
        DefinitionError: the checkout is of another commit.
        InfrastructureError: the folder cannot be written.
    """
    documents = _documents(text)
    try:
        job = records.decode(Job, json.loads(documents[JOB_FILE]))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the job that was handed over is damaged: {error}") from error
    places = checkout(job, root)
    if odd := [name for name in places if not is_plain_path(name)]:
        raise UsageError(f"the job that was handed over names {odd[0]!r:.80}, no plain path")
    jobdir.write(folder, job, places)
    # written by the planner, and digested in the order: these bytes and no others
    for name, document in documents.items():
        write_atomically(folder / name, document.encode())
    return job


def of_parcel(archive: Path, root: Path) -> tuple[str, Job]:
    """The text for a job that was packed by `backends.parcel`, and the job.

    Raises what `encode` and `check_travels` do.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "job"
        parcel.unpack(archive, folder)
        job = records.decode(Job, json.loads((folder / JOB_FILE).read_bytes()))
        check_travels(job, root)
        return encode(folder), job


def check_travels(job: Job, root: Path) -> None:
    """Checks that a job needs nothing but what every checkout has.

    Raises:
        UsageError: names the first file that is not there, or is another one there.
    """
    wanted = {cell.workload.file: cell.workload.sha256 for cell in job.cells}
    wanted |= {c.golden.file: c.golden.sha256 for c in job.cells if c.golden is not None}
    for name, place in checkout(job, root).items():
        path = Path(place)
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted[name]:
            raise UsageError(
                f"{name} of this job is not in the repository, and machines that work in a "
                "checkout of it would not have it. Add it to recipes/workloads, or run it here"
            )


def checkout(job: Job, root: Path) -> dict[str, str]:
    """Where a checkout in `root` has the files that a job names."""
    places = {}
    for cell in job.cells:
        places[cell.workload.file] = str(root / "recipes" / cell.workload.file)
        if cell.golden is not None:
            places[cell.golden.file] = str(root / cell.golden.file)
    return places


def _documents(text: str) -> dict[str, str]:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text.strip(), validate=True), _MAX_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise UsageError("the job that was handed over is cut short, or far too large")
        found = json.loads(data)
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        raise UsageError(f"the job that was handed over is damaged: {error}") from error
    needed = {JOB_FILE, ORDER_FILE}
    if not isinstance(found, dict) or not needed <= set(found):
        raise UsageError("what was handed over is no job")
    if odd := [name for name in found if name not in needed and not _WARRANT.fullmatch(name)]:
        raise UsageError(f"the job that was handed over has {odd[0]!r:.80}, which no job has")
    return {name: str(document) for name, document in found.items()}
