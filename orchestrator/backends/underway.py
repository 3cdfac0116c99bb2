"""A job that is under way, and what it waits for."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends.executing import Ordered
from orchestrator.backends.journal import JobState
from orchestrator.fleet.assign import Running, Waiting
from orchestrator.fleet.misses import kind_of
from orchestrator.fleet.retry import Missed, again
from orchestrator.fleet.terms import Request
from orchestrator.results.store import Run


@dataclass(kw_only=True)
class Underway:
    """A job that is not over."""

    ordered: Ordered
    target: Run
    """Where its results go: the run, or a place beside it."""
    priority: int
    state: JobState
    since: float
    """When it was submitted, a machine was last seen at it, or there was last hope for one."""
    waits: bool = False
    """Nobody has it: it is to be given to an agent."""
    taken: bool = False
    """A machine was seen at what was submitted last."""
    said: str = ""
    """Why it waits, as people were told."""

    @property
    def folder(self) -> Path:
        """Of its files."""
        return self.ordered.folder

    @property
    def agent(self) -> str:
        """Who alone has it; empty: nobody, or any machine."""
        return "" if self.waits else self.state.given.get(self.state.ticket, "")

    def running(self) -> Running:
        """As the one who has it is busy with it."""
        return Running(
            job=self.state.job,
            device=self.ordered.job.device,
            health=self.state.aside == "health",
        )

    def spent(self, retries: int) -> bool:
        """Whether it was tried often enough."""
        most = 0 if self.state.aside else retries
        return len(self.state.tried) > most

    def waiting(self, request: Request, retries: int) -> Waiting:
        """As `assign` sees it, after all that was missed so far."""
        state = self.state
        planned = state.planned
        since = dt.datetime.fromisoformat(planned.at) if planned else dt.datetime.now(dt.UTC)
        job = Waiting(
            id=state.job,
            request=request,
            since=since,
            device=self.ordered.job.device,
            priority=self.priority,
            health=state.aside == "health",
            only=state.only,
        )
        for missed in self._misses():
            # those that were the last ones allowed are over, and never asked for here
            job = again(job, missed, retries) or job
        return job

    def _misses(self) -> list[Missed]:
        entries = list(self.state.lost.values())
        found = [(entry.machine, entry.at, entry.message) for entry in entries]
        if (planned := self.state.planned) is not None:
            found = [*((who, planned.at, planned.message) for who in planned.tried), *found]
        return [
            Missed(
                job=self.state.job,
                agent=who,
                kind=kind_of("", message),
                at=dt.datetime.fromisoformat(at),
                message=message,
            )
            for who, at, message in found
        ]
