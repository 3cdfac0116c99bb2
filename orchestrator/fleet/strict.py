"""JSON from people whom nobody knows: bounded as text before anything is made of it.

A document is scanned once, token by token, with a regular expression that never backtracks:
size, encoding, nesting, number of values and length of numbers are known before the parser sees
it. What is parsed is then strings, numbers and lists within bounds, each text harmless.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from orchestrator import records
from orchestrator.fleet.refusal import Kind, Refused
from orchestrator.text import is_plain

T = TypeVar("T")

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[\[\]{}]|[^\s\[\]{}",:]+', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_JSON = frozenset({"NaN", "Infinity", "-Infinity"})
_LONGEST_NUMBER = 32
"""Characters; a double needs 24 at most."""
_LARGEST_INT = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a document may be."""

    bytes: int = 4 << 20
    depth: int = 16
    values: int = 200_000
    """Strings, keys, numbers, lists and objects."""
    text: int = 256 << 10
    """Characters of one string."""
    key: int = 200
    """Characters of one key."""


BOUNDS = Bounds()


def read(kind: type[T], data: bytes, where: str, bounds: Bounds = BOUNDS) -> T:
    """A record of a document.

    Raises:
        Refused: it breaks a bound, or is no such record.
    """
    try:
        return records.decode(kind, parse(data, where, bounds), where)
    except records.RecordError as error:
        raise Refused(Kind.SCHEMA, str(error)) from error


def parse(data: bytes, where: str, bounds: Bounds = BOUNDS) -> records.JsonValue:
    """The value of a document.

    Raises:
        Refused: it breaks a bound; `where` begins the reason.
    """
    text = decoded(data, where, bounds.bytes)
    _scan(text, where, bounds)
    try:
        value: records.JsonValue = json.loads(text, object_pairs_hook=_object)
    except Refused as error:
        raise Refused(error.kind, f"{where}: {error.why}") from None
    except ValueError as error:
        raise Refused(Kind.SYNTAX, f"{where}: {error}") from error
    _check_texts(value, where, bounds)
    return value


def decoded(data: bytes, where: str, limit: int) -> str:
    """UTF-8 text of at most `limit` bytes, without a byte order mark.

    Raises:
        Refused: it is anything else.
    """
    if len(data) > limit:
        raise Refused(Kind.TOO_LARGE, f"{where}: {len(data):,} bytes, and {limit:,} are the limit")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(Kind.ENCODING, f"{where}: not UTF-8 at byte {error.start:,}") from error
    if text.startswith("\ufeff"):
        raise Refused(Kind.ENCODING, f"{where}: begins with a byte order mark")
    return text


def check_text(text: str, where: str) -> None:
    """Raises Refused for text that a terminal acts on, or that has no UTF-8 form."""
    if not is_plain(text):
        found = next(c for c in text if not is_plain(c))
        raise Refused(Kind.TEXT, f"{where}: has the character U+{ord(found):04X}")


def _scan(text: str, where: str, bounds: Bounds) -> None:
    depth = values = 0
    for match in _TOKEN.finditer(text):
        word = match[0]
        if word in "[{":
            depth += 1
            if depth > bounds.depth:
                raise Refused(Kind.DEPTH, f"{where}: nested deeper than {bounds.depth}")
        elif word in "]}":
            depth -= 1
            continue
        elif word[0] != '"':
            _check_word(word, where)
        elif word == '"':
            raise Refused(Kind.SYNTAX, f"{where}: a text that does not end")
        values += 1
        if values > bounds.values:
            raise Refused(Kind.LENGTH, f"{where}: more than {bounds.values:,} values")


def _check_word(word: str, where: str) -> None:
    """A number, `true`, `false` or `null`."""
    if word in ("true", "false", "null"):
        return
    if word in _NOT_JSON:
        raise Refused(Kind.NUMBER, f"{where}: {word} is no number in JSON")
    if len(word) > _LONGEST_NUMBER and word.lstrip("-")[:1].isdigit():
        raise Refused(Kind.NUMBER, f"{where}: a number of {len(word):,} characters")
    match = _NUMBER.fullmatch(word)
    if match is None:
        raise Refused(Kind.SYNTAX, f"{where}: `{word:.40}` is no value of JSON")
    whole = match[1] is None and match[2] is None
    if abs(int(word)) > _LARGEST_INT if whole else not math.isfinite(float(word)):
        raise Refused(Kind.NUMBER, f"{where}: {word} is too large a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refused(Kind.DUPLICATE_KEY, f"the key `{twice:.80}` is there twice")
    return found


def _check_texts(value: records.JsonValue, where: str, bounds: Bounds) -> None:
    """Every string and key; nesting is bounded already."""
    if isinstance(value, str):
        if len(value) > bounds.text:
            raise Refused(Kind.LENGTH, f"{where}: a text of {len(value):,} characters")
        check_text(value, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            if len(key) > bounds.key:
                raise Refused(Kind.LENGTH, f"{where}: a key of {len(key):,} characters")
            check_text(key, f"{where}: a key")
            _check_texts(item, f"{where}.{key:.40}", bounds)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item, where, bounds)
