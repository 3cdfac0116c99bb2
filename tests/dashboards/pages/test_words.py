"""Numbers and names as texts."""

from __future__ import annotations

import math

import pytest

from dashboards import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.0, "0 s"),
        (2e-9, "2 ns"),
        (1.25e-5, "12.5 µs"),
        (0.01234, "12.3 ms"),
        (59.94, "59.9 s"),
        (61.0, "1 min 1 s"),
        (3600.0, "1 h"),
        (7500.0, "2 h 5 min"),
        (math.inf, "∞"),
        (math.nan, "?"),
        (-2.0, "−2 s"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.001, "<1 %"), (0.5, "50 %"), (0.999, ">99 %"), (1.0, "100 %")],
)
def test_percent_rounds_to_nothing_that_is_not_so(share: float, text: str) -> None:
    assert words.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7000, "7,000"),
        (0.01234, "0.0123"),
        (None, "–"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(("now", "text"), [(3, "+2"), (0, "−1"), (1, "")])
def test_differences(now: int, text: str) -> None:
    assert words.difference(now, 1) == text


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("cells/a/b/f32@amd-cpu.html", "cells/a/b/f32@amd-cpu.html"),
        ("a b?c#d%e\"<'", "a%20b%3Fc%23d%25e%22%3C%27"),
        ("\ud800", "%3F"),
    ],
)
def test_addresses(path: str, address: str) -> None:
    assert words.url(path) == address


def test_different_names_have_different_anchors() -> None:
    names = ["pool-a", "pool a", "pool\u00a0a", "pool<a>", "pool-a-"]
    anchors = [words.anchor(name) for name in names]
    assert anchors[0] == "pool-a"
    assert len(set(anchors)) == len(names)
    assert not [each for each in anchors if set(each) & set(" <>\"'&")]


@pytest.mark.parametrize(
    ("text", "is_link"),
    [
        ("https://example.org/issues/1", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        (" https://example.org", False),
        ("https://example.org/\"onmouseover='x'", False),
        ("//example.org", False),
        ("not reported yet", False),
    ],
)
def test_only_addresses_of_the_web_are_links(text: str, is_link: bool) -> None:
    assert words.is_web(text) is is_link


@pytest.mark.parametrize(("status", "letter"), [("fail", "F"), ("none", "-"), ("of later", "?")])
def test_letters(status: str, letter: str) -> None:
    assert words.letter(status) == letter
