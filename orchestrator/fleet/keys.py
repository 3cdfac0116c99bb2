"""Ed25519 keys of this machine (RFC 8032): made here, used here, never sent anywhere.

They are PKCS#8 files that only their owner may read, `<state>/keys/<owner>/<fingerprint>.key`. Who
signs does so with every key that it has: while a key is rotated, the old signature counts until
the new key is registered, and nobody has to be on time.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet import public
from orchestrator.results.files import unwritable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER = "keys"
MAX_KEYS = 4
"""Of one owner on one machine: the one in use, one to come, and some slack."""
_SUFFIX = ".key"
_INSTALL = (
    "signing needs the package `cryptography`. Install it: pip install 'lighthouse-ci[fleet]'"
)


@dataclass(frozen=True)
class OwnKey:
    """A private key of this machine."""

    public: str
    """Its public half, as text."""
    path: Path
    _private: Ed25519PrivateKey

    @property
    def fingerprint(self) -> str:
        """Of the public half."""
        return public.fingerprint(self.public)

    def sign(self, data: bytes) -> bytes:
        """64 bytes over `data`."""
        return self._private.sign(data)


def make(state: Path, owner: str) -> OwnKey:
    """One more key for an owner: an agent's id, or `orchestrator`.

    Raises:
        UsageError: there are `MAX_KEYS` already, or the package `cryptography` is missing.
        InfrastructureError: it cannot be written.
    """
    with _library():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    folder = _folder(state, owner)
    if len(_files(folder)) >= MAX_KEYS:
        raise UsageError(
            f"{owner} has {MAX_KEYS} keys here. Retire one first: lh-ci keys retire {owner} KEY"
        )
    private = ed25519.Ed25519PrivateKey.generate()
    text = public.to_text(private.public_key().public_bytes_raw())
    path = folder / f"{public.fingerprint(text)}{_SUFFIX}"
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write_secret(path, pem)
    return OwnKey(text, path, private)


def own(state: Path, owner: str) -> tuple[OwnKey, ...]:
    """The keys that an owner has on this machine, by fingerprint; none: there are none.

    Raises:
        UsageError: others can read one, or the package `cryptography` is missing.
        InfrastructureError: one is damaged.
    """
    return tuple(_read(path) for path in _files(_folder(state, owner)))


def from_text(text: str) -> OwnKey:
    """A private key that is in no file: the base64 of its PKCS#8, as in the middle of a key's file.

    Raises:
        UsageError: it is none, or the package `cryptography` is missing. Says nothing of the text.
    """
    with _library():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    try:
        private = serialization.load_der_private_key(base64.b64decode(text, validate=True), None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise UsageError(
            "LH_ORCHESTRATOR_KEY is no Ed25519 key: give the one line between the first and the "
            "last of its file"
        )
    return OwnKey(public.to_text(private.public_key().public_bytes_raw()), Path(), private)


def fingerprints(state: Path, owner: str) -> tuple[str, ...]:
    """Of the keys that an owner has on this machine, which are not read."""
    return tuple(path.name.removesuffix(_SUFFIX) for path in _files(_folder(state, owner)))


def owners(state: Path) -> tuple[str, ...]:
    """Who has keys on this machine."""
    folder = state / FOLDER
    if not folder.is_dir():
        return ()
    return tuple(sorted(each.name for each in folder.iterdir() if _files(each)))


def retire(state: Path, owner: str, fingerprint: str) -> None:
    """Removes a private key; what it signed stays signed.

    Raises:
        UsageError: there is no such key.
        InfrastructureError: it cannot be removed.
    """
    folder = _folder(state, owner)
    path = folder / f"{fingerprint}{_SUFFIX}"
    if path not in _files(folder):
        raise UsageError(f"{owner} has no key `{fingerprint}` here. Look: lh-ci keys show {owner}")
    try:
        path.unlink()
        if not _files(folder):
            folder.rmdir()
    except OSError as error:
        raise unwritable(path, error) from error


def verify(key: str, data: bytes, signature: bytes) -> bool:
    """Whether the private half of a public key, given as text, signed these bytes.

    Raises:
        UsageError: the package `cryptography` is missing.
    """
    with _library():
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public.to_bytes(key)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- how --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _library() -> Iterator[None]:
    """Around imports of what only the extra brings."""
    try:
        yield
    except ImportError as error:
        raise UsageError(_INSTALL) from error


def _folder(state: Path, owner: str) -> Path:
    return state / FOLDER / owner


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []


def _write_secret(path: Path, data: bytes) -> None:
    """A file that was never readable by anybody else, whole or not there."""
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise unwritable(path, error) from error


def _read(path: Path) -> OwnKey:
    with _library():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    try:
        about = path.lstat()
        _check_secret(path, about)
        private = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise InfrastructureError(f"{path} is damaged, or cannot be read: {error}") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InfrastructureError(f"{path} is no Ed25519 key")
    text = public.to_text(private.public_key().public_bytes_raw())
    if path.name != f"{public.fingerprint(text)}{_SUFFIX}":
        raise InfrastructureError(f"{path} is not named after the key in it: was it copied?")
    return OwnKey(text, path, private)


def _check_secret(path: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"{path} is no plain file")
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise UsageError(
            f"{path} can be read by others, so it may be known to them. Rotate it: "
            f"lh-ci keys rotate {path.parent.name}; or, when you are sure: chmod 600 {path}"
        )
    if about.st_uid != os.geteuid():
        raise UsageError(f"{path} belongs to another user: run as that user")
