"""Signed documents: the envelope of DSSE, so that what is signed are the bytes that travel.

An envelope is JSON, `{"payloadType", "payload", "signatures": [{"keyid", "sig"}, …]}`, payload and
signatures in base64. A signature is over

    DSSEv1 <length of type> <type> <length of payload> <payload>

with lengths in decimal ASCII and single spaces between the parts
(https://github.com/secure-systems-lab/dsse/blob/master/protocol.md). So no two readers can disagree
on what was signed, a signature of one kind of document is none of another, and nothing of the
payload is looked at before a signature of it is known to be good.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.fleet import keys, public, strict
from orchestrator.fleet.agents import key_state, public_key
from orchestrator.fleet.models import Keys
from orchestrator.fleet.refusal import Kind, Refused

_MAX_SIGNATURES = 2 * keys.MAX_KEYS
_BOUNDS = strict.Bounds(bytes=8 << 20, depth=4, values=100, text=8 << 20)


class Signer(Protocol):
    """Has a key."""

    @property
    def fingerprint(self) -> str:
        """Of its public half."""

    def sign(self, data: bytes) -> bytes:
        """64 bytes over `data`."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One signature of an envelope."""

    keyid: str
    """Fingerprint of the key; a hint, nothing is believed because of it."""
    sig: str
    """base64."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """An envelope; its fields have the names that DSSE gives them."""

    payloadType: str  # noqa: N815
    payload: str
    signatures: tuple[Signature, ...]


def seal(kind: str, payload: bytes, signers: Sequence[Signer]) -> bytes:
    """An envelope around `payload`, signed with every key."""
    data = _signed_bytes(kind, payload)
    envelope = {
        "payloadType": kind,
        "payload": base64.b64encode(payload).decode("ascii"),
        "signatures": [
            {"keyid": each.fingerprint, "sig": base64.b64encode(each.sign(data)).decode("ascii")}
            for each in signers
        ],
    }
    return json.dumps(envelope, indent=1).encode() + b"\n"


def opened(
    kind: str,
    data: bytes,
    owners: Mapping[str, Keys],
    day: dt.date,
) -> tuple[str, bytes]:
    """Who signed an envelope, and the payload, not yet looked at.

    Args:
        kind: the payload's type that is expected.
        data: the envelope.
        owners: whose signatures count, by name.
        day: the date in UTC that keys have to count on.

    Raises:
        Refused: it is no such envelope, or no signature of it counts.
    """
    envelope = strict.read(Envelope, data, "envelope", _BOUNDS)
    if envelope.payloadType != kind:
        raise Refused(Kind.SCHEMA, f"this is `{envelope.payloadType:.80}`, and not `{kind}`")
    if not envelope.signatures:
        raise Refused(Kind.UNSIGNED, "it has no signature")
    if len(envelope.signatures) > _MAX_SIGNATURES:
        raise Refused(Kind.LENGTH, f"{len(envelope.signatures):,} signatures")
    payload = _unbase64(envelope.payload, "payload")
    # of several signatures, the first that counts; of none, what is wrong with the first
    reasons = []
    for signature in envelope.signatures:
        try:
            return _signer(signature, _signed_bytes(kind, payload), owners, day), payload
        except Refused as error:
            reasons.append(error)
    raise min(reasons, key=lambda error: error.kind == Kind.UNREGISTERED)


class RefusedSigner(Refused):
    """Refused, and it is known whose key it was."""

    def __init__(self, kind: Kind, why: str, owner: str) -> None:
        """`owner` has the key, and signed with it."""
        super().__init__(kind, why)
        self.owner = owner


def _signer(signature: Signature, data: bytes, owners: Mapping[str, Keys], day: dt.date) -> str:
    """Whose signature it is; nothing about its owner is believed before it is verified."""
    for owner, registered in owners.items():
        key = public_key(registered, signature.keyid)
        if not key:
            continue
        if not keys.verify(key, data, _unbase64(signature.sig, "signature")):
            raise Refused(Kind.SIGNATURE, f"this is no signature of {owner}'s key")
        state = key_state(registered, public.fingerprint(key), day)
        if state == "revoked":
            raise RefusedSigner(Kind.KEY_REVOKED, f"{owner}'s key was revoked", owner)
        if state != "valid":
            text = f"{owner}'s key does not count on {day}"
            raise RefusedSigner(Kind.KEY_EXPIRED, text, owner)
        return owner
    raise Refused(Kind.UNREGISTERED, f"nobody registered has the key {signature.keyid:.64}")


def _signed_bytes(kind: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def _unbase64(text: str, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    # base64 has several texts for the same bytes: only the usual one is taken
    if base64.b64encode(data).decode("ascii") != text:
        raise Refused(Kind.SYNTAX, f"envelope: the {what} is no base64")
    return data
