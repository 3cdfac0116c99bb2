"""The result document: one per attempt of a cell, never edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.engines.base import Isolation
from orchestrator.job import OutputError, StageTime, Status

RESULT_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one attempt of a cell came to, and everything it depended on."""

    run: str
    cell: str
    attempt: int
    """From 1."""
    status: Status
    """After expectations: `xfail`, `xpass` are possible."""
    phase: str
    message: str
    expectation: str = ""
    """Reason and issue of the expectation that applied."""
    stages: tuple[StageTime, ...]
    errors: tuple[OutputError, ...]
    golden: str
    last_words: str
    dropped_bytes: int
    peak_memory_bytes: int
    started: str
    """UTC, ISO 8601."""
    seconds: float
    engine: str
    environment: str
    """Digest of image or environment."""
    toolchain: str
    versions: Mapping[str, str]
    hardware: Mapping[str, str | int]
    isolation: Isolation
    argv: tuple[str, ...]
    workload_sha256: str
    constants: Mapping[str, str | int | float | bool]
    tier: str
    fingerprint: str
    """Equal for two attempts when nothing that could matter differed; see `results.fingerprint`."""
    reproduce: str
    """The one command that reruns exactly this cell."""
    schema: int = RESULT_SCHEMA
