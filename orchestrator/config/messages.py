"""What pydantic found, in the words of people who edit YAML."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.config.source import Plain
from orchestrator.config.suggest import nearest

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "`true` or `false`",
    "date_type": "a date such as 2026-11-20",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}

_PATTERNS = {
    r"^[a-z][a-z0-9_-]*$": "a name begins with a lower-case letter and goes on with lower-case "
    "letters, digits, `_` and `-`",
    r"^[a-z][a-z0-9_]*$": "a workload's name begins with a lower-case letter and goes on with "
    "lower-case letters, digits and `_`",
    r"^[a-z][a-z0-9]*$": "a vendor's name is lower-case letters and digits",
    r"^[a-z0-9][a-z0-9-]*$": "a machine's name is lower-case letters, digits and `-`",
    r"^\d+\.\d+\.\d+$": "expected a version such as 22.1.8",
    r"^3\.\d+$": "expected a Python version such as 3.11",
    r"^[A-Za-z0-9_./-]+\.mlir$": "expected the path of a `.mlir` file beside the recipe",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All errors at one place; several where a value may be of several types."""

    errors: Sequence[Mapping[str, Any]]
    value: Plain
    text: str
    """The value as written, when it is an unquoted scalar."""


def describe(finding: Finding) -> str:
    """One sentence or two; empty when the errors only follow from others."""
    kinds = [error["type"] for error in finding.errors]
    if all(kind in _EXPECTED for kind in kinds):
        return _wrong_type(finding, kinds)
    error = finding.errors[0]
    say = _SAY.get(error["type"])
    if say is not None:
        return say(finding, error.get("ctx", {}))
    message: str = error["msg"]
    return message[:1].lower() + message[1:]


def got(value: Plain, text: str = "") -> str:
    """A value in words: `the number 3.10`, `a list`, `nothing`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"`{str(value).lower()}`"
        case int() | float():
            return f"the number {text or repr(value):.40}"
        case str():
            return f"the text `{value:.60}`" if value else "an empty text"
        case dt.date():
            return f"the date {value}"
        case tuple() | list():
            return "a list"
    return "a mapping"


def _wrong_type(finding: Finding, kinds: Sequence[str]) -> str:
    names = list(dict.fromkeys(_EXPECTED[kind] for kind in kinds))
    if {"a number", "a whole number"} <= set(names):
        names.remove("a whole number")
    expected = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    message = f"expected {expected}, got {got(finding.value, finding.text)}"
    if "string_type" in kinds and isinstance(finding.value, (bool, int, float, dt.date)):
        message += f'. Put it in quotes: "{finding.text}"'
    if "tuple_type" in kinds and isinstance(finding.value, str):
        message += f". Write [{finding.value:.60}]"
    return message


def _literal(finding: Finding, ctx: Mapping[str, Any]) -> str:
    expected = str(ctx["expected"])
    options = re.findall(r"'([^']*)'", expected) or [expected]
    listed = ", ".join(f"`{option}`" for option in options)
    one_of = f"one of {listed}" if len(options) > 1 else listed
    if finding.errors[0]["loc"][-1:] == ("[key]",):
        return f"unknown key. Keys here: {', '.join(options)}"
    message = f"expected {one_of}, got {got(finding.value, finding.text)}"
    meant = nearest(finding.value, options) if isinstance(finding.value, str) else None
    return f"{message}. Did you mean `{meant}`?" if meant else message


def _too_few(finding: Finding, ctx: Mapping[str, Any]) -> str:
    # entries that are wrong themselves are not counted by pydantic
    size = len(finding.value) if isinstance(finding.value, (tuple, dict)) else 0
    return "" if size >= ctx["min_length"] else "at least one entry is needed"


def _too_short(finding: Finding, ctx: Mapping[str, Any]) -> str:
    least = ctx["min_length"]
    if least == 1:
        return "must not be empty"
    return f"too short: at least {least} characters, got {got(finding.value)}"


def _pattern(finding: Finding, ctx: Mapping[str, Any]) -> str:
    rule = _PATTERNS.get(ctx["pattern"], f"must match `{ctx['pattern']}`")
    # for a key, the path names it already
    is_key = finding.errors[0]["loc"][-1:] == ("[key]",)
    return rule if is_key else f"{rule}; got {got(finding.value)}"


def _value_error(finding: Finding, ctx: Mapping[str, Any]) -> str:
    return f"{ctx['error']}, got {got(finding.value, finding.text)}"


def _step(finding: Finding, _ctx: Mapping[str, Any]) -> str:
    kinds = ("pass", "schedule", "recipe")
    if not isinstance(finding.value, dict):
        return "expected a step such as `pass: canonicalize`, got " + got(finding.value)
    meant = next(filter(None, (nearest(key, kinds) for key in finding.value)), None)
    has = ", ".join(f"`{key}`" for key in finding.value) or "none"
    message = f"a step has one of the keys `pass`, `schedule`, `recipe`; this one has {has}"
    return f"{message}. Did you mean `{meant}`?" if meant else message


_SAY: Mapping[str, Callable[[Finding, Mapping[str, Any]], str]] = {
    "literal_error": _literal,
    "too_short": _too_few,
    "string_too_short": _too_short,
    "string_pattern_mismatch": _pattern,
    "value_error": _value_error,
    "step": _step,
    "greater_than": lambda f, ctx: f"must be more than {ctx['gt']:g}, got {got(f.value, f.text)}",
    "greater_than_equal": lambda f, ctx: (
        f"must be at least {ctx['ge']:g}, got {got(f.value, f.text)}"
    ),
}
