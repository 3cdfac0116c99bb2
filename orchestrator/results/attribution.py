"""Whose fault a failure is, as control runs tell: a document for a cell, beside its results."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.results.artifacts import check_name
from orchestrator.results.files import write_atomically
from orchestrator.results.store import Run

FOLDER = "attributions"


@dataclass(frozen=True, kw_only=True)
class Attributed:
    """`attributions/<cell>.json` of a run."""

    cell: str
    attempt: int
    """That failed."""
    agent: str
    """On which it failed."""
    verdict: str
    """`fleet.control.Verdict`."""
    left: tuple[str, ...] = ()
    """Of an undecided one: who it can be."""
    evidence: tuple[str, ...] = ()
    """One sentence each: what was run or is known, and whom that clears."""
    jobs: tuple[str, ...] = ()
    """The control runs; what they left is in the run's folder `aside`."""
    schema: int = 1

    def lines(self) -> tuple[str, ...]:
        """For people."""
        whom = self.verdict
        if self.verdict == "undecided":
            whom += f": {' or '.join(self.left) or 'nobody that we know of'}"
        return (f"{whom}, by control runs", *self.evidence)


def attribution(run: Run, cell: str) -> Attributed | None:
    """What control runs told of a cell; None: nothing, or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, records.RecordError):
        return records.decode(Attributed, json.loads(_path(run, cell).read_bytes()))
    return None


def blamed(run: Run) -> dict[tuple[str, int], tuple[str, ...]]:
    """What is told of each attempt that control runs were made for, by cell and number."""
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for path in sorted((run.folder / FOLDER).glob("*.json")):
        told = attribution(run, path.name.removesuffix(".json"))
        if told is not None:
            found[told.cell, told.attempt] = told.lines()
    return found


def write(run: Run, found: Attributed) -> None:
    """Puts it beside the results, over what was known before.

    Raises:
        InfrastructureError: it cannot be written.
    """
    if attribution(run, found.cell) != found:
        data = records.dumps(found, indent=1).encode() + b"\n"
        write_atomically(_path(run, found.cell), data)


def _path(run: Run, cell: str) -> Path:
    return run.folder / FOLDER / f"{check_name(cell)}.json"
