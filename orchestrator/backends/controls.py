"""Control runs: for cells that failed on an agent tonight, the runs that tell whose fault it is.

Everything is made again from what is on disk: the run's results, its journal, what control runs
left, and earlier runs. So a dispatcher that was killed goes on where the last one stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends import executing
from orchestrator.backends.deriving import aside, derive
from orchestrator.backends.journal import JOURNAL, JobState, Journal
from orchestrator.backends.roster import Roster
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import recognise
from orchestrator.fleet.assign import State
from orchestrator.fleet.control import Control, Peer, Role, decide, wanted
from orchestrator.fleet.terms import why_not
from orchestrator.fleet.trials import Trial, trial
from orchestrator.order import JobOrder
from orchestrator.results import attribution
from orchestrator.results.attribution import Attributed
from orchestrator.results.schema import Result
from orchestrator.results.store import Run, Runs

MOST = 12
"""Control runs of a run: a night on which much breaks needs people, not more runs."""
_RUNS = 60
"""Earlier ones that are looked through."""
_GONE = "is gone from this machine"
"""What an agent says of an image that it has no more; see `executing`."""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A failure that is news, and all that is known of it."""

    result: Result
    agent: str
    job: str
    """That it was a cell of."""
    failure: Trial
    controls: tuple[Trial, ...]
    jobs: tuple[str, ...]
    """Of the controls."""
    green: Trial | None
    image: str
    """Digest of the last green image, as this agent has it; empty: it never had it."""
    gone: bool
    """It has it no more."""


@dataclass(frozen=True, kw_only=True)
class _Green:
    """The last time that a cell passed."""

    result: Result
    agent: str
    """Empty: it was no agent."""
    definition: str
    """Of its stack; empty: not known."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A control run that should be made now."""

    cell: str
    control: Control
    like: str
    """The job whose definitions it has."""
    image: str
    """Digest of the environment to run in; empty: the stack as it is defined."""
    definition: str
    """Digest of the stack's definition that this is of; empty: of that job's."""


class Controls:
    """Of one run."""

    def __init__(self, run: Run, runs: Runs) -> None:
        """`runs`: of the workspace."""
        self._run = run
        self._runs = runs
        self._news: dict[tuple[str, int], bool] = {}
        self._greens: dict[tuple[str, str], _Green | None] = {}

    def next(
        self, roster: Roster, jobs: Mapping[str, JobState], state: State, now: dt.datetime
    ) -> tuple[Wanted, ...]:
        """The control runs that should be made now; writes down what is known by then.

        Args:
            roster: was just read.
            jobs: all of the run, by id; of the plan's own, none is under way.
            state: of the agents.
            now: aware of its time zone.
        """
        left = MOST - sum(each.aside == "control" for each in jobs.values())
        found: list[Wanted] = []
        for case in self._cases(roster, jobs):
            asked = self._asked(case, roster, state, now) if len(found) < left else ()
            found += asked[: left - len(found)]
            attribution.write(self._run, _attributed(case))
        return tuple(found)

    def make(self, asked: Wanted, folder: Path) -> None:
        """Fills a folder with the job of a control run."""
        like = executing.read(self._run.folder / "jobs" / asked.like)
        cells = [cell for cell in like.job.cells if cell.id == asked.cell]
        derive(like, folder, cells, image=asked.image, stack_sha256=asked.definition)

    # --- what is known ----------------------------------------------------------------------

    def _cases(self, roster: Roster, jobs: Mapping[str, JobState]) -> Iterator[_Case]:
        """Failures that are news, none of whose controls is under way."""
        for result in self._run.latest().values():
            if result.status not in ("fail", "error") or not self._is_news(result):
                continue
            job, agent = _where(result, jobs.values(), self._run)
            if agent not in roster.agents:
                continue
            mine = [
                each
                for each in jobs.values()
                if each.aside == "control" and each.planned and each.planned.of == result.cell
            ]
            if all(each.over for each in mine):
                yield self._case(result, job, agent, mine)

    def _case(self, result: Result, job: str, agent: str, mine: Sequence[JobState]) -> _Case:
        order = self._order(job)
        failure = trial(result, agent)
        assert failure is not None  # it failed
        done = [(each, self._told(each, result.cell)) for each in mine]
        known = [(each.job, told) for each, told in done if told is not None]
        green = self._green(result, agent)
        image = green.result.environment if green and green.agent == agent else ""
        return _Case(
            result=result,
            agent=agent,
            job=job,
            failure=dataclasses.replace(failure, image=order.stack_sha256),
            controls=tuple(told for _, told in known if _GONE not in told.message),
            jobs=tuple(name for name, _ in known),
            green=_as_green(green),
            image=image,
            gone=any(_GONE in told.message for _, told in known),
        )

    def _told(self, control: JobState, cell: str) -> Trial | None:
        """What a control run came to; None: nothing came of it."""
        result = aside(self._run, control.job).latest().get(cell)
        found = trial(result, control.only) if result is not None else None
        if found is None:
            return None
        return dataclasses.replace(
            found, agent=control.only, image=self._order(control.job).stack_sha256
        )

    def _order(self, job: str) -> JobOrder:
        return executing.read(self._run.folder / "jobs" / job).order

    def _is_news(self, result: Result) -> bool:
        """Whether it was green when it last ran, or never ran; and is nowhere else the same."""
        key = (result.cell, result.attempt)
        if key not in self._news:
            mine = recognise.sighting(result)
            others = list(recognise.from_runs(self._runs, result.cell, _RUNS))
            known = recognise.recognise(mine, others)
            before = [
                each
                for each in others
                if each.cell == result.cell
                and each.run < self._run.name
                and each.status in ("pass", "fail", "error")
            ]
            last = max(before, key=lambda each: (each.started, each.run), default=None)
            green = last is None or last.status == "pass"
            self._news[key] = green and known.kind == "new" and not known.elsewhere
        return self._news[key]

    def _green(self, result: Result, agent: str) -> _Green | None:
        """The last time it passed, on this agent if it ever did."""
        key = (result.cell, agent)
        if key not in self._greens:
            first: _Green | None = None
            for run in self._runs.all()[:_RUNS]:
                if run.name >= self._run.name:
                    continue
                passed = [r for r in run.attempts_of(result.cell) if r.status == "pass"]
                if not passed:
                    continue
                found = _green_of(run, passed[-1])
                if first is None or found.agent == agent:
                    first = found
                if found.agent == agent:
                    break
            self._greens[key] = first
        return self._greens[key]

    # --- what is wanted ---------------------------------------------------------------------

    def _asked(
        self, case: _Case, roster: Roster, state: State, now: dt.datetime
    ) -> tuple[Wanted, ...]:
        ordered = executing.read(self._run.folder / "jobs" / case.job)
        request = roster.request(ordered)
        free = {
            agent.id
            for agent in roster.agents.values()
            if agent.id in state.online
            and roster.works(agent.id, now)
            and not why_not(agent, request, now=now, running=0)
        }
        peers = [
            Peer(agent=name, **_facts(self._run, name)) for name in sorted(free - {case.agent})
        ]
        cannot: tuple[Role, ...] = ("golden-here",) if case.gone or not case.image else ()
        asked = wanted(case.failure, case.controls, case.green, peers, cannot)
        return tuple(
            Wanted(
                cell=case.result.cell,
                control=each,
                like=case.job,
                image=case.image if each.role == "golden-here" else "",
                definition=each.image if each.role == "golden-here" else "",
            )
            for each in asked
            if each.agent in free
        )


def _attributed(case: _Case) -> Attributed:
    found = decide(case.failure, case.controls, case.green)
    more: tuple[str, ...] = ()
    if case.gone:
        more = (f"the last green image was not run: it {_GONE}, and its definition is another",)
    return Attributed(
        cell=case.result.cell,
        attempt=case.result.attempt,
        agent=case.agent,
        verdict=found.verdict,
        left=found.left,
        evidence=(*found.evidence, *more),
        jobs=case.jobs,
    )


def _green_of(run: Run, result: Result) -> _Green:
    agent = result.agent
    with contextlib.suppress(InfrastructureError):
        agent = agent or _where(result, Journal(run.folder / JOURNAL).jobs.values(), run)[1]
    return _Green(result=result, agent=agent, definition=_definition(run, result.cell))


def _as_green(found: _Green | None) -> Trial | None:
    made = trial(found.result, found.agent) if found is not None else None
    return dataclasses.replace(made, image=found.definition) if found and made else None


def _where(result: Result, jobs: Iterable[JobState], run: Run) -> tuple[str, str]:
    """Job and agent of an attempt: the submission of its cell that was taken in last before it."""
    best: tuple[int, str, str] = (-1, "", "")
    for state in jobs:
        if state.aside:
            continue
        cells = {cell.id for cell in executing.read(run.folder / "jobs" / state.job).job.cells}
        for entry in state.collecting.values():
            before = entry.numbers.get(result.cell, 0)
            if result.cell in cells and best[0] < before < result.attempt:
                best = before, state.job, entry.machine
    return best[1], best[2]


def _definition(run: Run, cell: str) -> str:
    """Digest of the definition of the stack that a run's cell ran in; empty: it is not known."""
    for folder in sorted((run.folder / "jobs").glob("*")):
        with contextlib.suppress(InfrastructureError):
            order = executing.read(folder).order
            if cell in order.cells:
                return order.stack_sha256
    return ""


def _facts(run: Run, agent: str) -> dict[str, str]:
    """Driver and hardware of an agent, from what it did in this run; empty: it did nothing."""
    results = [result for result in run.results()[0] if result.agent == agent]
    for folder in sorted((run.folder / "aside").glob(f"*.health.{agent}.*")):
        results += Run(folder, run.name).results()[0]
    made = [found for result in results if result.hardware and (found := trial(result, agent))]
    last = made[-1] if made else None
    return {"driver": last.driver if last else "", "hardware": last.hardware if last else ""}
