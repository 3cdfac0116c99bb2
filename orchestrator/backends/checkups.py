"""Health jobs of a run's agents: cells that are known to be good, as jobs of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from orchestrator.backends import executing, jobdir
from orchestrator.backends.deriving import derive
from orchestrator.backends.executing import Ordered
from orchestrator.errors import DefinitionError, InfrastructureError
from orchestrator.fleet.health import Golden, Tried, golden, pick
from orchestrator.fleet.models import AgentFile
from orchestrator.job import Cell
from orchestrator.order import CellTerms
from orchestrator.plan import PlannedCell
from orchestrator.results.schema import RunPlan
from orchestrator.results.store import Run

_RUNS = 30
"""That are looked through for a green one."""


class Checkups:
    """What health jobs of one run are made of."""

    def __init__(self, plan: RunPlan, expected: Sequence[str], earlier: Sequence[Run]) -> None:
        """`plan`: of the run. `expected`: globs of cells that are expected to fail.

        `earlier`: other runs of the workspace, the newest first.
        """
        self._plan = plan
        self._expected = expected
        self._earlier = {run.name: run for run in earlier[:_RUNS]}
        self._golden: dict[tuple[str, str], Golden | None] = {}

    def make(self, agent: AgentFile, like: Ordered, folder: Path) -> str:
        """Fills a folder with a health job of an agent, which could have the job `like` otherwise.

        Cells of the last green run, as they were planned then; else the cheapest core ones of this
        plan; else one of that job. Returns the name of the run that shows that they are good: a
        green one with the same stack and harness; empty: there is none, and a verdict other than
        green would be no fault of the machine's.

        Raises:
            InfrastructureError: the folder cannot be written.
        """
        pipelines = agent.terms.pipelines
        for cells, files, proof in self._choices(like):
            chosen = pick(cells, pipelines)
            if not chosen:
                continue
            with contextlib.suppress(DefinitionError, KeyError):
                _write(chosen, files, like, folder)
                return proof
        derive(like, folder, sorted(like.job.cells, key=_cost)[:1])
        return ""

    def _choices(
        self, like: Ordered
    ) -> Iterator[tuple[Sequence[PlannedCell], Mapping[str, str], str]]:
        """Cells, their files, and the run that shows that they are good."""
        stack, pool = like.order.stack, like.job.pool
        if (stack, pool) not in self._golden:
            self._golden[stack, pool] = golden(self._tried(), stack, pool)
        found = self._golden[stack, pool]
        if found is not None:
            run = self._earlier[found.run]
            files = _kept(run, [planned.cell for planned in found.cells])
            yield found.cells, files, run.name if _alike(run, like) else ""
        yield self._cheapest(stack, pool), self._plan.files, ""

    def _tried(self) -> Iterator[Tried]:
        for run in self._earlier.values():
            with contextlib.suppress(InfrastructureError):
                yield Tried(run=run.name, cells=run.plan().cells, results=run.latest())

    def _cheapest(self, stack: str, pool: str) -> list[PlannedCell]:
        good = [
            each
            for each in self._plan.cells
            if (each.stack, each.cell.pool, each.tier, each.runnable) == (stack, pool, "core", True)
            and each.cell.golden is not None
            and not any(fnmatchcase(each.cell.id, glob) for glob in self._expected)
        ]
        return sorted(good, key=lambda each: _cost(each.cell))


def _write(
    chosen: Sequence[PlannedCell], files: Mapping[str, str], like: Ordered, folder: Path
) -> None:
    terms = {
        each.cell.id: CellTerms(tier=each.tier, reproduce=f"lh-ci repro {each.cell.id}")
        for each in chosen
    }
    derive(like, folder, [each.cell for each in chosen], files=files, terms=terms)


def _kept(run: Run, cells: Iterable[Cell]) -> dict[str, str]:
    """The files of a run's cells: from its jobs' folders, else from where they were copied."""
    found: dict[str, str] = dict(run.plan().files)
    folders = sorted((run.folder / "jobs").glob("*"))
    for cell in cells:
        for folder in folders:
            if not jobdir.changed(folder, [cell]):
                found |= jobdir.files_of(folder, [cell])
                break
    return found


def _alike(run: Run, like: Ordered) -> bool:
    """Whether a job was run in a run by the definitions that one is to be run by now."""
    now = like.order
    for folder in sorted((run.folder / "jobs").glob("*")):
        with contextlib.suppress(InfrastructureError):
            then = executing.read(folder).order
            if (then.stack, then.pool.name) == (now.stack, now.pool.name):
                same = then.stack_sha256 == now.stack_sha256
                return same and then.harness_sha256 == now.harness_sha256
    return False


def _cost(cell: Cell) -> tuple[int, str]:
    """By the size of what is compared."""
    return (cell.golden.size if cell.golden else 1 << 62, cell.id)
