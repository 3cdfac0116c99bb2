"""Signed bundles that are altered on their way."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.backends import parcel
from orchestrator.fleet import packing, signed
from orchestrator.fleet.bundle import MANIFEST, MANIFEST_TYPE
from orchestrator.fleet.signed import Signer


@contextlib.contextmanager
def altered(archive: Path) -> Iterator[Path]:
    """The files of a bundle, which is packed again as it was."""
    parts = archive.with_suffix(".parts")
    parcel.unpack(archive, parts)
    yield parts
    names = [p.relative_to(parts).as_posix() for p in parts.rglob("*") if p.is_file()]
    names.sort(key=lambda name: (name != MANIFEST, name))
    packing._write_archive(archive, 6, [(name, (parts / name).read_bytes()) for name in names])
    shutil.rmtree(parts)


def alter(archive: Path) -> None:
    """Its results are other ones, of the same size."""
    with altered(archive) as parts:
        for path in parts.glob("results/*.json"):
            path.write_text(path.read_text().replace('"pass"', '"fail"'))


def resign(archive: Path, signers: Sequence[Signer]) -> None:
    """Somebody else's signature is under it."""
    with altered(archive) as parts:
        envelope = json.loads((parts / MANIFEST).read_bytes())
        payload = base64.b64decode(envelope["payload"])
        (parts / MANIFEST).write_bytes(signed.seal(MANIFEST_TYPE, payload, signers))
