"""A run in Markdown: whatever results say, it stays text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from orchestrator.results.markdown import MAX_BYTES, escaped, summarise
from orchestrator.results.schema import Result
from tests.results.test_store import result

HOSTILE = (
    "<script>alert(1)</script>",
    "| a | b |",
    "[x](javascript:alert(1))",
    "![x](https://example.org/x.png)",
    "`code` *bold* _it_ ~~no~~ # head",
    "two\nlines\r\n- list",
    "\x1b[31mred\x1b[0m \u202e",
    "&lt;b&gt;",
    "@everyone <!-- ",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_acts(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    assert re.fullmatch(r"([A-Za-z0-9 ,;]|&#\d+;)*", shown)


def test_the_worst_comes_first_and_there_is_an_end() -> None:
    bad: Sequence[Result] = [
        *(result(f"p.w{n}.f32@amd-cpu", status="miss") for n in range(150)),
        result("p.bad.f32@amd-cpu", status="fail", message="|" * 300),
    ]
    lines = summarise("r", bad, []).splitlines()
    rows = [line for line in lines if line.startswith("| p&#46;")]
    assert rows[0].startswith("| p&#46;bad&#46;f32&#64;amd&#45;cpu | fail |")
    assert len(rows) == 100
    assert "and 51 more" in lines
    assert "| amd&#45;cpu |  | 1 |  | 150 |  |  |" in lines


def test_it_fits_what_services_take() -> None:
    many = [
        result(f"p.w.f32@pool{n}-{'x' * 200}", status="fail", message="é" * 300)
        for n in range(3000)
    ]
    assert len(summarise("r", many, []).encode()) <= MAX_BYTES + 10


def test_all_green_says_so() -> None:
    assert "Nothing is red." in summarise("r", [result("p.w.f32@amd-cpu", status="pass")], [])
