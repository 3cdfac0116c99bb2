"""What becomes of a job that was missed: once more, at most twice, on a peer first. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass

from orchestrator.fleet.assign import Waiting
from orchestrator.fleet.misses import Kind
from orchestrator.fleet.quarantine import Seen

RETRIES = 2
PAUSES = (dt.timedelta(minutes=5), dt.timedelta(minutes=20))
"""After a miss that ends by itself, such as a registry that is down: three tries within a minute
would all end like the first."""


@dataclass(frozen=True, kw_only=True)
class Missed:
    """One agent's go at a job, of which nothing came."""

    job: str
    agent: str
    kind: Kind
    at: dt.datetime
    """UTC."""
    message: str

    def seen(self) -> Seen:
        """What the journal of agents gets to know of it."""
        return Seen(
            agent=self.agent,
            event="missed",
            at=self.at.isoformat(),
            job=self.job,
            kind=str(self.kind),
            message=self.message,
        )


def again(job: Waiting, missed: Missed, retries: int = RETRIES) -> Waiting | None:
    """The job, to be queued once more; None: it was tried often enough, and stays a `miss`.

    A health job is not tried again: that it was missed is its outcome.
    """
    if job.health or len(job.tried) >= retries:
        return None
    pause = PAUSES[min(len(job.tried), len(PAUSES) - 1)] if missed.kind is Kind.PULL else None
    return dataclasses.replace(
        job,
        missed=missed.at,
        tried=(*job.tried, missed.agent),
        not_before=missed.at + pause if pause else None,
    )
