"""The judgement that every fault goes through: what a record must never say, whatever happened."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orchestrator.errors import ExitCode
from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.results.schema import Result
from orchestrator.results.store import Run

_BLAMING = ("fail", "error", "xfail", "xpass", "skip")
"""What an attempt may not be called that the infrastructure spoilt: all cells pass when let."""
_HONEST = (ExitCode.OK, ExitCode.INFRASTRUCTURE, ExitCode.INTERRUPTED)
_NAME = re.compile(r"(.+)\.(\d+)\.json")


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """What there is once a fault is over, and the run was gone on with if it had to be."""

    run: Run
    planned: Sequence[str]
    """Ids of cells; each of them passes where nothing is in its way."""
    codes: Sequence[int]
    """Of the commands, in order; the last one ended the run."""
    kind: Kind | None
    """Of the misses that the fault leaves; None: it leaves none."""
    left: Sequence[str] = ()
    """Containers, processes and temporary files that are still there."""


def complaints(after: Aftermath) -> list[str]:
    """Everything that is wrong with how a fault was taken; empty when nothing is."""
    results, _ = after.run.results()
    return [
        *_blame(results, after.codes),
        *_finals(results, after.planned),
        *_numbers(after.run),
        *_causes(results, after.kind),
        *(f"left behind: {what}" for what in after.left),
    ]


def _blame(results: Iterable[Result], codes: Sequence[int]) -> Iterator[str]:
    """Nobody is blamed who had no part in it, and the last word is green."""
    for result in results:
        if result.status in _BLAMING:
            yield f"{result.cell} is blamed: {result.status}: {result.message}"
    for code in codes:
        if code not in _HONEST:
            yield f"a command ended with {code}"
    if not codes or codes[-1] != ExitCode.OK:
        yield "it did not end green"


def _finals(results: Iterable[Result], planned: Sequence[str]) -> Iterator[str]:
    """Every cell that was planned has one verdict, after which nothing follows; no other has."""
    attempts: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        attempts[result.cell].append(result)
    for cell in planned:
        verdicts = [result.attempt for result in attempts[cell] if result.status != "miss"]
        if len(verdicts) != 1:
            yield f"{cell} has {len(verdicts)} verdicts"
        elif verdicts[0] != max(result.attempt for result in attempts[cell]):
            yield f"{cell} was tried again after its verdict"
    for cell in sorted(set(attempts) - set(planned)):
        yield f"{cell} was not planned"


def _numbers(run: Run) -> Iterator[str]:
    """Attempts are documents numbered from 1; one that was damaged keeps its number."""
    numbers: dict[str, list[int]] = collections.defaultdict(list)
    for path in (run.folder / "results").iterdir():
        match = _NAME.fullmatch(path.name)
        if match is None:
            yield f"left behind: {path.name}"
        else:
            numbers[match[1]].append(int(match[2]))
    for cell, found in numbers.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield f"{cell} has attempts {sorted(found)}"


def _causes(results: Iterable[Result], kind: Kind | None) -> Iterator[str]:
    """Each miss names what happened."""
    misses = [result for result in results if result.status == "miss"]
    for miss in misses:
        found = kind_of(miss.phase, miss.message, miss.evidence)
        if found != kind:
            yield f"{miss.cell}: {found} and not {kind}: {miss.message}"
    if kind is not None and not misses:
        yield f"no miss tells of it; expected {kind}"
