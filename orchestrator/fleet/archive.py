"""The container of a bundle: a gzip member around a plain ustar archive, read strictly.

Everybody can open it (`tar tzf`), and it is read front to back, once, in one way: there is no
second directory that could disagree with the first, as in zip, nothing to seek to, and what has to
be known before the next byte is touched stands before it. Of tar this takes the least: POSIX ustar
headers of regular files (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html), no
extensions, no links, no folders. Owners, modes and times are never looked at.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import BinaryIO

from orchestrator.fleet.refusal import Kind, Refused

_BLOCK = 512
_RECORD = 10_240
"""What tar programs round an archive's size up to."""
_CHUNK = 64 << 10
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a bundle may be; an honest agent stays far below."""

    packed: int = 576 << 20
    """Bytes of the bundle itself: room for all files as they are, headers and manifest."""
    unpacked: int = 512 << 20
    """Bytes of all its files."""
    file: int = 256 << 20
    """Bytes of one file."""
    files: int = 10_000
    document: int = 4 << 20
    """Bytes of a result, or of `exec.json`."""
    log: int = 16 << 20
    """Bytes of `log.txt`."""
    ratio: int = 200
    """How many bytes may come of one; deflate can do 1,032
    (https://zlib.net/zlib_tech.html)."""
    free: int = 16 << 20
    """Bytes that may come whatever the ratio: a little of anything compresses well."""


class Inflater:
    """The unpacked bytes of a gzip member, never more than asked for."""

    def __init__(self, packed: BinaryIO, limits: Limits) -> None:
        """Takes an open file at its beginning."""
        self._packed = packed
        self._limits = limits
        self._inflate = zlib.decompressobj(_GZIP)
        self._in = self._out = 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes.

        Raises:
            Refused: there are fewer, they are no gzip, or the ratio is an archive bomb's.
        """
        parts = []
        while size > 0:
            part = self.some(size)
            if not part:
                raise Refused(Kind.TRUNCATED, "the archive ends in the middle")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def finish(self) -> None:
        """Nothing but the padding of a tar program may follow, and the member's checksum holds.

        Raises:
            Refused: something does, or it does not.
        """
        left = _RECORD
        while part := self.some(_CHUNK):
            left -= len(part)
            if left < 0 or part.strip(b"\0"):
                raise Refused(Kind.CONTAINER, "something follows the archive's end")
        if not self._inflate.eof:
            raise Refused(Kind.TRUNCATED, "the archive has no end")
        if self._inflate.unused_data or self._packed.read(1):
            raise Refused(Kind.CONTAINER, "something follows the gzip member")

    def some(self, size: int) -> bytes:
        """Between 1 and `size` bytes; none at the end, of the member or of the file.

        Raises:
            Refused: as `read` does.
        """
        while not self._inflate.eof:
            data = self._inflate.unconsumed_tail or self._packed.read(_CHUNK)
            fresh = len(data) - len(self._inflate.unconsumed_tail)
            self._in += fresh
            if self._in > self._limits.packed:
                raise Refused(Kind.TOO_LARGE, f"packed, more than {self._limits.packed:,} bytes")
            try:
                part = self._inflate.decompress(data, size)
            except zlib.error as error:
                raise Refused(Kind.CONTAINER, f"no gzip: {error}") from error
            self._out += len(part)
            if self._out > max(self._limits.free, self._limits.ratio * self._in):
                text = f"{self._in:,} bytes unfold to {self._out:,} and more"
                raise Refused(Kind.RATIO, text)
            if part or not data:
                return part
        return b""


@dataclass(frozen=True)
class Member:
    """A file of the archive; its bytes follow."""

    name: str
    size: int


def next_member(inflater: Inflater) -> Member | None:
    """The next file's header; None at the archive's end.

    Raises:
        Refused: it is no header of a regular file, or ends in the middle.
    """
    block = inflater.read(_BLOCK)
    if not block.strip(b"\0"):
        if inflater.read(_BLOCK).strip(b"\0"):
            raise Refused(Kind.CONTAINER, "an archive ends with two empty blocks, and this has one")
        return None
    if block[257:265] != b"ustar\x0000":
        raise Refused(Kind.CONTAINER, "a header that is not ustar's")
    if _octal(block[148:156].rstrip(b" ")) != sum(block[:148]) + sum(block[156:]) + 8 * ord(" "):
        raise Refused(Kind.CONTAINER, "a header whose checksum is wrong")
    prefix, name = _text(block[345:500]), _text(block[:100])
    full = f"{prefix}/{name}" if prefix else name
    _check_kind(block[156:157], full)
    if block[157:257].strip(b"\0"):
        raise Refused(Kind.LINK, f"{full!r:.120} names another file")
    return Member(full, _octal(block[124:136]))


def skip_padding(inflater: Inflater, size: int) -> None:
    """What fills the last block of a file of `size` bytes.

    Raises:
        Refused: something hides in it.
    """
    if inflater.read(-size % _BLOCK).strip(b"\0"):
        raise Refused(Kind.CONTAINER, "something hides behind a file's end")


def _check_kind(kind: bytes, name: str) -> None:
    match kind:
        case b"0":
            return
        case b"1" | b"2":
            what = "a hard link" if kind == b"1" else "a symbolic link"
            raise Refused(Kind.LINK, f"{name!r:.120} is {what}")
    kinds = {b"3": "a device", b"4": "a device", b"5": "a folder", b"6": "a pipe"}
    what = kinds.get(kind, f"of the type {kind!r}")
    raise Refused(Kind.SPECIAL, f"{name!r:.120} is {what}")


def _text(field: bytes) -> str:
    """A name: up to the first NUL, behind which nothing may hide."""
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        raise Refused(Kind.PATH, f"the name {text[:120]!r} goes on behind its end")
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as error:
        raise Refused(Kind.PATH, f"the name {text[:120]!r} is not ASCII") from error


def _octal(field: bytes) -> int:
    """A number of octal digits, closed by NUL; the binary form of GNU tar is refused."""
    digits = field.rstrip(b"\0")
    if not digits or digits.strip(b"01234567"):
        raise Refused(Kind.CONTAINER, f"a header with the number {field!r}")
    return int(digits, 8)
