"""What a bundle claims, held against what was given: pure functions that raise `Refused`."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from orchestrator.config.models import Expectation
from orchestrator.fleet.archive import Limits
from orchestrator.fleet.bundle import (
    EXEC,
    INFO,
    LOG,
    Manifest,
    Names,
    cell_of,
    is_safe,
    result_of,
)
from orchestrator.fleet.envelope import Warrant, moment
from orchestrator.fleet.refusal import Kind, Refused
from orchestrator.job import Cell, Job
from orchestrator.results.artifacts import MAX_CELL_BYTES, MAX_CELL_FILES
from orchestrator.results.schema import Result
from orchestrator.results.verdict import cite

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_LONGEST_S = 30 * 86_400.0
_MOST_BYTES = 1 << 50
_CLOCK_SLACK = dt.timedelta(days=1)
"""By which an agent's clock may be off in a result's time; where it began counts for nothing."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """A job that was given to an agent."""

    warrant: Warrant
    job: Job
    health: bool = False
    """A health job: a quarantined agent may answer it."""
    expectations: Sequence[Expectation] = ()
    """Of the matrix when it was given; more than those of its cells does no harm."""


def check_manifest(manifest: Manifest, limits: Limits) -> None:
    """Everything about files that is known before any of them was read."""
    if manifest.schema != 1:
        raise Refused(Kind.SCHEMA, f"a manifest of version {manifest.schema}")
    if len(manifest.files) > limits.files:
        text = f"{len(manifest.files):,} files, and {limits.files:,} are the limit"
        raise Refused(Kind.TOO_MANY, text)
    names = Names()
    for file in manifest.files:
        check_name(file.name)
        if not names.add(file.name):
            raise Refused(Kind.COLLISION, f"{file.name} is there twice, or in another spelling")
        _check_size(file.name, file.size, limits)
        if not _SHA256.fullmatch(file.sha256):
            raise Refused(Kind.SCHEMA, f"{file.name} has no SHA-256")
    total = sum(file.size for file in manifest.files)
    if total > limits.unpacked:
        text = f"{total:,} bytes of files, and {limits.unpacked:,} are the limit"
        raise Refused(Kind.TOO_LARGE, text)
    _check_artifacts(manifest)
    missing = {EXEC, LOG} - {file.name for file in manifest.files}
    if missing:
        raise Refused(Kind.LAYOUT, f"no {' and no '.join(sorted(missing))}")


def _check_artifacts(manifest: Manifest) -> None:
    """What one cell may leave is the same wherever it ran."""
    cells: dict[str, list[int]] = {}
    for file in manifest.files:
        cell = cell_of(file.name)
        if cell is not None:
            cells.setdefault(cell, []).append(file.size)
    for cell, sizes in cells.items():
        if len(sizes) > MAX_CELL_FILES:
            raise Refused(Kind.TOO_MANY, f"{len(sizes):,} artifacts of {cell}")
        if sum(sizes) > MAX_CELL_BYTES:
            raise Refused(Kind.TOO_LARGE, f"{sum(sizes):,} bytes of artifacts of {cell}")


def check_name(name: str) -> None:
    """A file's name: one that leads nowhere else, and that a bundle has."""
    if not is_safe(name):
        raise Refused(Kind.PATH, f"the name {name[:120]!r}")
    if name not in (EXEC, INFO, LOG) and result_of(name) is None and cell_of(name) is None:
        raise Refused(Kind.LAYOUT, f"the file {name}")


def check_origin(
    manifest: Manifest, signer: str, given: Given | None, quarantined: Collection[str]
) -> Given:
    """Who answers which job; `given` is what the manifest's nonce stands for."""
    if manifest.agent != signer:
        raise Refused(Kind.OTHER_AGENT, f"signed by {signer}, and it says {manifest.agent:.80}")
    if given is None:
        raise Refused(Kind.UNKNOWN_JOB, f"no job was given with the nonce {manifest.nonce:.40}")
    warrant = given.warrant
    if warrant.agent != signer:
        raise Refused(Kind.OTHER_AGENT, f"the job was given to {warrant.agent}")
    if manifest.pool != warrant.pool:
        text = f"the job was given for pool {warrant.pool}, and it says {manifest.pool:.80}"
        raise Refused(Kind.OTHER_POOL, text)
    if (manifest.job, manifest.digest) != (warrant.job, warrant.digest):
        raise Refused(Kind.OTHER_JOB, f"it says {manifest.job:.80}, {manifest.digest:.12}")
    if signer in quarantined and not given.health:
        raise Refused(Kind.QUARANTINED, f"{signer} is quarantined, and this is no health job")
    return given


def check_cells(manifest: Manifest, given: Given) -> None:
    """Results and artifacts of the job's cells alone, attempts counted from 1."""
    cells = {cell.id for cell in given.job.cells}
    attempts: dict[str, set[int]] = {}
    for file in manifest.files:
        result = result_of(file.name)
        cell = result[0] if result else cell_of(file.name)
        if cell is not None and cell not in cells:
            raise Refused(Kind.FOREIGN_CELL, f"{file.name}: the job has no such cell")
        if result:
            attempts.setdefault(result[0], set()).add(result[1])
    for cell, numbers in attempts.items():
        if max(numbers) > len(numbers):
            raise Refused(Kind.ATTEMPT, f"{cell}: attempt {max(numbers)}, and not all before it")


def check_results(results: Sequence[tuple[str, Result]], given: Given, now: dt.datetime) -> None:
    """Results, with the names of their files, against the job and against each other."""
    cells = {cell.id: cell for cell in given.job.cells}
    owners: dict[str, str] = {}
    for name, result in results:
        if (result.cell, result.attempt) != result_of(name):
            text = f"{name} holds attempt {result.attempt} of {result.cell:.120}"
            raise Refused(Kind.ATTEMPT, text)
        _check_result(name, result, cells[result.cell], given)
        _check_values(name, result, given, now)
        if owners.setdefault(result.fingerprint, result.cell) != result.cell:
            text = f"{name}: {owners[result.fingerprint]} has the same fingerprint"
            raise Refused(Kind.FINGERPRINT, text)


def _check_size(name: str, size: int, limits: Limits) -> None:
    if size < 0:
        raise Refused(Kind.NUMBER, f"{name} of {size} bytes")
    most = limits.file
    if name == LOG:
        most = limits.log
    elif cell_of(name) is None:
        most = limits.document
    if size > most:
        raise Refused(Kind.TOO_LARGE, f"{name}: {size:,} bytes, and {most:,} are the limit")


def _check_result(name: str, result: Result, cell: Cell, given: Given) -> None:
    _check_verdict(name, result, given)
    if result.agent not in ("", given.warrant.agent):
        raise Refused(Kind.OTHER_AGENT, f"{name}: says {result.agent:.80}")
    ran = (result.workload_sha256, dict(result.constants))
    if ran != (cell.workload.sha256, dict(cell.workload.constants)):
        raise Refused(Kind.OTHER_JOB, f"{name}: ran another workload than the job has")
    if not _FINGERPRINT.fullmatch(result.fingerprint):
        raise Refused(Kind.FINGERPRINT, f"{name}: {result.fingerprint[:60]!r}")


def _check_verdict(name: str, result: Result, given: Given) -> None:
    """Only an expectation of ours can make a failure expected; nothing is skipped over there."""
    applied = result.status in ("xfail", "xpass")
    if result.status == "skip" or applied != bool(result.expectation):
        text = f"{name}: {result.status}, with the expectation {result.expectation[:80]!r}"
        raise Refused(Kind.VERDICT, text)
    ours = {cite(e) for e in given.expectations if fnmatchcase(result.cell, e.cells)}
    if applied and result.expectation not in ours:
        raise Refused(Kind.VERDICT, f"{name}: nobody expects `{result.expectation:.80}`")


def _check_values(name: str, result: Result, given: Given, now: dt.datetime) -> None:
    """Numbers that can be; `errors` may hold values that are not finite, others may not."""
    seconds = [result.seconds, result.queued_seconds or 0.0, *(s.seconds for s in result.stages)]
    if not _within(seconds, _LONGEST_S):
        raise Refused(Kind.IMPLAUSIBLE, f"{name}: a time of {max(seconds)} or {min(seconds)} s")
    amounts = [result.peak_memory_bytes, result.dropped_bytes, *result.kernel_ns]
    amounts += [number for e in result.errors for number in (e.elements, e.mismatches, *e.shape)]
    if not _within(amounts, _MOST_BYTES):
        raise Refused(Kind.IMPLAUSIBLE, f"{name}: an amount of {max(amounts)} or {min(amounts)}")
    if not _within([n for e in result.errors for n in (e.rtol, e.atol)], math.inf):
        raise Refused(Kind.IMPLAUSIBLE, f"{name}: a tolerance that is none")
    try:
        started = moment(result.started)
    except ValueError as error:
        raise Refused(Kind.IMPLAUSIBLE, f"{name}: began at {result.started[:40]!r}") from error
    if not moment(given.warrant.issued) - _CLOCK_SLACK <= started <= now + _CLOCK_SLACK:
        raise Refused(Kind.IMPLAUSIBLE, f"{name}: began at {result.started}")


def _within(numbers: Iterable[float], most: float) -> bool:
    return all(math.isfinite(number) and 0 <= number <= most for number in numbers)
