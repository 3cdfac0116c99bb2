"""Expectations and exit codes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest

from orchestrator.config.models import Expectation
from orchestrator.errors import ExitCode
from orchestrator.job import Outcome, Status
from orchestrator.results.verdict import exit_code, judge

TODAY = dt.date(2026, 11, 20)
CELL = "torch_cpu.mlp.f16@intel-cpu"
FAILED = Outcome(status="fail", phase="lower:to-llvm", message="x: failed to legalize 'math.exp'")


def expectation(**changed: Any) -> Expectation:
    return Expectation.model_validate(
        {
            "cells": "torch_cpu.*.f16@*",
            "status": "fail",
            "phase": "lower:to-llvm",
            "match": "failed to legalize",
            "reason": "not there yet",
            "issue": "tracker 7",
            "owner": "maintainers",
            "since": dt.date(2026, 11, 1),
            "expires": dt.date(2027, 1, 31),
            **changed,
        }
    )


def test_a_failure_just_as_expected_is_xfail() -> None:
    verdict = judge(FAILED, CELL, [expectation()], TODAY)
    assert (verdict.status, verdict.phase) == ("xfail", "lower:to-llvm")
    assert verdict.message == FAILED.message
    assert verdict.expectation == "not there yet (tracker 7)"
    assert verdict.notes == ()


def test_an_expectation_holds_on_its_last_day() -> None:
    assert judge(FAILED, CELL, [expectation(expires=TODAY)], TODAY).status == "xfail"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"expires": dt.date(2026, 11, 19)}, "it expired on 2026-11-19"),
        ({"status": "error"}, "it expects status error"),
        ({"phase": "codegen"}, "it expects phase codegen"),
        ({"match": "out of .*memory"}, "the message does not match `out of .*memory`"),
    ],
)
def test_an_expectation_that_does_not_fit_leaves_the_failure_and_says_why(
    changed: dict[str, Any], why: str
) -> None:
    verdict = judge(FAILED, CELL, [expectation(**changed)], TODAY)
    assert verdict.status == "fail"
    assert verdict.expectation == ""
    (note,) = verdict.notes
    assert note == f"the expected failure `not there yet (tracker 7)` does not apply: {why}"


def test_the_expectation_that_fits_wins_over_those_that_do_not() -> None:
    both = [expectation(phase="codegen"), expectation(reason="the one")]
    verdict = judge(FAILED, CELL, both, TODAY)
    assert (verdict.status, verdict.expectation) == ("xfail", "the one (tracker 7)")


def test_a_pass_that_was_expected_to_fail_is_xpass() -> None:
    verdict = judge(Outcome(status="pass"), CELL, [expectation()], TODAY)
    assert verdict.status == "xpass"
    assert "remove the expectation for `torch_cpu.*.f16@*`" in verdict.message


def test_a_pass_with_an_expired_expectation_is_a_pass_with_a_note() -> None:
    expired = expectation(expires=dt.date(2026, 1, 1))
    verdict = judge(Outcome(status="pass"), CELL, [expired], TODAY)
    assert verdict.status == "pass"
    (note,) = verdict.notes
    assert note.startswith("the expectation for `torch_cpu.*.f16@*` expired on 2026-01-01")


def test_no_expectation_applies_to_a_miss() -> None:
    lost = Outcome(status="miss", phase="lower:to-llvm", message="failed to legalize")
    verdict = judge(lost, CELL, [expectation()], TODAY)
    assert (verdict.status, verdict.notes) == ("miss", ())


def test_expectations_of_other_cells_do_not_matter() -> None:
    other = [expectation(cells="jax_cpu.*")]
    assert judge(FAILED, CELL, other, TODAY).status == "fail"
    assert judge(Outcome(status="pass"), CELL, other, TODAY).status == "pass"


@dataclass(frozen=True)
class Judged:
    status: Status
    tier: str = "core"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((), ExitCode.OK),
        (("pass", "xfail", "skip"), ExitCode.OK),
        (("pass", "miss"), ExitCode.INFRASTRUCTURE),
        (("miss", "error"), ExitCode.DEFINITIONS),
        (("miss", "error", "fail"), ExitCode.CELL_FAILED),
        (("error", "xpass"), ExitCode.CELL_FAILED),
    ],
)
def test_exit_codes_blame_the_compiler_first(statuses: tuple[Status, ...], code: int) -> None:
    assert exit_code(Judged(status) for status in statuses) == code


@pytest.mark.parametrize("status", ["fail", "xpass", "error", "miss"])
def test_peripheral_cells_make_no_run_red(status: Status) -> None:
    assert exit_code([Judged(status, "peripheral"), Judged("pass")]) == ExitCode.OK
