"""Signatures, and whose job it was."""

from __future__ import annotations

import base64
import datetime as dt
import json

from orchestrator.fleet import signed
from orchestrator.fleet.bundle import MANIFEST, MANIFEST_TYPE
from orchestrator.fleet.envelope import WARRANT_TYPE
from orchestrator.fleet.intake import Taken
from orchestrator.fleet.refusal import Kind
from tests.fleet.forge import (
    END,
    MLP,
    Forge,
    agent,
    document,
    gz,
    tar_member,
)
from tests.fleet.hostile.registry import RESULT, Payload, payload, variants

# --- signatures -------------------------------------------------------------------------------


@payload(Kind.UNSIGNED)
def no_manifest(forge: Forge) -> bytes:
    return gz([*forge.members()[1:], END])


@payload(Kind.UNSIGNED)
def empty_archive(forge: Forge) -> bytes:
    return gz([END])


@payload(Kind.UNSIGNED)
def no_signature(forge: Forge) -> bytes:
    forge.signers = ()
    return forge.bundle()


@payload(Kind.UNREGISTERED)
def unknown_key(forge: Forge) -> bytes:
    forge.signers = (forge.unknown_key,)
    return forge.bundle()


@payload(Kind.UNREGISTERED)
def unregistered_agent(forge: Forge) -> bytes:
    del forge.agents["intel-lab-1"]
    return forge.bundle()


class Impostor:
    """Has one key, and says that it has another."""

    def __init__(self, forge: Forge) -> None:
        self.fingerprint = forge.key.fingerprint
        self._key = forge.unknown_key

    def sign(self, data: bytes) -> bytes:
        """With its own."""
        return self._key.sign(data)


def enveloped(forge: Forge, **changed: object) -> bytes:
    """The honest bundle in another envelope."""
    envelope = json.loads(forge.envelope())
    data = json.dumps({**envelope, **changed}).encode()
    return gz([tar_member(MANIFEST, data), *forge.members()[1:], END])


@payload(Kind.SIGNATURE)
def wrong_key_behind_the_right_name(forge: Forge) -> bytes:
    envelope = json.loads(forge.envelope())
    other = signed.seal(MANIFEST_TYPE, b"{}", [Impostor(forge)])
    return enveloped(forge, signatures=json.loads(other)["signatures"], payload=envelope["payload"])


@payload(Kind.SIGNATURE)
def manifest_that_was_changed(forge: Forge) -> bytes:
    honest = json.loads(forge.envelope())
    forge.manifest["pool"] = "amd-cpu"
    return enveloped(forge, signatures=honest["signatures"])


@payload(Kind.SIGNATURE)
def signature_of_another_kind_of_document(forge: Forge) -> bytes:
    """What an agent signed as something else is no manifest, whatever it says."""
    raw = base64.b64decode(json.loads(forge.envelope())["payload"])
    other = json.loads(signed.seal(WARRANT_TYPE, raw, [forge.key]))
    return enveloped(forge, signatures=other["signatures"])


@payload(Kind.SIGNATURE)
def signature_that_is_too_short(forge: Forge) -> bytes:
    signature = {"keyid": forge.key.fingerprint, "sig": "AAAA"}
    return enveloped(forge, signatures=[signature])


@payload(Kind.SYNTAX)
def signature_that_is_no_base64(forge: Forge) -> bytes:
    signature = {"keyid": forge.key.fingerprint, "sig": "*" * 88}
    return enveloped(forge, signatures=[signature])


@payload(Kind.LENGTH)
def a_thousand_signatures(forge: Forge) -> bytes:
    """Each one costs a verification."""
    signatures = json.loads(forge.envelope())["signatures"]
    return enveloped(forge, signatures=signatures * 1000)


@payload(Kind.LENGTH)
def nine_signatures(forge: Forge) -> bytes:
    return enveloped(forge, signatures=json.loads(forge.envelope())["signatures"] * 9)


@payload(Kind.SCHEMA)
def another_kind_of_document(forge: Forge) -> bytes:
    return enveloped(forge, payloadType=WARRANT_TYPE)


@payload(Kind.SCHEMA)
def envelope_with_one_key_too_many(forge: Forge) -> bytes:
    return enveloped(forge, algorithm="none")


@payload(Kind.KEY_REVOKED)
def revoked_key(forge: Forge) -> bytes:
    revoked = {"key": forge.key.public, "since": dt.date(2026, 11, 19), "reason": "lost"}
    forge.agents["intel-lab-1"] = agent("lab-1", revoked=(revoked,))
    return forge.bundle()


def dated(begin: dt.date, end: dt.date | None) -> Payload:
    """The agent's key counts on those days."""

    def bend(forge: Forge) -> bytes:
        key = {"key": forge.key.public, "from": begin, "until": end}
        forge.agents["intel-lab-1"] = agent("lab-1", keys=(key,))
        return forge.bundle()

    return bend


variants(
    Kind.KEY_EXPIRED,
    ("expired key", dated(dt.date(2026, 1, 1), dt.date(2026, 11, 19))),
    ("key of tomorrow", dated(dt.date(2026, 11, 21), None)),
)


# --- whose job --------------------------------------------------------------------------------


def claiming(**fields: object) -> Payload:
    """A genuine signature under a claim that is not true."""

    def bend(forge: Forge) -> bytes:
        forge.manifest.update(fields)
        return forge.bundle()

    return bend


variants(
    Kind.OTHER_AGENT,
    ("in another agent's name", claiming(agent="intel-lab-2")),
    ("in nobody's name", claiming(agent="")),
)
variants(Kind.OTHER_POOL, ("another pool", claiming(pool="nvidia-gpu")))
variants(
    Kind.UNKNOWN_JOB,
    ("unknown job", claiming(nonce="f" * 32)),
    ("nonce that is a path", claiming(nonce="../../escaped")),
)
variants(
    Kind.OTHER_JOB,
    ("another job", claiming(job="run.jax.intel-cpu")),
    ("another digest", claiming(digest="e" * 64)),
)
variants(
    Kind.SCHEMA,
    ("manifest of version 2", claiming(schema=2)),
    ("manifest with one key too many", claiming(admin=True)),
    ("manifest whose files are an object", claiming(files={})),
)


@payload(Kind.OTHER_AGENT)
def answer_to_another_agents_job(forge: Forge) -> bytes:
    forge.signers = (forge.other_key,)
    forge.manifest["agent"] = "intel-lab-2"
    return forge.bundle()


@payload(Kind.QUARANTINED)
def quarantined_agent(forge: Forge) -> bytes:
    forge.quarantined = ("intel-lab-1",)
    return forge.bundle()


@payload(Kind.REPLAY)
def replayed_bundle(forge: Forge) -> bytes:
    assert isinstance(forge.send(), Taken)
    return forge.bundle()


@payload(Kind.REPLAY)
def second_answer_with_other_results(forge: Forge) -> bytes:
    assert isinstance(forge.send(), Taken)
    forge.files[RESULT] = document(MLP, status="fail", phase="compare", message="wrong")
    return forge.bundle()
