"""Plain data to models; every disagreement told in plain words, at its line and column."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from orchestrator.config.messages import Finding, describe
from orchestrator.config.models import Model
from orchestrator.config.source import Path, Plain, Source
from orchestrator.config.suggest import nearest
from orchestrator.errors import Problem

M = TypeVar("M", bound=Model)

Error = Mapping[str, Any]
"""One of pydantic's error records."""


@dataclass(frozen=True, kw_only=True)
class Checked(Generic[M]):
    """What could be made of a file."""

    value: M | None
    """With problems: what is left when the wrong parts are taken out, if that makes sense."""
    problems: tuple[Problem, ...]
    complete: bool
    """Nothing but unknown keys was taken out of `value`."""


def validate(model: type[M], source: Source) -> Checked[M]:
    """A model of a file, with all that is wrong with it.

    So that one slip in a file does not hide what is wrong elsewhere, the wrong parts are taken
    out and the rest is returned for further checks; a mistyped key counts as the likely one.
    """
    data = source.data
    problems: tuple[Problem, ...] = ()
    complete = True
    while True:
        try:
            value = model.model_validate(data)
        except ValidationError as e:
            errors = e.errors(include_url=False)
        else:
            return Checked(value=value, problems=problems, complete=complete)
        unknown = _unknown_keys(model, data, errors)
        problems = problems or _problems(source, data, errors, unknown)
        if unknown:
            data = _without_unknown(data, unknown)
        else:
            complete = False
            removable = {path for e in errors if (path := _removable(data, e))}
            if not removable:
                return Checked(value=None, problems=problems, complete=False)
            # deepest first: what stands above may then be right
            data = _edited(data, max(removable, key=len), lambda m, key: m.pop(key))


@dataclass(frozen=True)
class _Unknown:
    """A key that no model has, and the one that was likely meant."""

    path: Path
    keys: tuple[str, ...]
    """Those that the mapping may have."""
    meant: str | None
    """The nearest of those that are not there yet."""
    hint: str
    """What the model says about such a key."""


def _problems(
    source: Source, data: Plain, errors: Sequence[Error], unknown: Sequence[_Unknown]
) -> tuple[Problem, ...]:
    findings: dict[Path, list[Error]] = {}
    missing: dict[Path, list[str]] = {}
    misspelt = {(*u.path[:-1], u.meant) for u in unknown}
    mistaken = {u.path[:-1] for u in unknown if u.hint}
    for error in errors:
        path = _data_path(data, error["loc"])
        if error["type"] == "missing":
            key = str(error["loc"][-1])
            if (*path, key) not in misspelt and path not in mistaken:
                missing.setdefault(path, []).append(key)
        elif error["type"] != "extra_forbidden":
            findings.setdefault(path, []).append(error)
    problems = [source.problem(u.path, _say_unknown(u), key=True) for u in unknown]
    for path, keys in missing.items():
        names = ", ".join(f"`{key}`" for key in keys)
        problems.append(source.problem(path, f"missing key{'s'[: len(keys) > 1]} {names}"))
    for path, group in findings.items():
        finding = Finding(errors=group, value=_at(data, path), text=source.texts.get(path, ""))
        is_key = group[0]["loc"][-1:] == ("[key]",)
        if message := describe(finding):
            problems.append(source.problem(path, message, key=is_key))
    return tuple(problems)


def _say_unknown(unknown: _Unknown) -> str:
    if unknown.hint:
        return unknown.hint
    if unknown.meant:
        return f"unknown key. Did you mean `{unknown.meant}`?"
    return f"unknown key. Keys here: {', '.join(unknown.keys)}"


# --- where an error is ------------------------------------------------------------------------


def _data_path(data: Plain, loc: Sequence[str | int]) -> Path:
    """The part of an error's location that exists in the data: names of unions go."""
    path: Path = ()
    for part in loc:
        if (isinstance(data, dict) and part in data) or (
            isinstance(data, tuple) and isinstance(part, int) and part < len(data)
        ):
            data = data[part]  # type: ignore[index]
            path = (*path, part)
    return path


def _at(data: Plain, path: Path) -> Plain:
    for part in path:
        assert isinstance(data, (dict, tuple))
        data = data[part]  # type: ignore[index]
    return data


def _unknown_keys(model: type[Model], data: Plain, errors: Sequence[Error]) -> list[_Unknown]:
    found = []
    for error in errors:
        if error["type"] == "extra_forbidden":
            *above, key = error["loc"]
            kind = _model_at(model, above)
            keys = tuple(field.alias or name for name, field in kind.model_fields.items())
            hint = kind.wrong_keys.get(str(key), "")
            path = _data_path(data, error["loc"])
            there = _at(data, path[:-1])
            assert isinstance(there, dict)
            absent = [k for k in keys if k not in there]
            meant = None if hint else nearest(str(key), absent)
            found.append(_Unknown(path, keys, meant, hint))
    return found


def _model_at(model: type[Model], loc: Sequence[str | int]) -> type[Model]:
    """The model at an error's location."""
    kind: Any = model
    for part in loc:
        kind = _inner(kind, part)
    found: type[Model] = _bare(kind)
    return found


def _inner(kind: Any, part: str | int) -> Any:
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, Model):
        return next(
            f.annotation for name, f in kind.model_fields.items() if part in (f.alias, name)
        )
    if get_origin(kind) in (Union, types.UnionType):
        # a tagged union: the tag is the model's name
        return next(a for a in map(_bare, get_args(kind)) if a.__name__ == part)
    return get_args(kind)[-1] if get_origin(kind) is dict else get_args(kind)[0]


def _bare(kind: Any) -> Any:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


# --- taking wrong parts out -------------------------------------------------------------------


def _without_unknown(data: Plain, unknown: Sequence[_Unknown]) -> Plain:
    for u in unknown:

        def rename(mapping: dict[str, Plain], key: str, meant: str | None = u.meant) -> None:
            value = mapping.pop(key)
            if meant:
                mapping.setdefault(meant, value)

        data = _edited(data, u.path, rename)
    return data


def _removable(data: Plain, error: Error) -> Path:
    """The key to take out because of an error; () when that would be the whole file.

    Never one item of a list: the places of those behind it would be told wrongly.
    """
    path = _data_path(data, error["loc"])
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _edited(data: Plain, path: Path, edit: Callable[[dict[str, Plain], str], object]) -> Plain:
    """A copy in which `edit` changed the mapping that has the last key of `path`."""
    head, *rest = path
    if isinstance(data, tuple):
        assert isinstance(head, int)
        return tuple(_edited(v, tuple(rest), edit) if i == head else v for i, v in enumerate(data))
    assert isinstance(data, dict)
    assert isinstance(head, str)
    copy = dict(data)
    if rest:
        copy[head] = _edited(copy[head], tuple(rest), edit)
    else:
        edit(copy, head)
    return copy
