"""The dispatcher's side of signatures: warrants for what it hands out, checks of what comes back.

Warrants of a submission are in the run's folder before it is made, `warrants/<submission>.json`:
who goes on after a dispatcher that was killed hands out the same ones, and knows what they answer.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.backends import intake, parcel
from orchestrator.backends.executing import Ordered
from orchestrator.backends.intake import IntakeError
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import envelope
from orchestrator.fleet import intake as desk
from orchestrator.fleet.claims import Given
from orchestrator.fleet.envelope import Warrant
from orchestrator.fleet.folder import WARRANTS, folder_digest
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.refusal import Kind, Refusal, Refused
from orchestrator.fleet.signed import Signer
from orchestrator.results.files import write_atomically
from orchestrator.results.lines import Lines
from orchestrator.results.store import Run, utc

REFUSALS = "fleet/refusals.jsonl"
"""Of the state folder: what was refused."""
LIFETIME = dt.timedelta(days=2)
"""Of a warrant: a job waits for a machine for hours, and may be given out again."""


@dataclass(frozen=True, kw_only=True)
class RefusedBundle:
    """A line of the store of refusals."""

    at: str
    """UTC, ISO 8601."""
    agent: str
    """Whose signature it had; empty when that could not be told."""
    machine: str
    """Whom it came from, as the backend has it."""
    run: str
    job: str
    kind: str
    """`refusal.Kind`."""
    why: str


class RefusedError(IntakeError):
    """What a machine sent is not taken."""

    def __init__(self, refusal: Refusal) -> None:
        """Has the refusal itself, too."""
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, kw_only=True)
class Office:
    """Who signs warrants, and what for."""

    signers: Sequence[Signer]
    repository: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class Signing:
    """What a dispatcher knows of keys and agents."""

    agents: Mapping[str, AgentFile]
    """All that are registered: whose signatures count."""
    backend: str
    """Whose agents are given jobs; empty: all."""
    office: Office | None
    """None: nothing is signed."""
    unsigned: bool = False
    """Whether results of machines that are not registered are taken."""
    hosted: bool = False
    """Whether the backend has machines of its own, for pools that no agent serves."""
    refusals: Path | None = None
    """The store of refusals."""

    def warrants(
        self,
        run: Run,
        ordered: Ordered,
        key: str,
        now: dt.datetime,
        agents: Collection[str] | None = None,
    ) -> Mapping[str, bytes]:
        """The warrants of a submission, by agent; the same ones for the same `key`.

        Args:
            run: claimed by this process.
            ordered: the job, whose folder is whole.
            key: names the submission.
            now: aware of its time zone.
            agents: who may take it; None: all agents of its pool.

        Raises:
            InfrastructureError: they cannot be kept, or the job's folder cannot be read.
        """
        path = _path(run, key)
        if path.exists():
            return _read(path)
        given = self._serving(ordered.job.pool)
        names = given if agents is None else [name for name in given if name in agents]
        if self.office is None or not names:
            return {}
        made = _make(self.office, ordered, names, now)
        kept = _Kept(warrants={name: data.decode("ascii") for name, data in made.items()})
        write_atomically(path, records.dumps(kept, indent=1).encode() + b"\n")
        return made

    def take(
        self,
        run: Run,
        ordered: Ordered,
        archive: Path,
        work: Path,
        *,
        key: str,
        machine: str,
        numbers: Mapping[str, int],
        now: dt.datetime,
        quarantined: Collection[str] = (),
    ) -> intake.Taken:
        """Takes what a machine sent into the record.

        Args:
            run: claimed by this process.
            ordered: the job.
            archive: what came.
            work: a folder that is not there yet, and is the caller's to remove.
            key: names the submission that it answers.
            machine: whom it came from, as the backend has it.
            numbers: see `intake.take_in`.
            now: aware of its time zone.
            quarantined: agents whose answer to this job counts for nothing.

        Raises:
            IntakeError: it is not taken; a `RefusedError` tells more.
            ParcelError: it is not signed, need not be, and is no parcel.
            InfrastructureError: the record cannot be written.
        """
        if self._may_be_plain(ordered.job.pool) and not desk.is_signed(archive):
            parcel.unpack(archive, work)
            return intake.take_in(run, ordered, work, numbers)
        given = self._given(run, ordered, key)
        found = desk.take(
            archive,
            desk.Desk(agents=self.agents, given=given.get, quarantined=quarantined),
            work,
            now=now,
        )
        if isinstance(found, desk.Taken) and (why := self._impostor(found, machine)):
            found = why
        if isinstance(found, Refusal):
            self._note(run, ordered, machine, found, now)
            raise RefusedError(found)
        agent = found.given.warrant.agent
        return intake.take_in(run, ordered, found.folder, numbers, agent)

    def _serving(self, pool: str) -> list[str]:
        return [
            name
            for name, agent in self.agents.items()
            if pool in agent.pools and self.backend in ("", agent.backend)
        ]

    def _may_be_plain(self, pool: str) -> bool:
        return self.unsigned or (self.hosted and not self._serving(pool))

    def _given(self, run: Run, ordered: Ordered, key: str) -> Mapping[str, Given]:
        """By nonce."""
        expected = ordered.order.expected()
        path = _path(run, key)
        made = [_warrant(data) for data in (_read(path) if path.exists() else {}).values()]
        return {
            warrant.nonce: Given(
                warrant=warrant,
                job=ordered.job,
                expectations=expected,
            )
            for warrant in made
        }

    def _impostor(self, taken: desk.Taken, machine: str) -> Refusal | None:
        """Backends whose machines have the names of agents know who sent something."""
        warrant = taken.given.warrant
        if machine not in self.agents or machine == warrant.agent:
            return None
        why = f"{machine} sent it, and {warrant.agent} signed it"
        return Refusal(kind=Kind.OTHER_AGENT, why=why, agent=warrant.agent, job=warrant.job)

    def _note(
        self, run: Run, ordered: Ordered, machine: str, refusal: Refusal, now: dt.datetime
    ) -> None:
        if self.refusals is None or refusal.declined:
            return
        line = RefusedBundle(
            at=utc(now),
            agent=refusal.agent,
            machine=machine,
            run=run.name,
            job=ordered.job.id,
            kind=refusal.kind,
            why=refusal.why,
        )
        Lines(self.refusals, RefusedBundle).add(line)


UNSIGNED = Signing(agents={}, backend="", office=None, unsigned=True)
"""Where nobody signs anything."""


def has_warrants(run: Run, key: str) -> bool:
    """Whether a submission was signed."""
    return _path(run, key).exists()


def files(warrants: Mapping[str, bytes]) -> dict[str, bytes]:
    """Warrants by their names in a job's folder."""
    return {envelope.path_of(agent): data for agent, data in warrants.items()}


# --- how --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """The warrants of a submission."""

    warrants: Mapping[str, str]
    """Envelopes by agent."""


def _make(
    office: Office, ordered: Ordered, names: Sequence[str], now: dt.datetime
) -> dict[str, bytes]:
    try:
        digest = folder_digest(ordered.folder)
    except Refused as error:
        raise InfrastructureError(f"{ordered.folder} is no folder of a job: {error}") from error
    except OSError as error:
        raise InfrastructureError(f"{ordered.folder}: {error.strerror or error}") from error
    return {
        name: envelope.sign(
            Warrant(
                job=ordered.job.id,
                digest=digest,
                repository=office.repository,
                commit=office.commit,
                agent=name,
                pool=ordered.job.pool,
                issued=utc(now),
                expires=utc(now + LIFETIME),
                nonce=envelope.new_nonce(),
            ),
            office.signers,
        )
        for name in names
    }


def _path(run: Run, key: str) -> Path:
    return run.folder / WARRANTS / f"{key}.json"


def _read(path: Path) -> dict[str, bytes]:
    try:
        kept = records.decode(_Kept, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{path} is damaged: {error}") from error
    return {name: data.encode() for name, data in kept.warrants.items()}


def _warrant(data: bytes) -> Warrant:
    """What we signed ourselves, and kept where only we write."""
    try:
        return records.decode(Warrant, json.loads(base64.b64decode(json.loads(data)["payload"])))
    except (ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(f"a warrant of this run is damaged: {error}") from error
