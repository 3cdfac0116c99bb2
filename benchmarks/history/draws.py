"""Random numbers that depend on what they are for, and on nothing drawn before them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype="S2")


def rng(*key: int | str) -> np.random.Generator:
    """A generator for a purpose."""
    return np.random.default_rng(list(hashlib.sha256(repr(key).encode()).digest()))


def unit(*key: int | str) -> float:
    """A number in [0, 1)."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:7], "big") / float(1 << 56)


def pick(options: Sequence[str], *key: int | str) -> str:
    """One of some texts."""
    return options[int(unit(*key) * len(options))]


def sha(*key: int | str) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


def words(texts: Iterable[str]) -> Words:
    """Two 64-bit words for each text, of its SHA-256: shape (n, 2)."""
    data = b"".join(hashlib.sha256(text.encode()).digest()[:16] for text in texts)
    return np.frombuffer(data, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def combine(*parts: Words) -> Words:
    """Words that are equal where those of all parts are; each of shape (n, 2) or (2,)."""
    state = np.zeros((1, 2), dtype=np.uint64)
    for part in parts:
        state = _mix(state ^ part)
    return state


def _mix(x: Words) -> Words:
    """The finaliser of SplitMix64 (https://prng.di.unimi.it/splitmix64.c), a bijection."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Words = x ^ (x >> np.uint64(31))
    return mixed


def hexadecimal(pairs: Words) -> list[str]:
    """32 digits for each pair."""
    digits = _HEX[pairs.astype(">u8").view(np.uint8)]
    text: str = digits.tobytes().decode()
    return [text[i : i + 32] for i in range(0, len(text), 32)]
