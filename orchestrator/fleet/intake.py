"""Taking a bundle: everything is checked from the outside in, before the next layer is touched.

1. the file's size; gzip and ustar as they are read, with bounds on everything that is unpacked
2. the envelope, as bounded JSON; the signature, against the registered keys
3. the manifest: names, sizes, numbers of files; the agent, the warrant it answers, its cells
4. each file, against its name, size and digest in the manifest; JSON and text as bounded text
5. results as records; their values, against the job and against each other

Files go to a hidden folder inside the target and are renamed into place, all at once, after the
last check: a refusal leaves nothing behind, and of two that answer one warrant the second is
refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn

from orchestrator.fleet import claims, signed, strict
from orchestrator.fleet.archive import Inflater, Limits, Member, next_member, skip_padding
from orchestrator.fleet.bundle import (
    DECLINED,
    DECLINED_TYPE,
    INFO,
    LOG,
    MANIFEST,
    MANIFEST_TYPE,
    Declined,
    Manifest,
    PackedFile,
    cell_of,
    result_of,
)
from orchestrator.fleet.claims import Given
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.refusal import Kind, Refusal, Refused
from orchestrator.fleet.signed import RefusedSigner
from orchestrator.fleet.staging import settle, staging, unanswered
from orchestrator.order import ExecSummary
from orchestrator.results.files import unwritable
from orchestrator.results.schema import Result, RunInfo

_CHUNK = 1 << 20
_MAX_ENVELOPE = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the orchestrator knows when a bundle comes in."""

    agents: Mapping[str, AgentFile]
    given: Callable[[str], Given | None]
    """The job that was given with a nonce."""
    quarantined: Collection[str] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A bundle that was taken."""

    given: Given
    results: tuple[Result, ...]
    """By cell and attempt; `agent` is who signed. `run`, `tier`, `notes`, `parts` and `reproduce`
    are as the agent says, for whoever records them to set."""
    missing: tuple[str, ...]
    """Cells of the job without a result."""
    folder: Path
    """Its files, as `orchestrator.fleet.bundle` lists them; named after the warrant's nonce."""


def take(bundle: Path, desk: Desk, target: Path, *, now: dt.datetime) -> Taken | Refusal:
    """Takes a bundle into a new folder of `target`, or says why not.

    Args:
        bundle: the file; it is only read.
        desk: what is known.
        target: the folder of all that was taken; made when it is missing. What is in it stays:
            it tells which warrants have been answered.
        now: aware of its time zone.

    Raises:
        InfrastructureError: this machine cannot read the bundle, or write below `target`.
    """
    reading = _Reading(desk, target, now)
    try:
        with _opened(bundle) as file:
            return reading.read(file)
    except _DeclinedError as error:
        return Refusal(
            kind=error.kind, why=error.why, agent=reading.agent, job=reading.job, declined=True
        )
    except Refused as error:
        agent = error.owner if isinstance(error, RefusedSigner) else reading.agent
        return Refusal(kind=error.kind, why=error.why, agent=agent, job=reading.job)
    except OSError as error:
        raise unwritable(target, error) from error


def is_signed(bundle: Path) -> bool:
    """Whether a file begins as what agents sign does; nothing is known of whether it is genuine."""
    try:
        with _opened(bundle) as file:
            member = next_member(Inflater(file, Limits()))
    except (Refused, OSError):
        return False
    return member is not None and member.name in (MANIFEST, DECLINED)


class _DeclinedError(Refused):
    """The agent would not run the job, and it is certain that it says so."""


@contextlib.contextmanager
def _opened(bundle: Path) -> Iterator[BinaryIO]:
    """The file itself: no link is followed, no pipe is waited for."""
    try:
        handle = os.open(bundle, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(Kind.CONTAINER, f"it cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Refused(Kind.CONTAINER, "it is no plain file")
    with os.fdopen(handle, "rb") as file:
        yield file


class _Reading:
    """One bundle; who sent it is known once its signature is."""

    def __init__(self, desk: Desk, target: Path, now: dt.datetime) -> None:
        self.agent = self.job = ""
        self._desk = desk
        self._target = target
        self._now = now

    def read(self, file: BinaryIO) -> Taken:
        """Raises Refused."""
        inflater = Inflater(file, self._desk.limits)
        manifest = self._manifest(inflater)
        claims.check_manifest(manifest, self._desk.limits)
        found = self._desk.given(manifest.nonce)
        if found is not None and found.warrant.agent == self.agent:
            self.job = found.warrant.job
        given = claims.check_origin(manifest, self.agent, found, self._desk.quarantined)
        final = self._target / given.warrant.nonce
        unanswered(final)
        claims.check_cells(manifest, given)
        with staging(self._target) as folder:
            results = self._files(inflater, manifest, folder)
            claims.check_results(results, given, self._now)
            settle(folder, final)
        own = (dataclasses.replace(result, agent=self.agent) for _, result in results)
        ordered = tuple(sorted(own, key=lambda result: (result.cell, result.attempt)))
        answered = {result.cell for result in ordered}
        return Taken(
            given=given,
            results=ordered,
            missing=tuple(cell.id for cell in given.job.cells if cell.id not in answered),
            folder=final,
        )

    def _manifest(self, inflater: Inflater) -> Manifest:
        member = next_member(inflater)
        if member is None or member.name not in (MANIFEST, DECLINED):
            begins = f"begins with {member.name[:120]!r}" if member else "is empty"
            raise Refused(Kind.UNSIGNED, f"it {begins}, and not with {MANIFEST}")
        if member.size > _MAX_ENVELOPE:
            raise Refused(Kind.TOO_LARGE, f"{MANIFEST}: {member.size:,} bytes")
        data = inflater.read(member.size)
        skip_padding(inflater, member.size)
        day = self._now.astimezone(dt.UTC).date()
        if member.name == DECLINED:
            self._declined(data, day)
        self.agent, payload = signed.opened(MANIFEST_TYPE, data, self._desk.agents, day)
        return strict.read(Manifest, payload, "manifest", _MANIFEST_BOUNDS)

    def _declined(self, data: bytes, day: dt.date) -> NoReturn:
        signer, payload = signed.opened(DECLINED_TYPE, data, self._desk.agents, day)
        found = strict.read(Declined, payload, "declined")
        self.agent = signer
        if found.agent != signer:
            text = f"signed by {signer}, and it says {found.agent:.80}"
            raise Refused(Kind.OTHER_AGENT, text)
        kind = next((kind for kind in Kind if kind == found.kind), None)
        if kind is None:
            raise Refused(Kind.SCHEMA, f"no reason is called {found.kind:.80}")
        self.job = found.job
        raise _DeclinedError(kind, found.why)

    def _files(
        self, inflater: Inflater, manifest: Manifest, folder: Path
    ) -> list[tuple[str, Result]]:
        """Every file into `folder`; the results among them."""
        results = []
        for file in manifest.files:
            _expect(next_member(inflater), file)
            _store(inflater, file, folder)
            skip_padding(inflater, file.size)
            if cell_of(file.name) is not None:
                continue
            # at most `Limits.log` or `Limits.document` bytes
            data = (folder / file.name).read_bytes()
            if file.name == LOG:
                strict.check_text(strict.decoded(data, LOG, self._desk.limits.log), LOG)
            elif result_of(file.name):
                results.append((file.name, strict.read(Result, data, file.name)))
            elif file.name == INFO:
                strict.read(RunInfo, data, INFO)
            else:
                strict.read(ExecSummary, data, file.name)
        more = next_member(inflater)
        if more is not None:
            claims.check_name(more.name)
            raise Refused(Kind.MISMATCH, f"{more.name} is not in the manifest")
        inflater.finish()
        return results


_MANIFEST_BOUNDS = strict.Bounds(bytes=6 << 20, depth=4)


def _expect(member: Member | None, file: PackedFile) -> None:
    if member is None:
        raise Refused(Kind.MISMATCH, f"{file.name} is in the manifest alone")
    if member.name != file.name:
        claims.check_name(member.name)
        text = f"{member.name} stands where the manifest has {file.name}"
        raise Refused(Kind.MISMATCH, text)
    if member.size != file.size:
        text = f"{file.name}: {member.size:,} bytes, and the manifest says {file.size:,}"
        raise Refused(Kind.MISMATCH, text)


def _store(inflater: Inflater, file: PackedFile, folder: Path) -> None:
    """Writes a file whose name was checked, as it is unpacked."""
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), file.size
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "wb") as out:
        while left:
            part = inflater.read(min(left, _CHUNK))
            digest.update(part)
            out.write(part)
            left -= len(part)
        if cell_of(file.name) is None:
            out.flush()
            os.fsync(handle)  # what the record is made of outlives a power cut
    if digest.hexdigest() != file.sha256:
        raise Refused(Kind.MISMATCH, f"{file.name} has another digest than the manifest says")
