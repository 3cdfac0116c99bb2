"""Public keys as text, in the files that people review: `ed25519:` and 32 bytes in base64."""

from __future__ import annotations

import base64
import binascii
import hashlib

_PREFIX = "ed25519:"
_KEY_BYTES = 32
_FINGERPRINT_DIGITS = 32


def to_text(raw: bytes) -> str:
    """The text of a raw public key (RFC 8032, 32 bytes)."""
    return _PREFIX + base64.b64encode(raw).decode("ascii")


def to_bytes(text: str) -> bytes:
    """The raw public key of its text.

    Raises:
        ValueError: it is no public key, or not in the one form that it has.
    """
    encoded = text.removeprefix(_PREFIX)
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # base64 has several texts for the same bytes: a key has one
    if len(raw) != _KEY_BYTES or to_text(raw) != text:
        raise ValueError("expected a public key as `lh-ci keys show` prints it, `ed25519:…`")
    return raw


def fingerprint(text: str) -> str:
    """32 hexadecimal digits of the key's SHA-256: short enough to be read aloud.

    Raises:
        ValueError: it is no public key.
    """
    return hashlib.sha256(to_bytes(text)).hexdigest()[:_FINGERPRINT_DIGITS]
