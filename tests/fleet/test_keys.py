"""Keys of this machine."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet import keys, public


def test_a_key_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    made = keys.make(tmp_path, "intel-lab-1")
    assert made.path == tmp_path / "keys/intel-lab-1" / f"{made.fingerprint}.key"
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert list(made.path.parent.iterdir()) == [made.path]
    assert made.path.read_text().startswith("-----BEGIN PRIVATE KEY-----")


def test_it_signs_and_others_verify(tmp_path: Path) -> None:
    made, other = keys.make(tmp_path, "a"), keys.make(tmp_path, "b")
    (read,) = keys.own(tmp_path, "a")
    assert read.public == made.public
    signature = read.sign(b"data")
    assert keys.verify(made.public, b"data", signature)
    assert not keys.verify(made.public, b"Data", signature)
    assert not keys.verify(other.public, b"data", signature)
    assert not keys.verify(made.public, b"data", signature[:-1])
    assert not keys.verify(made.public, b"data", b"")
    assert not keys.verify("ed25519:nonsense", b"data", signature)


def test_the_test_vector_of_rfc_8032() -> None:
    """Section 7.1, test 2."""
    key = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    text = public.to_text(bytes.fromhex(key))
    assert keys.verify(text, b"\x72", bytes.fromhex(signature))
    # the same signature with S + L: RFC 8032 has exactly one per message
    order = 2**252 + 27742317777372353535851937790883648493
    raw = bytes.fromhex(signature)
    again = int.from_bytes(raw[32:], "little") + order
    assert not keys.verify(text, b"\x72", raw[:32] + again.to_bytes(32, "little"))


def test_rotation_keeps_the_old_key_until_it_is_retired(tmp_path: Path) -> None:
    old = keys.make(tmp_path, "a")
    new = keys.make(tmp_path, "a")
    assert {key.public for key in keys.own(tmp_path, "a")} == {old.public, new.public}
    keys.retire(tmp_path, "a", old.fingerprint)
    assert [key.public for key in keys.own(tmp_path, "a")] == [new.public]
    keys.retire(tmp_path, "a", new.fingerprint)
    assert keys.own(tmp_path, "a") == ()
    assert keys.owners(tmp_path) == ()


def test_owners_are_told(tmp_path: Path) -> None:
    assert keys.owners(tmp_path) == ()
    for owner in ("b", "a"):
        keys.make(tmp_path, owner)
    assert keys.owners(tmp_path) == ("a", "b")


def test_keys_do_not_pile_up(tmp_path: Path) -> None:
    for _ in range(keys.MAX_KEYS):
        keys.make(tmp_path, "a")
    with pytest.raises(UsageError, match="Retire one first"):
        keys.make(tmp_path, "a")


@pytest.mark.parametrize("fingerprint", ["0" * 32, "../b/x", ""])
def test_only_a_key_that_is_there_is_retired(tmp_path: Path, fingerprint: str) -> None:
    keys.make(tmp_path, "a")
    keys.make(tmp_path, "b").path.rename(tmp_path / "keys/b/x.key")
    with pytest.raises(UsageError, match="has no key"):
        keys.retire(tmp_path, "a", fingerprint)
    assert (tmp_path / "keys/b/x.key").exists()


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    made = keys.make(tmp_path, "a")
    made.path.chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others"):
        keys.own(tmp_path, "a")


def test_a_link_is_no_key(tmp_path: Path) -> None:
    made = keys.make(tmp_path, "a")
    elsewhere = tmp_path / "elsewhere"
    made.path.rename(elsewhere)
    made.path.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is no plain file"):
        keys.own(tmp_path, "a")


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_damaged_key_is_told(tmp_path: Path, content: bytes) -> None:
    made = keys.make(tmp_path, "a")
    made.path.write_bytes(content)
    with pytest.raises(InfrastructureError, match="is damaged"):
        keys.own(tmp_path, "a")


def test_a_key_in_another_keys_file_is_told(tmp_path: Path) -> None:
    made, other = keys.make(tmp_path, "a"), keys.make(tmp_path, "b")
    made.path.write_bytes(other.path.read_bytes())
    with pytest.raises(InfrastructureError, match="is not named after the key in it"):
        keys.own(tmp_path, "a")


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(UsageError, match=r"pip install 'lighthouse-ci\[fleet\]'"):
        keys.make(tmp_path, "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "ed25519:", "ssh-ed25519 AAAA", "ed25519:" + "A" * 42 + "B="])
def test_what_is_no_public_key(text: str) -> None:
    with pytest.raises(ValueError, match="expected a public key"):
        public.fingerprint(text)
