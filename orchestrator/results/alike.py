"""Messages that say the same: what differs from one failure to the next is left out."""

from __future__ import annotations

import hashlib
import re

_PATH = re.compile(r"(?:/[A-Za-z0-9_.@+-]+){2,}/?")
_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b")
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_MOST = 400


def likeness(message: str) -> str:
    """16 hexadecimal digits, equal for messages that are alike."""
    return hashlib.sha256(normalised(message).encode("utf-8", "replace")).hexdigest()[:16]


def normalised(message: str) -> str:
    """One line in which paths, addresses, digests and numbers are `#`.

    Two failures of a cell whose messages are equal in this form are the same failure: what
    differs is where a file was copied to, at which address a tool crashed, by how much a number
    was off.
    """
    text = _PATH.sub("#", message[: 4 * _MOST])
    text = _NUMBER.sub("#", _HEX.sub("#", text))
    return _SPACE.sub(" ", text).strip()[:_MOST]
