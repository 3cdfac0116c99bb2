"""Frozen dataclasses to JSON and back, strictly, with the standard library alone.

The harness reads jobs where nothing but NumPy and PyYAML is installed, and the orchestrator
reads what other machines send: a value of the wrong type is refused here, before it is used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

T = TypeVar("T")

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""JSON has no such numbers: they travel as these strings, so that every reader takes them."""


class RecordError(ValueError):
    """A document does not have the shape of the record it should be; says where."""


def encode(record: Any) -> JsonValue:
    """A JSON value of a frozen dataclass; tuples become lists.

    Numbers that are not finite become strings, lone surrogates (which have no UTF-8) become `?`.
    """
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: encode(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {_text(str(k)): encode(v) for k, v in record.items()}
    if isinstance(record, (list, tuple)):
        return [encode(v) for v in record]
    if isinstance(record, str):
        return _text(record)
    if isinstance(record, float) and not math.isfinite(record):
        return next(name for name, value in _NOT_FINITE.items() if str(value) == str(record))
    if record is None or isinstance(record, (bool, int, float)):
        return record
    raise RecordError(f"{type(record).__name__} has no JSON form")


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def dumps(record: Any, *, indent: int | None = None) -> str:
    """JSON text with sorted keys: the same record gives the same bytes."""
    value = encode(record)
    return json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)


def decode(cls: type[T], value: object, where: str = "") -> T:
    """A record of type `cls` from a JSON value.

    Raises:
        RecordError: an unknown or missing key, or a value of the wrong type; names the place.
    """
    return typing.cast(T, _decode(cls, value, where or cls.__name__))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, where)
    origin = get_origin(kind)
    if origin is Literal:
        return _expect(value in get_args(kind), value, where, f"one of {get_args(kind)}")
    if origin in (Union, types.UnionType):
        return _decode_union(kind, value, where)
    if origin is tuple:
        _expect(isinstance(value, list), value, where, "a list")
        (item, *_) = get_args(kind)
        return tuple(_decode(item, v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), value, where, "an object")
        (key, item) = get_args(kind)
        return {
            _decode(key, k, f"{where} key"): _decode(item, v, f"{where}.{k!s:.80}")
            for k, v in value.items()
        }
    return _decode_scalar(kind, value, where)


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float:
        return _decode_float(value, where)
    if kind is str and isinstance(value, str) and _text(value) != value:
        raise RecordError(f"{where}: text that has no UTF-8 form: {value!r:.80}")
    if kind is int and isinstance(value, bool):
        raise RecordError(f"{where}: expected int, got {value!r}")
    wanted = type(None) if kind is None else kind
    return _expect(
        isinstance(value, wanted), value, where, getattr(wanted, "__name__", str(wanted))
    )


def _decode_float(value: Any, where: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RecordError(f"{where}: expected float, got {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        raise RecordError(f"{where}: a number too large for a float") from None


def _decode_union(kind: Any, value: Any, where: str) -> Any:
    options = get_args(kind)
    for option in options:
        # bool before int, int before float: an exact type wins over a conversion
        if isinstance(option, type) and type(value) is option:
            return _decode(option, value, where)
    for option in options:
        try:
            return _decode(option, value, where)
        except RecordError:
            continue
    raise RecordError(f"{where}: {value!r:.80} fits none of {kind}")


def _decode_record(cls: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), value, where, "an object")
    hints = _hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}
    if unknown := sorted(set(value) - set(known)):
        raise RecordError(f"{where}: unknown key {unknown[0]!r:.80}")
    missing = [
        name
        for name, f in known.items()
        if name not in value
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise RecordError(f"{where}: missing key {missing[0]!r}")
    return cls(**{k: _decode(hints[k], v, f"{where}.{k}") for k, v in value.items()})


def _expect(good: bool, value: Any, where: str, wanted: str) -> Any:
    if not good:
        raise RecordError(f"{where}: expected {wanted}, got {value!r:.80}")
    return value
