"""Where payloads are collected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orchestrator.fleet.refusal import Kind
from tests.fleet.forge import MLP, Forge

RESULT = f"results/{MLP}.1.json"
ARTIFACT = f"artifacts/{MLP}/ir/01-ingress.mlir"

Payload = Callable[[Forge], bytes | Path]
"""Bends an honest bundle; gives what is sent."""
PAYLOADS: list[tuple[str, Kind, Payload]] = []


def payload(kind: Kind) -> Callable[[Payload], Payload]:
    """Adds a payload that is to be refused so."""

    def add(function: Payload) -> Payload:
        PAYLOADS.append((function.__name__, kind, function))
        return function

    return add


def variants(kind: Kind, *cases: tuple[str, Payload]) -> None:
    """Adds payloads that differ little."""
    PAYLOADS.extend((name, kind, function) for name, function in cases)


def named(name: str) -> Payload:
    """A file of that name, in archive and signed manifest alike."""

    def bend(forge: Forge) -> bytes:
        forge.files = {**forge.files, name: b"pwned"}
        return forge.bundle()

    return bend
