"""Signed jobs: the orchestrator's word that an agent may run one, and the agent's check of it.

The signed document is a `Warrant`, in the envelope of `orchestrator.fleet.signed`. It names the
job by the digest of its folder (`orchestrator.fleet.folder`).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import signed, strict
from orchestrator.fleet.folder import WARRANTS, folder_digest
from orchestrator.fleet.models import OrchestratorFile
from orchestrator.fleet.refusal import Kind, Refusal, Refused
from orchestrator.fleet.signed import Signer
from orchestrator.job import is_plain_path
from orchestrator.results.files import create_atomically, unwritable
from orchestrator.results.store import utc

WARRANT_TYPE = "application/vnd.lighthouse-ci.warrant+json;version=1"
ORCHESTRATOR = "orchestrator"
"""The owner of the keys that sign warrants."""

MAX_LIFETIME = dt.timedelta(days=7)
"""A warrant that counts for longer is refused: the journal need not remember it for ever."""
CLOCK_SLACK = dt.timedelta(minutes=10)
"""By which an agent's clock may be behind the orchestrator's."""
_REMEMBERED = dt.timedelta(days=30)
"""For how long after its end a warrant stays in the journal: clocks jump."""

MAX_WARRANT_BYTES = 64 << 10

_NONCE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True)
class Warrant:
    """A job for one agent."""

    job: str
    digest: str
    """Of the job's folder; hexadecimal."""
    repository: str
    commit: str
    agent: str
    pool: str
    issued: str
    """UTC, ISO 8601, as all times here."""
    expires: str
    """The job must have begun by then."""
    nonce: str
    """32 hexadecimal digits: this warrant, and no other."""
    schema: int = 1


def new_nonce() -> str:
    """One that nobody can guess."""
    return secrets.token_hex(16)


def path_of(agent: str) -> str:
    """Where in a job's folder an agent's warrant is."""
    return f"{WARRANTS}/{agent}.json"


def warrant_in(folder: Path, agent: str) -> bytes:
    """The envelope for an agent in a job's folder, not yet looked at.

    Raises:
        Refused: there is none.
    """
    path = folder / path_of(agent)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            data = file.read(MAX_WARRANT_BYTES + 1)
    except OSError as error:
        text = f"the job has no warrant for {agent} ({error.strerror})"
        raise Refused(Kind.UNSIGNED, text) from error
    if len(data) > MAX_WARRANT_BYTES:
        raise Refused(Kind.TOO_LARGE, f"a warrant is at most {MAX_WARRANT_BYTES:,} bytes")
    return data


def sign(warrant: Warrant, signers: Sequence[Signer]) -> bytes:
    """The warrant in its envelope."""
    return signed.seal(WARRANT_TYPE, records.dumps(warrant).encode(), signers)


class Journal:
    """Which warrants were taken on this machine: each at most once, whatever is killed when."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist; it has one small file for each warrant."""
        self._folder = folder

    def claim(self, warrant: Warrant, now: dt.datetime, mark: str = "") -> bool:
        """Takes a warrant, atomically among processes; False: somebody else took it before.

        Args:
            warrant: what is taken.
            now: aware of its time zone.
            mark: who takes it, a text that nobody else has; the same one may take it again.

        Raises:
            InfrastructureError: the journal cannot be written, so nothing may run.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._forget(now)
        except OSError as error:
            raise unwritable(self._folder, error) from error
        entry = f"{warrant.expires}\n{warrant.job}\n{mark or new_nonce()}\n"
        if create_atomically(self._folder / warrant.nonce, entry.encode()):
            return True
        return self.taken(warrant.nonce, mark)

    def taken(self, nonce: str, mark: str) -> bool:
        """Whether a warrant was taken with this mark."""
        return bool(mark) and self._mark(nonce) == mark

    def free(self, nonce: str) -> bool:
        """Whether nobody took a warrant yet."""
        return self._mark(nonce) is None

    def _mark(self, nonce: str) -> str | None:
        """Of who took a warrant; None: nobody did."""
        try:
            lines = (self._folder / nonce).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InfrastructureError(f"{self._folder / nonce} cannot be read: {error}") from error
        return lines[2] if len(lines) > 2 else ""

    def _forget(self, now: dt.datetime) -> None:
        """Drops what expired long ago; its warrant is refused for that."""
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError, ValueError):
                ended = moment(path.read_text(encoding="utf-8").partition("\n")[0])
                if ended + _REMEMBERED < now:
                    path.unlink()


def accept(
    envelope: bytes,
    folder: Path,
    *,
    agent: str,
    pools: Collection[str],
    trusted: OrchestratorFile,
    journal: Journal,
    now: dt.datetime,
) -> Warrant | Refusal:
    """The agent's check of a job, right before it is run; what is accepted cannot be again.

    Args:
        envelope: as of `examine`, like all others.
        folder: see there.
        agent: see there.
        pools: see there.
        trusted: see there.
        journal: of this machine.
        now: see there.

    Raises:
        InfrastructureError: the journal cannot be written.
    """
    found = examine(envelope, folder, agent=agent, pools=pools, trusted=trusted, now=now)
    if isinstance(found, Warrant) and not journal.claim(found, now):
        return replayed(found)
    return found


def replayed(warrant: Warrant) -> Refusal:
    """Why a warrant is not taken that was taken before."""
    text = f"warrant {warrant.nonce} was taken on this machine before"
    return Refusal(kind=Kind.REPLAY, why=text, agent=warrant.agent, job=warrant.job)


def examine(
    envelope: bytes,
    folder: Path,
    *,
    agent: str,
    pools: Collection[str],
    trusted: OrchestratorFile,
    now: dt.datetime,
    begun: str = "",
) -> Warrant | Refusal:
    """Whether a job may be run here, were it not for what was taken before.

    Args:
        envelope: the signed warrant.
        folder: the job's files; they are not touched.
        agent: who we are.
        pools: those that we serve.
        trusted: whose signature counts, and the repositories that we run code of.
        now: aware of its time zone.
        begun: the nonce of a warrant that was taken while it counted: it may have expired since.
    """
    warrant: Warrant | None = None
    try:
        keys = {ORCHESTRATOR: trusted}
        _, payload = signed.opened(WARRANT_TYPE, envelope, keys, now.astimezone(dt.UTC).date())
        warrant = strict.read(Warrant, payload, "warrant")
        _check(warrant, agent, pools, trusted.repositories)
        _check_time(warrant, now, begun=warrant.nonce == begun)
        _check_files(warrant, folder)
    except Refused as error:
        job = warrant.job if warrant else ""
        return Refusal(kind=error.kind, why=error.why, agent=agent, job=job)
    return warrant


def moment(text: str) -> dt.datetime:
    """A time as `results.store.utc` writes it.

    Raises:
        ValueError: it is anything else.
    """
    found = dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC)
    if utc(found) != text:  # strptime takes `2026-1-1T…` too
        raise ValueError(text)
    return found


def _check(
    warrant: Warrant, agent: str, pools: Collection[str], repositories: Collection[str]
) -> None:
    """Whether a genuine warrant is for us."""
    if warrant.schema != 1 or not _NONCE.fullmatch(warrant.nonce) or not is_plain_path(warrant.job):
        raise Refused(Kind.SCHEMA, "this is no warrant of version 1")
    if warrant.agent != agent:
        raise Refused(Kind.OTHER_AGENT, f"it is for {warrant.agent:.80}, and this is {agent}")
    if warrant.pool not in pools:
        raise Refused(Kind.OTHER_POOL, f"{agent} does not serve pool {warrant.pool:.80}")
    if warrant.repository not in repositories:
        raise Refused(Kind.REPOSITORY, f"{warrant.repository:.120} is not among those allowed")


def _check_time(warrant: Warrant, now: dt.datetime, *, begun: bool) -> None:
    """Whether it counts now."""
    try:
        issued, expires = moment(warrant.issued), moment(warrant.expires)
    except ValueError as error:
        raise Refused(Kind.SCHEMA, f"no time of a warrant: {error}") from error
    if expires - issued > MAX_LIFETIME:
        text = (
            f"it counts from {warrant.issued} to {warrant.expires}: more than {MAX_LIFETIME.days} d"
        )
        raise Refused(Kind.EXPIRED, text)
    if now > expires and not begun:
        raise Refused(Kind.EXPIRED, f"it expired at {warrant.expires}, and it is {utc(now)} here")
    if issued > now + CLOCK_SLACK:
        raise Refused(Kind.EXPIRED, f"it is of {warrant.issued}, and it is {utc(now)} here")


def _check_files(warrant: Warrant, folder: Path) -> None:
    try:
        found = folder_digest(folder)
    except OSError as error:
        raise Refused(Kind.CHANGED, f"{folder} cannot be read: {error.strerror}") from error
    if found != warrant.digest:
        text = f"its files have the digest {found:.12}…, and {warrant.digest:.12}… was signed"
        raise Refused(Kind.CHANGED, text)
