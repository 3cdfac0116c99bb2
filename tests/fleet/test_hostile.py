"""Bundles that should not be taken: each is refused for what it is, and nothing is written."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from orchestrator.fleet import public
from orchestrator.fleet.refusal import Kind, Refusal
from tests.fleet.forge import (
    END,
    NOW,
    Forge,
    everything,
)
from tests.fleet.hostile import containers, documents, files, signatures
from tests.fleet.hostile.registry import PAYLOADS, Payload
from tests.fleet.hostile.signatures import revoked_key

MODULES = (files, containers, signatures, documents)
"""Importing them collects their payloads."""


@pytest.mark.parametrize(
    ("kind", "bend"), [pytest.param(kind, bend, id=name) for name, kind, bend in PAYLOADS]
)
def test_refused_and_nothing_written(forge: Forge, kind: Kind, bend: Payload) -> None:
    bent = bend(forge)
    path = forge.root / "sent.results.tar.gz"
    if isinstance(bent, bytes):
        path.write_bytes(bent)
    before = everything(forge.root)
    outcome = forge.send(path if isinstance(bent, bytes) else bent)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.kind == kind, str(outcome)
    assert everything(forge.root) == before
    assert str(outcome).isprintable()
    assert len(outcome.why) <= 300
    assert outcome.agent in ("", "intel-lab-1", "intel-lab-2")
    assert outcome.job in ("", forge.warrant.job)


def test_the_suite_is_large_and_its_names_are_unique() -> None:
    names = [name for name, _, _ in PAYLOADS]
    assert len(set(names)) == len(names) > 100


INTAKE_KINDS = set(Kind) - {Kind.EXPIRED, Kind.REPOSITORY, Kind.CHANGED}
"""The others are an agent's, of jobs."""


def test_every_kind_of_refusal_is_met() -> None:
    assert {kind for _, kind, _ in PAYLOADS} == INTAKE_KINDS


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_line_of_advice(kind: Kind) -> None:
    assert kind.advice.isprintable()
    assert kind.advice.endswith(".")
    assert 20 < len(kind.advice) < 100


def test_who_and_which_job_is_told_once_it_is_known(forge: Forge) -> None:
    forge.files["log.txt"] = b"\x1b"
    refusal = forge.send()
    assert str(refusal) == (
        "refused (text) run.pytorch.intel-cpu of intel-lab-1: log.txt: has the character U+001B. "
        "The text acts on terminals. lh-ci cleans what it packs: use it."
    )


def test_nobody_is_named_for_what_others_claim(forge: Forge) -> None:
    """Whoever writes another's name into a bundle must not get that agent into trouble."""
    forge.signers = (forge.other_key,)
    refusal = forge.send()
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.agent, refusal.job) == (Kind.OTHER_AGENT, "intel-lab-2", "")


def test_a_revoked_key_names_its_agent(forge: Forge) -> None:
    refusal = forge.send(revoked_key(forge))
    assert isinstance(refusal, Refusal)
    assert refusal.agent == "intel-lab-1"


def test_fingerprints_are_of_registered_keys(forge: Forge) -> None:
    assert public.fingerprint(forge.agents["intel-lab-1"].keys[0].key) == forge.key.fingerprint


def test_bits_that_flip_anywhere_are_refused(forge: Forge) -> None:
    """Some hundred bytes of the archive, in headers, envelope, files and padding alike."""
    whole = b"".join([*forge.members(), END])
    before: dict[str, Any] | None = None
    for position in range(0, len(whole), 29):
        bent = bytearray(whole)
        bent[position] ^= 0x10
        path = forge.root / "sent.results.tar.gz"
        path.write_bytes(gzip.compress(bytes(bent), 1))
        outcome = forge.send(path, NOW)
        assert isinstance(outcome, Refusal), position
        path.unlink()
        after = everything(forge.root)
        assert before in (None, after), position
        before = after
