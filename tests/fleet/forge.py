"""An agent that can lie: bundles made byte by byte, and the desk that they are sent to."""

from __future__ import annotations

import dataclasses
import datetime as dt
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator import records
from orchestrator.config.models import Expectation
from orchestrator.fleet import keys, signed
from orchestrator.fleet.archive import Limits
from orchestrator.fleet.bundle import MANIFEST, MANIFEST_TYPE, Manifest, PackedFile
from orchestrator.fleet.claims import Given
from orchestrator.fleet.envelope import Warrant
from orchestrator.fleet.intake import Desk, Taken, take
from orchestrator.fleet.keys import OwnKey
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.refusal import Refusal
from orchestrator.job import Job
from orchestrator.order import ExecSummary
from tests.backends.samples import cell
from tests.results.test_store import result

NOW = dt.datetime(2026, 11, 20, 23, 0, tzinfo=dt.UTC)
NONCE = "0123456789abcdef" * 2
MLP, SUM = "torch_cpu.mlp.f32@intel-cpu", "torch_cpu.sum.f32@intel-cpu"
DIGEST = "d" * 64
EXPECTED = Expectation(
    owner="us",
    since=dt.date(2026, 11, 1),
    cells="*.sum.*",
    phase="lower:to-llvm",
    match="legalize",
    reason="f16 is not there yet",
    issue="tracked elsewhere",
    expires=dt.date(2027, 1, 31),
)
SUMMARY = ExecSummary(
    job="run.pytorch.intel-cpu",
    order_sha256="0" * 64,
    run="run",
    started="2026-11-20T22:00:00Z",
    ended="2026-11-20T22:58:00Z",
    seconds=3480.0,
    engine="docker",
    engine_note="Docker 27",
    environments=(),
    results=2,
    exit=0,
    host="lab-1",
    version="0.1.0",
)


def agent(name: str, *own: OwnKey, **changed: Any) -> AgentFile:
    """A registered machine with keys, all of which count."""
    return AgentFile.model_validate(
        {
            "schema": 1,
            "vendor": "intel",
            "name": name,
            "owner": "The compiler team",
            "contact": "ci@example.org",
            "backend": "buildbot",
            "pools": ("intel-cpu",),
            "level": "probation",
            "keys": tuple({"key": k.public, "from": dt.date(2026, 11, 1)} for k in own),
            "terms": {"disk": "20GiB", "time": "1h"},
            **changed,
        }
    )


def document(name: str, attempt: int = 1, **changed: Any) -> bytes:
    """A result as JSON; values that no record could hold are put in afterwards."""
    fingerprint = hashlib.sha256(name.encode()).hexdigest()[:32]
    whole = result(name, attempt, workload_sha256="00", fingerprint=fingerprint)
    value = records.encode(whole)
    assert isinstance(value, dict)
    return json.dumps({**value, **changed}).encode()


def tar_header(
    name: bytes,
    size: int | bytes,
    *,
    kind: bytes = b"0",
    link: bytes = b"",
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    spoil: bool = False,
) -> bytes:
    """A header block; a size in bytes is put in as it is."""
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    parts = [name.ljust(100, b"\0"), b"0000644\0", b"0000000\0" * 2, field, b"0" * 11 + b"\0"]
    tail = [kind, link.ljust(100, b"\0"), magic.ljust(88, b"\0"), prefix.ljust(155, b"\0")]
    head, rest = b"".join(parts), b"".join(tail)
    checksum = sum(head) + 8 * 32 + sum(rest) + spoil
    return (head + b"%06o\0 " % checksum + rest).ljust(512, b"\0")


def tar_member(name: str, data: bytes, **fields: Any) -> bytes:
    """A header with its file."""
    return tar_header(name.encode(), len(data), **fields) + data + b"\0" * (-len(data) % 512)


END = b"\0" * 1024


class Forge:
    """An honest bundle, to be bent before it is sent."""

    def __init__(self, root: Path) -> None:
        """One agent, a second one, and a key that nobody knows."""
        self.root = root
        self.target = root / "inbox"
        self.target.mkdir()
        self.key, self.other_key, self.unknown_key = (
            keys.make(root / "state", owner) for owner in ("intel-lab-1", "intel-lab-2", "x")
        )
        self.agents = {
            "intel-lab-1": agent("lab-1", self.key),
            "intel-lab-2": agent("lab-2", self.other_key),
        }
        self.warrant = Warrant(
            job="run.pytorch.intel-cpu",
            digest=DIGEST,
            repository="https://example.org/lighthouse",
            commit="c" * 40,
            agent="intel-lab-1",
            pool="intel-cpu",
            issued="2026-11-20T21:00:00Z",
            expires="2026-11-21T21:00:00Z",
            nonce=NONCE,
        )
        cells = tuple(dataclasses.replace(cell("mlp"), id=name) for name in (MLP, SUM))
        self.job = Job(id=self.warrant.job, stack="pytorch", pool="intel-cpu", cells=cells)
        self.health = False
        self.quarantined: tuple[str, ...] = ()
        self.limits = Limits()
        self.files: dict[str, bytes] = {
            f"artifacts/{MLP}/ir/01-ingress.mlir": b"module {}\n",
            "exec.json": records.dumps(SUMMARY).encode(),
            "log.txt": "cells: 2 \u2713\n".encode(),
            f"results/{MLP}.1.json": document(MLP),
            f"results/{SUM}.1.json": document(SUM),
        }
        self.signers: Sequence[OwnKey] = (self.key,)
        self.manifest: dict[str, Any] = {}
        """Fields of the manifest to change."""
        self.payload: bytes | None = None
        """Instead of the manifest."""

    def desk(self) -> Desk:
        """What the orchestrator knows."""
        given = Given(
            warrant=self.warrant,
            job=self.job,
            health=self.health,
            expectations=(EXPECTED,),
        )
        return Desk(
            agents=self.agents,
            given=lambda nonce: given if nonce == NONCE else None,
            quarantined=self.quarantined,
            limits=self.limits,
        )

    def listed(self, files: Mapping[str, bytes] | None = None) -> list[dict[str, Any]]:
        """The manifest's entries."""
        files = self.files if files is None else files
        return [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        ]

    def envelope(self) -> bytes:
        """The signed manifest."""
        order = self.warrant
        whole = Manifest(
            job=order.job,
            digest=order.digest,
            agent=order.agent,
            pool=order.pool,
            nonce=order.nonce,
            packed="2026-11-20T22:59:00Z",
            files=tuple(PackedFile(**each) for each in self.listed()),
            left_out=0,
        )
        value = records.encode(whole)
        assert isinstance(value, dict)
        payload = self.payload or json.dumps({**value, **self.manifest}).encode()
        return signed.seal(MANIFEST_TYPE, payload, self.signers)

    def members(self) -> list[bytes]:
        """The files, each as it stands in the archive; the signed manifest is the first."""
        return [
            tar_member(MANIFEST, self.envelope()),
            *(tar_member(name, data) for name, data in self.files.items()),
        ]

    def bundle(self) -> bytes:
        """All of it."""
        return gz([*self.members(), END])

    def send(self, bundle: bytes | Path | None = None, now: dt.datetime = NOW) -> Taken | Refusal:
        """What the intake makes of it."""
        if not isinstance(bundle, Path):
            path = self.root / "sent.results.tar.gz"
            path.write_bytes(self.bundle() if bundle is None else bundle)
            bundle = path
        return take(bundle, self.desk(), self.target, now=now)


def gz(parts: Iterable[bytes]) -> bytes:
    """A gzip member."""
    return gzip.compress(b"".join(parts), 6, mtime=0)


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """All that is below a folder: names, kinds and contents."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in root.rglob("*")
    }
