"""What an unquoted scalar of YAML means here.

YAML 1.1 and 1.2 disagree on `on`, `010` or `1:30`: these are refused with what to write instead,
so that no tool reads a file otherwise than we do.
"""

from __future__ import annotations

import datetime as dt
import math
import re

from yaml.nodes import ScalarNode
from yaml.resolver import BaseResolver

Scalar = bool | int | float | str | dt.date | None

TAG = "tag:yaml.org,2002:"
_AMBIGUOUS = "ambiguous"
_SPECIAL = "special"


class Resolver(BaseResolver):
    """YAML 1.2's core schema, with dates, and with what 1.1 reads otherwise set apart."""


def _resolve(tag: str, pattern: str) -> None:
    Resolver.add_implicit_resolver(tag, re.compile(f"(?:{pattern})$"), None)


_resolve(TAG + "merge", r"<<")
_resolve(TAG + "null", r"~|null|Null|NULL|")
_resolve(TAG + "bool", r"true|True|TRUE|false|False|FALSE")
_resolve(
    _AMBIGUOUS,
    r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
    r"|[-+]?0[0-9_]+|[-+]?[0-9]+_[0-9_]*|[-+]?[0-9]+_[0-9_]*\.[0-9_]*|[-+]?0b[01_]+|0o[0-7]+"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9].*",
)
_resolve(TAG + "int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_resolve(
    TAG + "float",
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
)
_resolve(_SPECIAL, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_resolve(TAG + "timestamp", r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class ScalarError(Exception):
    """Carries what to tell about a scalar."""


def scalar(node: ScalarNode) -> Scalar:
    """The value of a scalar that was composed with `Resolver`.

    Raises:
        ScalarError: YAML versions disagree on it, or there is no such value.
    """
    text: str = node.value
    kind: str = node.tag.removeprefix(TAG)
    if kind in ("merge", "value"):
        kind = "str"
    try:
        value = _typed(kind, text)
    except (ValueError, OverflowError) as e:
        what = "there is no such date" if kind == "timestamp" else "the number is too long"
        raise ScalarError(f"{what}: {text:.40}") from e
    if isinstance(value, float) and not math.isfinite(value):
        raise ScalarError(f"`{text:.40}` is not a finite number")
    return value


def _typed(kind: str, text: str) -> Scalar:
    match kind:
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0)
        case "float":
            return float(text)
        case "timestamp":
            return dt.date.fromisoformat(text)
        case "special":
            raise ScalarError(f"`{text}` is not a finite number")
        case "ambiguous":
            raise ScalarError(_ambiguous(text))
    raise ScalarError(f"the tag `{kind}` is not used here: leave it out")


def _ambiguous(text: str) -> str:
    quoted = f'"{text}"'
    if text.lower() in ("yes", "on"):
        return f"write `true`, or {quoted} if text is meant: YAML versions disagree on `{text}`"
    if text.lower() in ("no", "off"):
        return f"write `false`, or {quoted} if text is meant: YAML versions disagree on `{text}`"
    return f"write {quoted} if text is meant: YAML versions disagree on `{text}`"
