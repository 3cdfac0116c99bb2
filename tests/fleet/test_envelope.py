"""Signed jobs, and an agent's check of them."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.fleet import keys, signed
from orchestrator.fleet.envelope import (
    Journal,
    Warrant,
    accept,
    moment,
    new_nonce,
    sign,
)
from orchestrator.fleet.folder import folder_digest
from orchestrator.fleet.keys import OwnKey
from orchestrator.fleet.models import OrchestratorFile
from orchestrator.fleet.refusal import Kind, Refusal, Refused
from tests.fleet.forge import NOW, everything

REPOSITORY = "https://example.org/lighthouse"


class Machine:
    """An agent with a job's folder, and the orchestrator that signs it."""

    def __init__(self, root: Path) -> None:
        """Nothing was run here yet."""
        self.root = root
        self.key, self.other_key = (keys.make(root / "state", owner) for owner in ("o", "x"))
        self.folder = root / "job"
        for name, text in {
            "job.json": "{}\n",
            "workloads/mlp.py": "class Model: ...\n",
            "orchestrator/__init__.py": "",
        }.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.warrant = Warrant(
            job="run.pytorch.intel-cpu",
            digest=folder_digest(self.folder),
            repository=REPOSITORY,
            commit="c" * 40,
            agent="intel-lab-1",
            pool="intel-cpu",
            issued="2026-11-20T22:00:00Z",
            expires="2026-11-21T22:00:00Z",
            nonce=new_nonce(),
        )
        self.signers: list[OwnKey] = [self.key]
        self.registered: dict[str, Any] = {
            "keys": ({"key": self.key.public, "from": dt.date(2026, 11, 1)},)
        }
        self.now = NOW

    def trusted(self) -> OrchestratorFile:
        """Whose jobs are run here."""
        return OrchestratorFile.model_validate(
            {"schema": 1, "repositories": (REPOSITORY,), **self.registered}
        )

    def accept(self, envelope: bytes | None = None) -> Warrant | Refusal:
        """What the agent says to a job."""
        return accept(
            sign(self.warrant, self.signers) if envelope is None else envelope,
            self.folder,
            agent="intel-lab-1",
            pools=("intel-cpu", "software-gpu"),
            trusted=self.trusted(),
            journal=Journal(self.root / "journal"),
            now=self.now,
        )

    def change(self, **fields: object) -> None:
        """Another warrant, signed just as well."""
        self.warrant = dataclasses.replace(self.warrant, **fields)  # type: ignore[arg-type]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An agent that was given a job."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Machine(tmp_path)


def test_a_job_that_was_signed_is_run_once(machine: Machine) -> None:
    assert machine.accept() == machine.warrant
    again = machine.accept()
    assert isinstance(again, Refusal)
    assert (again.kind, again.job) == (Kind.REPLAY, machine.warrant.job)
    machine.change(nonce=new_nonce())
    assert machine.accept() == machine.warrant


def test_the_digest_is_what_the_documentation_says(machine: Machine) -> None:
    lines = ["lighthouse-ci job 1"]
    for name in sorted(["job.json", "workloads/mlp.py", "orchestrator/__init__.py"]):
        data = (machine.folder / name).read_bytes()
        lines.append(f"{hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    text = "\n".join(lines) + "\n"
    assert machine.warrant.digest == hashlib.sha256(text.encode()).hexdigest()


def test_the_signed_bytes_are_what_dsse_says(machine: Machine) -> None:
    """By the example of its protocol.md, and by what is in the envelope."""
    sealed = json.loads(signed.seal("http://example.com/HelloWorld", b"hello world", [machine.key]))
    data = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    (signature,) = sealed["signatures"]
    assert keys.verify(machine.key.public, data, base64.b64decode(signature["sig"]))
    assert base64.b64decode(sealed["payload"]) == b"hello world"


def edited(text: str) -> Callable[[Machine], bytes]:
    """The signed job in which a text of its payload is another."""

    def bend(machine: Machine) -> bytes:
        envelope = json.loads(sign(machine.warrant, machine.signers))
        payload = base64.b64decode(envelope["payload"]).replace(b"intel-cpu", text.encode())
        return json.dumps({**envelope, "payload": base64.b64encode(payload).decode()}).encode()

    return bend


def unsigned(machine: Machine) -> bytes:
    """No signature at all."""
    return sign(machine.warrant, [])


def by_somebody_else(machine: Machine) -> bytes:
    """A key that is not the orchestrator's."""
    return sign(machine.warrant, [machine.other_key])


def with_a_revoked_key(machine: Machine) -> bytes:
    """The orchestrator's key of yesterday."""
    revoked = {"key": machine.key.public, "since": dt.date(2026, 11, 1), "reason": "lost"}
    machine.registered = {"keys": (), "revoked": (revoked,)}
    return sign(machine.warrant, machine.signers)


def with_a_key_that_expired(machine: Machine) -> bytes:
    """The orchestrator's key of the day before."""
    begin = dt.date(2026, 11, 1)
    machine.registered = {
        "keys": ({"key": machine.key.public, "from": begin, "until": dt.date(2026, 11, 19)},)
    }
    return sign(machine.warrant, machine.signers)


def as_something_else(machine: Machine) -> bytes:
    """A signature of the orchestrator's under another kind of document."""
    return signed.seal("text/plain", b"{}", machine.signers)


def no_json(machine: Machine) -> bytes:
    """Nothing that could be read."""
    return b"#!/bin/sh\n"


def file_changed(machine: Machine) -> None:
    """A byte of a workload."""
    (machine.folder / "workloads/mlp.py").write_text("class Model: 0..\n")


def file_added(machine: Machine) -> None:
    """One more file."""
    (machine.folder / "workloads/numpy.py").write_text("import os\n")


def file_gone(machine: Machine) -> None:
    """One file less."""
    (machine.folder / "workloads/mlp.py").unlink()


def file_renamed(machine: Machine) -> None:
    """The same bytes under another name."""
    (machine.folder / "workloads/mlp.py").rename(machine.folder / "workloads/mpl.py")


def folder_gone(machine: Machine) -> None:
    """No job at all."""
    machine.folder.rename(machine.root / "elsewhere")


def link(machine: Machine) -> None:
    """The same bytes, through a link that can be turned later."""
    path = machine.folder / "workloads/mlp.py"
    path.rename(machine.root / "mlp.py")
    path.symlink_to(machine.root / "mlp.py")


def linked_folder(machine: Machine) -> None:
    """A folder that is elsewhere."""
    (machine.folder / "workloads").rename(machine.root / "workloads")
    (machine.folder / "workloads").symlink_to(machine.root / "workloads")


def pipe(machine: Machine) -> None:
    """Something that never ends."""
    os.mkfifo(machine.folder / "workloads/mlp.fifo")


def hidden(machine: Machine) -> None:
    """A name that no job has."""
    (machine.folder / ".pythonrc").write_text("")


@pytest.mark.parametrize(
    ("kind", "bend"),
    [
        (Kind.UNSIGNED, unsigned),
        (Kind.UNREGISTERED, by_somebody_else),
        (Kind.KEY_REVOKED, with_a_revoked_key),
        (Kind.KEY_EXPIRED, with_a_key_that_expired),
        (Kind.SIGNATURE, edited("software-gpu")),
        (Kind.SCHEMA, as_something_else),
        (Kind.SYNTAX, no_json),
        (Kind.CHANGED, file_changed),
        (Kind.CHANGED, file_added),
        (Kind.CHANGED, file_gone),
        (Kind.CHANGED, file_renamed),
        (Kind.CHANGED, folder_gone),
        (Kind.LINK, link),
        (Kind.LINK, linked_folder),
        (Kind.SPECIAL, pipe),
        (Kind.PATH, hidden),
    ],
)
def test_what_is_not_run(
    machine: Machine, kind: Kind, bend: Callable[[Machine], bytes | None]
) -> None:
    envelope = bend(machine)
    before = everything(machine.root)
    refusal = machine.accept(envelope)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.agent) == (kind, "intel-lab-1")
    assert everything(machine.root) == before


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Kind.OTHER_AGENT, {"agent": "intel-lab-2"}),
        (Kind.OTHER_POOL, {"pool": "nvidia-gpu"}),
        (Kind.REPOSITORY, {"repository": "https://example.org/lighthouse.git"}),
        (Kind.EXPIRED, {"expires": "2026-11-20T22:59:59Z"}),
        (Kind.EXPIRED, {"issued": "2026-11-20T23:11:00Z"}),
        (Kind.EXPIRED, {"expires": "2026-11-28T00:00:00Z"}),
        (Kind.SCHEMA, {"issued": "2026-11-20 22:00:00"}),
        (Kind.SCHEMA, {"expires": "2026-11-21T22:00:00+14:00"}),
        (Kind.SCHEMA, {"nonce": "../../../escaped"}),
        (Kind.SCHEMA, {"nonce": ""}),
        (Kind.SCHEMA, {"job": "../escaped"}),
        (Kind.SCHEMA, {"schema": 2}),
        (Kind.TEXT, {"commit": "\x1b[2J"}),
    ],
)
def test_what_is_signed_and_not_for_us(
    machine: Machine, kind: Kind, fields: dict[str, object]
) -> None:
    machine.change(**fields)
    before = everything(machine.root)
    refusal = machine.accept()
    assert isinstance(refusal, Refusal)
    assert refusal.kind == kind
    assert everything(machine.root) == before


def test_a_clock_may_be_a_little_behind(machine: Machine) -> None:
    machine.now = moment(machine.warrant.issued) - dt.timedelta(minutes=9)
    assert machine.accept() == machine.warrant


def test_too_many_files_are_not_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.fleet.folder._MAX_JOB_FILES", 4)
    with pytest.raises(Refused) as caught:
        folder_digest(machine.folder)
    assert caught.value.kind == Kind.TOO_MANY


class TestJournal:
    """What was run is remembered."""

    def test_across_processes_and_restarts(self, machine: Machine) -> None:
        folder = machine.root / "journal"
        assert Journal(folder).claim(machine.warrant, NOW)
        assert not Journal(folder).claim(machine.warrant, NOW)

    def test_what_expired_long_ago_is_forgotten_and_still_refused(self, machine: Machine) -> None:
        journal = Journal(machine.root / "journal")
        assert journal.claim(machine.warrant, NOW)
        later = NOW + dt.timedelta(days=32)
        other = dataclasses.replace(machine.warrant, nonce=new_nonce())
        assert journal.claim(other, later)
        assert [path.name for path in (machine.root / "journal").iterdir()] == [other.nonce]
        machine.now = later
        refusal = machine.accept()
        assert isinstance(refusal, Refusal)
        assert refusal.kind == Kind.EXPIRED

    def test_what_cannot_be_remembered_is_not_run(self, machine: Machine) -> None:
        (machine.root / "journal").write_text("a file in its place")
        with pytest.raises(InfrastructureError, match="cannot write"):
            machine.accept()


def test_nonces_are_new() -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
