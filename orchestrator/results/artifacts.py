"""Artifacts as they arrive from a job: decoded within bounds, named within bounds.

A job runs programs that nobody reviewed. Whatever it sends may fill no disk and leave no folder.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from orchestrator.job import is_plain_path

MAX_CELL_BYTES = 256 << 20
"""What one attempt of a cell may leave, uncompressed."""
MAX_CELL_FILES = 500


class ArtifactError(ValueError):
    """An artifact that is refused; says why."""


def check_name(name: str) -> str:
    """The name itself, when it is a plain relative path; no part may begin with a dot.

    Raises:
        ArtifactError: anything else.
    """
    if not is_plain_path(name):
        raise ArtifactError(f"artifact name {name!r:.80} refused: not a plain relative path")
    return name


def decode(data: str, limit: int) -> bytes:
    """The bytes of an artifact event's `data`, at most `limit` of them.

    Raises:
        ArtifactError: no base64 of zlib, or more than `limit` bytes.
    """
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(base64.b64decode(data, validate=True), max(limit, 0) + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise ArtifactError(f"artifact refused: {error}") from error
    if len(raw) > limit or inflater.unconsumed_tail:
        raise ArtifactError(f"artifact refused: more than {limit:,} bytes are left to this cell")
    if not inflater.eof:
        raise ArtifactError("artifact refused: cut short")
    return raw


def encode(raw: bytes) -> str:
    """The form in which `raw` travels in an artifact event."""
    return base64.b64encode(zlib.compress(raw, 1)).decode("ascii")


class Budget:
    """What one attempt of a cell may still leave."""

    def __init__(self, limit: int = MAX_CELL_BYTES, files: int = MAX_CELL_FILES) -> None:
        """Takes bytes and a number of files."""
        self._bytes = limit
        self._files = files

    def take(self, name: str, data: str) -> bytes:
        """Decodes an artifact and charges it.

        Raises:
            ArtifactError: a bad name, bad data, or too much.
        """
        check_name(name)
        if self._files <= 0:
            raise ArtifactError("artifact refused: too many files from this cell")
        raw = decode(data, self._bytes)
        self._bytes -= len(raw)
        self._files -= 1
        return raw
