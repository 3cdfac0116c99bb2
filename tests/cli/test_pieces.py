"""Small parts of the command line."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from orchestrator import text
from orchestrator.backends.perform import default_workers
from orchestrator.cli import commands, timings
from orchestrator.cli.params import constant
from orchestrator.cli.report import TextReporter, cpu_line
from orchestrator.config.load import load
from orchestrator.engines.base import Environment
from orchestrator.job import StageTime
from orchestrator.results.schema import RunInfo, Span
from tests.cli.conftest import INTEL, Lab
from tests.results.test_store import result


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("8", 8),
        ("-3", -3),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("relu", "relu"),
        ("", ""),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("0x10", "0x10"),
        ("1e", "1e"),
    ],
)
def test_constants_have_the_type_they_look_like(word: str, value: object) -> None:
    assert constant(word) == value
    assert type(constant(word)) is type(value)


@given(st.text())
def test_nothing_that_a_terminal_acts_on_survives(anything: str) -> None:
    clean = text.plain(anything)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", clean
    )


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("tab\tand\nline", "tab\tand\nline"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("10%\r20%\r\n", "10%?20%\n"),
        ("naïve 漢字 🙂", "naïve 漢字 🙂"),
        ("a\u202eb", "a?b"),
        ("\ud800", "?"),
    ],
)
def test_plain_text(raw: str, clean: str) -> None:
    assert text.plain(raw) == clean


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.314, "0.31 s"),
        (12.44, "12.4 s"),
        (59.96, "60.0 s"),
        (65, "1 min 05 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_durations(value: float, shown: str) -> None:
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes(value: int, shown: str) -> None:
    assert text.size(value) == shown


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.0 us"),
        (12_345, "12.3 us"),
        (123_456, "123 us"),
        (999_600, "1.0 ms"),
        (1_234_567_890, "1.23 s"),
        (90e9, "90.00 s"),
    ],
)
def test_short_durations(nanoseconds: float, shown: str) -> None:
    assert text.duration(nanoseconds) == shown


def test_counts_come_in_the_order_in_which_one_looks() -> None:
    assert text.counts(["miss", "pass", "fail", "pass"]) == "2 pass · 1 fail · 1 miss"
    assert text.counts([]) == "no cells"


def test_one_line_is_short() -> None:
    assert text.one_line("abc\ndef", 10) == "abc"
    assert text.one_line("a" * 20, 10) == "a" * 9 + "…"


def test_long_lines_of_tables_are_not_padded() -> None:
    assert text.table([("a", "b"), ("long", "c")]) == ["a      b", "long   c"]
    assert text.table([]) == []


@pytest.mark.parametrize(
    ("cpus", "gib", "workers"),
    [(2, 16, 2), (8, 8, 2), (1, 64, 1), (64, 512, 16), (4, 1, 1), (4, 0, 4)],
)
def test_workers_by_cores_and_memory(cpus: int, gib: int, workers: int) -> None:
    host = dataclasses.replace(INTEL, cpus=cpus, memory_bytes=gib << 30)
    assert default_workers(host) == workers


def test_the_cpu_in_a_line() -> None:
    assert cpu_line(INTEL) == "Intel Xeon, 2 cores, avx512f"
    plain = dataclasses.replace(INTEL, cpu_flags="fpu", cpus=1)
    assert cpu_line(plain) == "Intel Xeon, 1 core"


class TestMyself:
    """How people can call the program."""

    def test_in_a_shell(self) -> None:
        assert commands.myself({"PATH": "/nowhere"}) == "lh-ci"

    def test_in_a_nox_session_it_is_on_no_path_of_theirs(self) -> None:
        environ = {"NOX_CURRENT_SESSION": "pytorch_cpu", "PATH": "/nowhere"}
        assert commands.myself(environ) == "nox -s lh-ci --"

    def test_in_a_nox_session_when_it_is_installed_besides(self, tmp_path: Path) -> None:
        program = tmp_path / "lh-ci"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        environ = {"NOX_CURRENT_SESSION": "pytorch_cpu", "PATH": str(tmp_path)}
        assert commands.myself(environ) == "lh-ci"


class TestTerminal:
    """On a terminal there is a bar."""

    @pytest.fixture
    def screen(self) -> Console:
        return Console(
            file=io.StringIO(), force_terminal=True, width=120, markup=False, highlight=False
        )

    def shown(self, screen: Console) -> str:
        assert isinstance(screen.file, io.StringIO)
        return text.plain(screen.file.getvalue())

    def test_counts_and_the_stage_that_runs(self, lab: Lab, screen: Console) -> None:
        pins = load(lab.tree.root).pins
        with TextReporter(screen, pins, 3) as reporter:
            reporter.preparing("pytorch")
            reporter.progress("step 3 of 9")
            environment = Environment(
                stack="pytorch",
                engine="venv",
                reference=str(lab.tree.root / ".lh/venvs/x"),
                digest="",
                cached=False,
                facts={"llvm": ""},
            )
            reporter.prepared(environment, 65.0)
            reporter.began("a", "codegen")
            reporter.finished(result("a"), final=True)
            reporter.finished(result("b", status="fail", phase="compare"), final=True)
            reporter.began("c", "codegen")
        shown = self.shown(screen)
        assert "2/3" in shown
        assert "1 pass · 1 fail" in shown
        assert "c codegen" in shown
        assert "fail  b   compare" in shown
        assert "pass  a" not in shown
        assert "no LLVM release   environment .lh/venvs/x (built in 1 min 05 s)" in shown

    def test_a_failure_while_a_stack_is_prepared_leaves_no_spinner(
        self, lab: Lab, screen: Console
    ) -> None:
        pins = load(lab.tree.root).pins
        reporter = TextReporter(screen, pins, 1)

        def prepare() -> None:
            with reporter:
                reporter.preparing("pytorch")
                raise InterruptedError

        with pytest.raises(InterruptedError):
            prepare()
        assert isinstance(screen.file, io.StringIO)
        raw = screen.file.getvalue()
        hidden, shown = "\x1b[?25l", "\x1b[?25h"  # the cursor
        assert raw.count(hidden) == raw.count(shown) == 1


class TestTimings:
    """Where the time went."""

    def info(self, *spans: Span) -> RunInfo:
        return RunInfo(
            run="r", started="", engine="docker", engine_note="", version="0", spans=spans
        )

    def test_the_stage_that_dominates_the_cells(self) -> None:
        stages = (
            StageTime(stage="ingress", seconds=6.0, exit="ok"),
            StageTime(stage="codegen", seconds=2.0, exit="ok"),
        )
        one = result("a", stages=stages, seconds=8.0)
        spans = (
            Span(kind="prepare", name="pytorch", seconds=0.5),
            Span(kind="start", name="j", seconds=0.5),
            Span(kind="harness", name="j", seconds=3.0),
        )
        lines = timings.lines(self.info(*spans), [one], 12.0, 1)
        assert [line.split()[-2:] for line in lines[1:5]] == [
            ["4", "%"],
            ["4", "%"],
            ["25", "%"],
            ["67", "%"],
        ]
        assert lines[-1] == "What dominates: stage ingress, 75 % of the cells' time."

    def test_a_start_that_dominates_all(self) -> None:
        span = Span(kind="harness", name="j", seconds=9.0)
        one = result("a", stages=(StageTime(stage="ingress", seconds=1.0, exit="ok"),))
        lines = timings.lines(self.info(span), [one], 10.0, 1)
        assert lines[-1] == (
            "What dominates: frontends imported and warmed up, 90 % of the wall time."
        )

    def test_a_run_without_cells(self) -> None:
        lines = timings.lines(self.info(), [], 0.0, 1)
        assert lines[-1].startswith("What dominates: ")
