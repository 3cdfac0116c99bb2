"""The agent's side: a machine that runs what was signed for it, once, and signs what came of it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet import keys, packing
from orchestrator.fleet.agents import load_own
from orchestrator.fleet.bundle import DECLINED, Declined
from orchestrator.fleet.envelope import (
    Journal,
    Warrant,
    examine,
    new_nonce,
    replayed,
    warrant_in,
)
from orchestrator.fleet.models import AgentFile, OrchestratorFile
from orchestrator.fleet.refusal import Refusal, Refused
from orchestrator.order import EXEC_FILE, ORDER_FILE
from orchestrator.results.files import unwritable, write_atomically
from orchestrator.results.store import utc

JOURNAL = "fleet/warrants"
"""Of the state folder: the warrants that were taken."""
_BEGUN = ".warrant.json"
"""In a folder of results: which warrant they answer."""


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """What a folder of results was begun with."""

    mark: str
    """As in the journal: no other folder has it."""
    warrant: Warrant


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a machine is."""

    agent: AgentFile
    trusted: OrchestratorFile
    """Whose warrants count."""
    state: Path
    """The folder with its keys and its journal."""

    def begin(self, job: Path, name: str, out: Path, now: dt.datetime) -> Refusal | None:
        """Takes a job's warrant, so that it may be run; why it may not be, if so.

        What an earlier call with the same warrant left in `out` stays and is gone on with. What
        was made under another warrant goes.

        Args:
            job: the job's folder.
            name: the job's id.
            out: the folder of its results, which nobody else works on.
            now: aware of its time zone.

        Raises:
            InfrastructureError: the journal, or `out`, cannot be written.
        """
        refusal = self._begin(job, out, now)
        try:
            (out / DECLINED).unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(out, error) from error
        if refusal is not None:
            declined = Declined(
                job=name, agent=self.agent.id, kind=refusal.kind, why=refusal.why, at=utc(now)
            )
            write_atomically(out / DECLINED, records.dumps(declined, indent=1).encode() + b"\n")
        return refusal

    def pack(self, out: Path, target: Path, now: dt.datetime) -> None:
        """Makes a signed file of what a job left, or of why it was not run.

        Raises:
            UsageError: the agent has no key on this machine.
            InfrastructureError: no warrant was taken for `out`, it is not finished, or `target`
                cannot be written.
        """
        signers = keys.own(self.state, self.agent.id)
        if not signers:
            raise UsageError(
                f"{self.agent.id} has no key in {self.state / keys.FOLDER}: is LH_STATE set as it "
                f"was for lh-ci register? A new one: lh-ci keys rotate {self.agent.id}"
            )
        if (out / DECLINED).exists():
            packing.pack_declined(out, target, signers)
            return
        begun = _read(out)
        if begun is None or not self._journal.taken(begun.warrant.nonce, begun.mark):
            raise InfrastructureError(
                f"{out} holds nothing that {self.agent.id} ran for a warrant: lh-ci exec is first"
            )
        packing.pack(out, target, warrant=begun.warrant, signers=signers, now=now)

    @property
    def _journal(self) -> Journal:
        return Journal(self.state / JOURNAL)

    def _begin(self, job: Path, out: Path, now: dt.datetime) -> Refusal | None:
        before, journal = _read(out), self._journal
        if before is not None and not journal.taken(before.warrant.nonce, before.mark):
            before = None
        try:
            envelope = warrant_in(job, self.agent.id)
        except Refused as error:
            return Refusal(kind=error.kind, why=error.why, agent=self.agent.id)
        found = examine(
            envelope,
            job,
            agent=self.agent.id,
            pools=self.agent.pools,
            trusted=self.trusted,
            now=now,
            begun=before.warrant.nonce if before else "",
        )
        if isinstance(found, Refusal):
            return found
        if before is not None and before.warrant == found:
            return None
        if not journal.free(found.nonce):
            return replayed(found)
        # the mark is on the disk before the journal has it: who is killed in between begins anew
        mark = new_nonce()
        _empty(out)
        write_atomically(out / _BEGUN, records.dumps(_Begun(mark=mark, warrant=found)).encode())
        return None if journal.claim(found, now, mark) else replayed(found)


def identity(root: Path, state: Path, agent: str) -> Identity:
    """Who this machine is.

    Raises:
        UsageError: nobody of that name is registered, or no orchestrator is.
        DefinitionError: their files are wrong.
    """
    own, trusted = load_own(root, agent)
    return Identity(agent=own, trusted=trusted, state=state)


def _read(out: Path) -> _Begun | None:
    try:
        return records.decode(_Begun, json.loads((out / _BEGUN).read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None


def _empty(out: Path) -> None:
    """Removes what was made under another warrant; the summary first, so that none is believed."""
    try:
        (out / EXEC_FILE).unlink(missing_ok=True)
        for path in out.iterdir():
            if path.name in (ORDER_FILE, "lock"):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise unwritable(out, error) from error
