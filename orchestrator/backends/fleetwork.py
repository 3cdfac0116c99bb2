"""What a run does for its registered agents: who gets what, health jobs, what is noted of them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from orchestrator.backends import handing
from orchestrator.backends.checkups import Checkups
from orchestrator.backends.controls import Controls, Wanted
from orchestrator.backends.executing import Ordered
from orchestrator.backends.handing import Decision
from orchestrator.backends.journal import JobState
from orchestrator.backends.roster import Roster
from orchestrator.backends.underway import Underway
from orchestrator.fleet import health
from orchestrator.fleet.control import Role
from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.fleet.quarantine import NEW, Seen, quarantined
from orchestrator.results.schema import Result
from orchestrator.text import one_line

_ROLES: Mapping[Role, str] = {
    "golden-here": "the last green image",
    "same-there": "the same image",
    "again-here": "the same once more",
}
_NOT_TOLD = {str(Kind.JOB)}
"""A control run that its agent has no image for says nothing about the agent."""


class Fleetwork:
    """The agents of one run's backend."""

    def __init__(
        self,
        roster: Roster,
        checkups: Checkups,
        note: Callable[[str], None],
        controls: Controls | None = None,
    ) -> None:
        """`note` gets a line for people about what becomes of machines.

        `controls`: finds out whose fault failures are; None: nobody does.
        """
        self._roster = roster
        self._checkups = checkups
        self._note = note
        self._controls = controls

    @property
    def roster(self) -> Roster:
        """Who they are, and how they stand."""
        return self._roster

    def serves(self, ordered: Ordered) -> bool:
        """Whether a job is for registered agents."""
        return self._roster.serves(ordered.job.pool)

    def quarantined(self) -> Collection[str]:
        """Agents whose results count for nothing, but for those of health jobs."""
        self._roster.look()
        return quarantined(self._roster.standings)

    def decide(
        self,
        jobs: Mapping[str, Underway],
        connected: Collection[str] | None,
        now: dt.datetime,
        retries: int,
    ) -> Decision:
        """What to do at this moment; see `handing.decide`."""
        self._roster.look()
        return handing.decide(self._roster, jobs, connected, now, retries)

    def checkup(self, agent: str, like: Ordered, folder: Path, now: dt.datetime) -> str:
        """Fills a folder with a health job for an agent; see `Checkups.make`."""
        why = health.owes(self._roster.standings.get(agent, NEW), now)
        self._note(f"{agent}: a health job before anything else: {why}")
        return self._checkups.make(self._roster.agents[agent], like, folder)

    def controls_for(
        self,
        jobs: Mapping[str, JobState],
        connected: Collection[str] | None,
        now: dt.datetime,
    ) -> tuple[Wanted, ...]:
        """Control runs that should be made now; no job of the plan's own is under way."""
        if self._controls is None:
            return ()
        self._roster.look()
        state = handing.standing(self._roster, (), connected)
        found = self._controls.next(self._roster, jobs, state, now)
        for asked in found:
            what = _ROLES[asked.control.role]
            self._note(f"{asked.cell}: a control run on {asked.control.agent}, of {what}")
        return found

    def make_control(self, asked: Wanted, folder: Path) -> None:
        """Fills a folder with the job of a control run."""
        assert self._controls is not None  # who else asked for it
        self._controls.make(asked, folder)

    def ended(
        self, job: Underway, agent: str, go: str, results: Sequence[Result], at: dt.datetime
    ) -> None:
        """Notes what an agent's go came to, once, however often it is called.

        `results`: the last one of each cell.
        """
        if agent not in self._roster.agents:
            return
        if job.state.aside == "health":
            line = self._judged(job, agent, results, at)
        else:
            line = _line(job, agent, results, at)
            if job.state.aside == "control" and line.kind in _NOT_TOLD:
                return
        before = self._roster.standings.get(agent, NEW)
        self._roster.saw(dataclasses.replace(line, go=go))
        after = self._roster.standings.get(agent, NEW)
        if before.quarantined and not after.quarantined:
            self._note(f"{agent} is well: it is given jobs")
        elif after.quarantined and not before.quarantined:
            self._note(f"{agent} is in quarantine: {one_line(after.why, 200)}")

    def _judged(
        self, job: Underway, agent: str, results: Sequence[Result], at: dt.datetime
    ) -> Seen:
        cells = [cell.id for cell in job.ordered.job.cells]
        proven = job.state.planned is not None and bool(job.state.planned.of)
        outcome = health.judge(results, cells, proven=proven)
        others = self._roster.others(agent, job.ordered.job.pool, at)
        return health.seen(agent, job.state.job, outcome, at.isoformat(), others)


def _line(job: Underway, agent: str, results: Sequence[Result], at: dt.datetime) -> Seen:
    """A normal job was missed when any of its cells was; a kind that is the machine's counts."""
    missed = [
        (kind_of(result.phase, result.message, result.evidence), result.message)
        for result in results
        if result.status == "miss"
    ]
    if not missed:
        return Seen(agent=agent, event="worked", at=at.isoformat(), job=job.state.job)
    kind, message = next((each for each in missed if each[0].own), missed[0])
    return Seen(
        agent=agent,
        event="missed",
        at=at.isoformat(),
        job=job.state.job,
        kind=str(kind),
        message=one_line(message, 200),
    )
