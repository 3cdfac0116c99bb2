"""What a job sends may leave no folder and fill no disk."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.artifacts import ArtifactError, Budget, check_name, decode, encode


@pytest.mark.parametrize("name", ["ir/02-bufferize.mlir", "inputs.npz", "a+b_c-1/x..y"])
def test_plain_relative_names_are_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../result.json",
        "ir/../../x",
        "ir//x",
        "ir/",
        "./x",
        ".hidden",
        "ir/.x",
        "a\\b",
        "a b",
        "a\nb",
        "x\0",
        "~root",
        "C:x",
        "é",
        "x\n",
        "a" * 201,
    ],
)
def test_every_other_name_is_refused(name: str) -> None:
    with pytest.raises(ArtifactError, match="refused"):
        check_name(name)


@given(st.binary(max_size=4096))
def test_bytes_travel_unharmed(raw: bytes) -> None:
    assert decode(encode(raw), len(raw)) == raw


def test_a_bomb_is_refused_without_being_inflated() -> None:
    bomb = encode(bytes(50 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(ArtifactError, match="more than 1,024 bytes"):
        decode(bomb, 1024)


@pytest.mark.parametrize(
    "data",
    [
        "no base64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"cut short" * 50)[:-6]).decode(),
    ],
)
def test_what_cannot_be_decoded_is_refused(data: str) -> None:
    with pytest.raises(ArtifactError, match="refused"):
        decode(data, 1 << 20)


def test_a_budget_is_charged_for_bytes() -> None:
    budget = Budget(limit=10)
    assert budget.take("a", encode(b"123456")) == b"123456"
    with pytest.raises(ArtifactError, match="more than 4 bytes are left"):
        budget.take("b", encode(b"12345"))
    assert budget.take("b", encode(b"1234")) == b"1234"


def test_a_budget_is_charged_for_files() -> None:
    budget = Budget(files=1)
    budget.take("a", encode(b""))
    with pytest.raises(ArtifactError, match="too many files"):
        budget.take("b", encode(b""))
