"""A YAML file as plain data that remembers where each value stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from orchestrator.config.scalars import TAG, Resolver, ScalarError, scalar
from orchestrator.errors import Problem

Plain: TypeAlias = (
    "bool | int | float | str | dt.date | tuple[Plain, ...] | dict[str, Plain] | None"
)
"""What YAML may say here: JSON's values and dates. Lists are tuples."""

Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and indexes from the top of a file: `("pipelines", "jax_cpu", "pools", 1)`."""

_MAX_VALUES = 100_000
"""Aliases can make a small file unfold without end."""


@dataclass(frozen=True)
class Place:
    """Line and column, from 1; (0, 0) when unknown."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file: its data, and where each key and value begins."""

    file: str
    """Relative to the repository, with `/`."""
    data: Plain
    values: Mapping[Path, Place] = field(default_factory=dict)
    keys: Mapping[Path, Place] = field(default_factory=dict)
    """Path of a value to the place of its key."""
    texts: Mapping[Path, str] = field(default_factory=dict)
    """Unquoted scalars, as written: `3.10` is a number whose text matters."""

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """`file:line:column  path.in.file: message`, at the value or at its key.

        A path that is not in the file is placed at the nearest one above it.
        """
        place = self.keys.get(path) if key else None
        above = path
        while place is None:
            place = self.values.get(above) or (Place() if not above else None)
            above = above[:-1]
        where = f"{path_text(path)}: " if path else ""
        return Problem(self.file, place.line, place.column, where + message)


def path_text(path: Path) -> str:
    """`pipelines.jax_cpu.pools[1]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


_HINTS = {
    "mapping values are not allowed": ". Text with `: ` in it needs quotes",
    "found character '\\t'": ". Indent with spaces, not with tabs",
    "found character '`'": ". Text that begins with a backquote needs quotes",
    "found character '@'": ". Text that begins with @ needs quotes",
    "found character '%'": ". Text that begins with % needs quotes",
}


def read(file: str, text: str) -> tuple[Source, list[Problem]]:
    """The data of a file and what is wrong with it as YAML; with problems, data is partial."""
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        said = ", ".join(filter(None, [e.context, e.problem]))
        said += next((hint for sign, hint in _HINTS.items() if sign in said), "")
        return Source(file=file, data=None), [Problem(file, *place, f"not valid YAML: {said}")]
    except yaml.reader.ReaderError as e:
        line = text.count("\n", 0, e.position) + 1
        column = e.position - (text.rfind("\n", 0, e.position) + 1) + 1
        message = f"not valid YAML: the character {_character(e)} is not allowed"
        return Source(file=file, data=None), [Problem(file, line, column, message)]
    except RecursionError:
        message = "not valid YAML: nested too deeply"
        return Source(file=file, data=None), [Problem(file, 0, 0, message)]
    if root is None:
        return Source(file=file, data=None), [Problem(file, 0, 0, "the file is empty")]
    builder = _Builder(file)
    data = builder.build(root, ())
    source = Source(
        file=file, data=data, values=builder.values, keys=builder.keys, texts=builder.texts
    )
    return source, builder.problems


def _character(error: yaml.reader.ReaderError) -> str:
    code = error.character
    return f"U+{code:04X}" if isinstance(code, int) else repr(code)


class _Loader(Reader, Scanner, Parser, Composer, Resolver):
    """Composes nodes; nothing is constructed."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        Resolver.__init__(self)


def _compose(text: str) -> Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


# --- collections ------------------------------------------------------------------------------


class _Builder:
    """Nodes to data; what is wrong with them becomes problems, and None in their place."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[Path, Place] = {}
        self.keys: dict[Path, Place] = {}
        self.texts: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self._inside: list[Node] = []
        self._left = _MAX_VALUES

    def build(self, node: Node, path: Path) -> Plain:
        """The data of a node that stands at `path`."""
        self.values[path] = _place(node)
        self._left -= 1
        if self._left <= 0:
            if self._left == 0:
                self._tell(node, path, "the file's aliases unfold to too many values")
            return None
        if isinstance(node, ScalarNode):
            return self._build_scalar(node, path)
        if any(node is outer for outer in self._inside):
            self._tell(node, path, "the alias refers to what it stands in")
            return None
        self._inside.append(node)
        try:
            if node.tag not in _COLLECTIONS:
                self._tell(node, path, f"the tag `{_tag(node)}` is not used here: leave it out")
                return None
            if isinstance(node, SequenceNode):
                return tuple(self.build(item, (*path, i)) for i, item in enumerate(node.value))
            return self._build_mapping(node, path)
        finally:
            self._inside.pop()

    def _build_scalar(self, node: ScalarNode, path: Path) -> Plain:
        if node.style is None:
            self.texts[path] = node.value
        try:
            return scalar(node)
        except ScalarError as e:
            self._tell(node, path, str(e))
            return None

    def _build_mapping(self, node: Node, path: Path) -> Plain:
        data: dict[str, Plain] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._tell(key, path, "a key must be a plain word")
            elif key.tag == TAG + "merge":
                merged.extend(self._merged(value, path))
            elif (name := key.value) in data:
                first = self.keys[*path, name].line
                self._tell(key, (*path, name), f"this key is here twice, first in line {first}")
            else:
                self.keys[*path, name] = _place(key)
                data[name] = self.build(value, (*path, name))
        for other in merged:
            # what stands in the mapping itself wins over what is merged into it
            for key, value in self._pairs(other, path):
                if key.value not in data:
                    self.keys[*path, key.value] = _place(key)
                    data[key.value] = self.build(value, (*path, key.value))
        return data

    def _merged(self, value: Node, path: Path) -> Iterator[Node]:
        """The mappings that `<<:` names, the ones with precedence first."""
        for node in value.value if isinstance(value, SequenceNode) else [value]:
            if isinstance(node, MappingNode) and not any(node is o for o in self._inside):
                yield node
            else:
                self._tell(node, path, "`<<` takes an alias of a mapping, or a list of them")

    def _pairs(self, node: Node, path: Path) -> Iterator[tuple[ScalarNode, Node]]:
        """Keys and values of a mapping that is merged, own ones first."""
        self._inside.append(node)
        deeper: list[Node] = []
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.tag == TAG + "merge":
                deeper.extend(self._merged(value, path))
            elif isinstance(key, ScalarNode):
                yield key, value
        for other in deeper:
            yield from self._pairs(other, path)
        self._inside.pop()

    def _tell(self, node: Node, path: Path, message: str) -> None:
        place = _place(node)
        where = f"{path_text(path)}: " if path else ""
        self.problems.append(Problem(self.file, place.line, place.column, where + message))


_COLLECTIONS = (TAG + "seq", TAG + "map")


def _tag(node: Node) -> str:
    tag: str = node.tag
    return "!!" + tag.removeprefix(TAG) if tag.startswith(TAG) else tag


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
