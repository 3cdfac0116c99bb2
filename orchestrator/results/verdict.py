"""From what happened to what it means: expectations applied to an outcome. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from orchestrator.config.models import Expectation
from orchestrator.errors import ExitCode
from orchestrator.job import Outcome, Status


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attempt counts as."""

    status: Status
    phase: str
    message: str
    expectation: str = ""
    """Reason and issue of the expectation that applied."""
    notes: tuple[str, ...] = ()
    """Why an expectation that names the cell did not apply."""


def judge(
    outcome: Outcome, cell: str, expectations: Sequence[Expectation], today: dt.date
) -> Verdict:
    """Applies the matrix's expectations, strictly, to one outcome.

    A failure is expected only when status, phase and message all match an expectation that has
    not expired. A pass where a failure was expected is `xpass`. A `miss` says nothing about the
    cell, so no expectation applies to it.
    """
    named = [e for e in expectations if fnmatchcase(cell, e.cells)]
    if outcome.status == "pass":
        return _judge_pass(named, today)
    plain = Verdict(status=outcome.status, phase=outcome.phase, message=outcome.message)
    if outcome.status == "miss":
        return plain
    notes = []
    for expectation in named:
        if not (why := _why_not(expectation, outcome, today)):
            return Verdict(
                status="xfail",
                phase=outcome.phase,
                message=outcome.message,
                expectation=cite(expectation),
            )
        notes.append(f"the expected failure `{cite(expectation)}` does not apply: {why}")
    return Verdict(
        status=outcome.status, phase=outcome.phase, message=outcome.message, notes=tuple(notes)
    )


def _judge_pass(named: Sequence[Expectation], today: dt.date) -> Verdict:
    live = [e for e in named if e.expires >= today]
    if live:
        return Verdict(
            status="xpass",
            phase=live[0].phase,
            message="passed, though matrix.yaml expects it to fail: remove the expectation "
            f"for `{live[0].cells}`",
            expectation=cite(live[0]),
        )
    notes = tuple(
        f"the expectation for `{e.cells}` expired on {e.expires} and the cell passes: remove it"
        for e in named
    )
    return Verdict(status="pass", phase="", message="", notes=notes)


def _why_not(expectation: Expectation, outcome: Outcome, today: dt.date) -> str:
    if expectation.expires < today:
        return f"it expired on {expectation.expires}"
    if expectation.status != outcome.status:
        return f"it expects status {expectation.status}"
    if expectation.phase != outcome.phase:
        return f"it expects phase {expectation.phase}"
    if not re.search(expectation.match, outcome.message):
        return f"the message does not match `{expectation.match}`"
    return ""


def cite(expectation: Expectation) -> str:
    """How a result names the expectation that applied."""
    return f"{expectation.reason} ({expectation.issue})"


class Judged(Protocol):
    """What an exit code is made from: a result, or what stands for one."""

    @property
    def status(self) -> Status:
        """After expectations."""

    @property
    def tier(self) -> str:
        """`core` or `peripheral`."""


def is_red(results: Iterable[Judged]) -> bool:
    """Whether a core cell is to blame for something: what `--fail-fast` stops at."""
    return any(
        result.tier == "core" and result.status in ("fail", "xpass", "error") for result in results
    )


def exit_code(results: Iterable[Judged]) -> ExitCode:
    """What a run ends with, from the last result of each cell.

    Order of precedence, over core cells alone: a compiler's fault (`fail`, `xpass`), then our
    definitions' (`error`), then infrastructure's (`miss`). Peripheral cells are shown and change
    nothing here.
    """
    statuses = {result.status for result in results if result.tier == "core"}
    if statuses & {"fail", "xpass"}:
        return ExitCode.CELL_FAILED
    if "error" in statuses:
        return ExitCode.DEFINITIONS
    if "miss" in statuses:
        return ExitCode.INFRASTRUCTURE
    return ExitCode.OK
