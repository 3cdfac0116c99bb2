"""YAML as plain data with places."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.source import Source, path_text, read


def data_of(text: str) -> Any:
    source, problems = read("f.yaml", text)
    assert problems == []
    return source.data


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in read("f.yaml", text)[1]]


# JSON is YAML, and Python's own reader says what each place must hold.
_TEXTS = st.text(st.characters(codec="utf-8", max_codepoint=0xD7FF), max_size=8)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


def as_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(as_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return value


@given(_TREES, st.sampled_from([None, 0, 1, 3]))
def test_every_value_and_key_is_where_it_says(tree: Any, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent)
    source, problems = read("f.json", text)
    assert problems == []
    assert source.data == as_tuples(tree)
    lines = text.split("\n")

    def written_at(line: int, column: int) -> Any:
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        return as_tuples(json.JSONDecoder().raw_decode(rest)[0])

    for path, place in source.values.items():
        value: Any = source.data
        for part in path:
            value = value[part]
        assert written_at(place.line, place.column) == value
    for path, place in source.keys.items():
        assert written_at(place.line, place.column) == path[-1]
    assert set(source.keys) == {p for p in source.values if p and isinstance(p[-1], str)}


@given(st.text(max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    source, problems = read("f.yaml", text)
    assert isinstance(source, Source)
    assert all(problem.file == "f.yaml" and problem.message for problem in problems)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"),
        ("~", None),
        ("true", True),
        ("False", False),
        ("-12", -12),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1e-5", 1e-5),
        ("1.3e-6", 1.3e-6),
        (".5", 0.5),
        ("2026-11-20", dt.date(2026, 11, 20)),
        ("22.1.8", "22.1.8"),
        ("1:22.1.8-1~deb12u1", "1:22.1.8-1~deb12u1"),
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("=", "="),
        ("'on'", "on"),
        ('"010"', "010"),
        ("!!str 3.10", "3.10"),
        ("[]", ()),
        ("[1, [2]]", (1, (2,))),
        ("{on: 1}", {"on": 1}),
        ("{3.10: 1}", {"3.10": 1}),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    found = data_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["yes", "On", "ON", "YES"])
def test_words_that_yaml_versions_read_as_true(text: str) -> None:
    assert problems_of(f"a: {text}") == [
        (
            f'f.yaml:1:4  a: write `true`, or "{text}" if text is meant: '
            f"YAML versions disagree on `{text}`"
        )
    ]


@pytest.mark.parametrize("text", ["no", "Off"])
def test_words_that_yaml_versions_read_as_false(text: str) -> None:
    assert problems_of(f"[{text}]") == [
        (
            f'f.yaml:1:2  [0]: write `false`, or "{text}" if text is meant: '
            f"YAML versions disagree on `{text}`"
        )
    ]


@pytest.mark.parametrize(
    "text", ["1:30", "010", "-007", "1_000", "0b11", "0o17", "190:20:30.5", "2026-11-20 10:00:00"]
)
def test_numbers_that_yaml_versions_read_differently(text: str) -> None:
    assert problems_of(f"a: {text}") == [
        f'f.yaml:1:4  a: write "{text}" if text is meant: YAML versions disagree on `{text}`'
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.yaml  the file is empty"),
        ("# nothing\n", "f.yaml  the file is empty"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3:1  a: this key is here twice, first in line 1"),
        ("x: {a: 1, a: 2}", "f.yaml:1:11  x.a: this key is here twice, first in line 1"),
        ("? [a]\n: b", "f.yaml:1:3  a key must be a plain word"),
        (
            "a:\n  b: [1,\n",
            (
                "f.yaml:3:1  not valid YAML: while parsing a flow node, expected the node content, "
                "but found '<stream end>'"
            ),
        ),
        (
            "a: b: c",
            (
                "f.yaml:1:5  not valid YAML: mapping values are not allowed here. "
                "Text with `: ` in it needs quotes"
            ),
        ),
        (
            "a:\n\tb: 1",
            (
                "f.yaml:2:1  not valid YAML: while scanning for the next token, found character "
                "'\\t' that cannot start any token. Indent with spaces, not with tabs"
            ),
        ),
        ("a: *b", "f.yaml:1:4  not valid YAML: found undefined alias 'b'"),
        (
            "a: 1\n---\nb: 2",
            (
                "f.yaml:2:1  not valid YAML: expected a single document in the stream, "
                "but found another document"
            ),
        ),
        ("a: 1\nb: \x07", "f.yaml:2:4  not valid YAML: the character U+0007 is not allowed"),
        ("[" * 5000, "f.yaml  not valid YAML: nested too deeply"),
        ("a: !!set {b}", "f.yaml:1:4  a: the tag `!!set` is not used here: leave it out"),
        ("a: !x b", "f.yaml:1:4  a: the tag `!x` is not used here: leave it out"),
        ("a: 2026-02-30", "f.yaml:1:4  a: there is no such date: 2026-02-30"),
        ("a: .nan", "f.yaml:1:4  a: `.nan` is not a finite number"),
        ("a: 1e999", "f.yaml:1:4  a: `1e999` is not a finite number"),
        ("a: " + "9" * 5000, f"f.yaml:1:4  a: the number is too long: {'9' * 40}"),
        ("a: &x [*x]", "f.yaml:1:4  a[0]: the alias refers to what it stands in"),
        ("a: &x {<<: *x}", "f.yaml:1:4  a: `<<` takes an alias of a mapping, or a list of them"),
        ("a: {<<: 1}", "f.yaml:1:9  a: `<<` takes an alias of a mapping, or a list of them"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    assert problems_of(text) == [said]


def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["a0: &a0 [1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    (said,) = problems_of("\n".join(lines))
    assert said.endswith("the file's aliases unfold to too many values")


def test_anchors_and_merges() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: [*b, {x: 4, z: 5}], w: 6}\nd: *a"
    assert data_of(text) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 3, "z": 5, "w": 6},
        "d": {"x": 1, "y": 2},
    }


def test_merged_values_are_placed_where_they_are_written() -> None:
    source, _ = read("f.yaml", "a: &a\n  x: 1\nb:\n  <<: *a\n")
    problem = source.problem(("b", "x"), "wrong")
    assert str(problem) == "f.yaml:2:6  b.x: wrong"


def test_a_place_that_is_not_there_is_told_at_the_nearest_above() -> None:
    source, _ = read("f.yaml", "a:\n  b: [1]\n")
    assert str(source.problem(("a", "b", 7, "c"), "?")) == "f.yaml:2:6  a.b[7].c: ?"
    assert str(source.problem(("a", "x"), "?", key=True)) == "f.yaml:2:3  a.x: ?"
    assert str(source.problem(("a", "b"), "?", key=True)) == "f.yaml:2:3  a.b: ?"
    assert str(Source(file="f.yaml", data=None).problem(("a",), "?")) == "f.yaml  a: ?"


def test_path_text() -> None:
    assert path_text(("pipelines", "jax_cpu", "pools", 1, "x")) == "pipelines.jax_cpu.pools[1].x"
    assert path_text((0, "x")) == "[0].x"
