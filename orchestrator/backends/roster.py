"""Which registered agent may take a job now, and which never may, and why.

Owners' terms are in `agents/*.yaml`; what is known of each machine is made from the journal of
agents alone, to which every end of a job on one of them adds a line, once. Owners are told by lines
of a second journal. Both belong to the workspace: several runs may go on in it at a time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.backends.executing import Ordered
from orchestrator.engines.locks import exclusive
from orchestrator.fleet import notices, quarantine
from orchestrator.fleet.assign import State, Waiting
from orchestrator.fleet.health import EVERY, owes
from orchestrator.fleet.models import AgentFile
from orchestrator.fleet.notices import Notice, notice
from orchestrator.fleet.quarantine import NEW, Seen, Standing, after, standings
from orchestrator.fleet.terms import Request, closed, never
from orchestrator.results.files import tree_bytes
from orchestrator.results.lines import Lines
from orchestrator.text import one_line

_BACK_BYTES = 512 << 20
"""What a job's results may be; see `fleet.archive.Limits`."""

Cause = Literal["never", "away", "sick", "owes", "hours", "busy"]
"""Why an agent is not given a job. The first two and what follows them are for people to change."""
HOPEFUL: frozenset[Cause] = frozenset({"hours", "busy"})
"""Causes that end by themselves."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """What is run, as far as owners have a say in it."""

    branch: str
    commit: str
    fork: bool = False
    approved: bool = False
    """A maintainer approved this commit of a fork."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why one agent is not given a job."""

    agent: str
    cause: Cause
    text: str


class Roster:
    """The agents of a run's backend, and how they stand."""

    def __init__(self, agents: Mapping[str, AgentFile], state: Path, code: Code) -> None:
        """Reads the journal.

        Args:
            agents: those that take their jobs from this backend, by id.
            state: the workspace's state folder.
            code: what the run runs.

        Raises:
            InfrastructureError: the journal is damaged.
        """
        self.agents = agents
        self.code = code
        self._lines = Lines(state / quarantine.JOURNAL, Seen)
        self._notices = Lines(state / notices.JOURNAL, Notice)
        self._size = -1
        self._journal: tuple[Seen, ...] = ()
        self.standings: Mapping[str, Standing] = {}
        """As of the last `look`; agents that are not in it are `quarantine.NEW`."""
        self.look()

    def look(self) -> None:
        """Reads what was added to the journal, by whomever."""
        path = self._lines.path
        size = path.stat().st_size if path.exists() else 0
        if size != self._size:
            self._size = size
            self._journal = tuple(self._lines.read())
            self.standings = standings(self._journal)

    def serves(self, pool: str) -> bool:
        """Whether any agent is registered for a pool: else its jobs are for whoever is there."""
        return any(pool in agent.pools for agent in self.agents.values())

    def request(self, ordered: Ordered) -> Request:
        """What a job asks of an agent.

        Its longest time is that of all cells' deadlines, one after the other, without that of
        making a stack's image, which happens once.
        """
        job, code = ordered.job, self.code
        return Request(
            pool=job.pool,
            pipelines=tuple(dict.fromkeys(cell.pipeline for cell in job.cells)),
            branch=code.branch,
            commit=code.commit,
            fork=code.fork,
            approved=code.approved,
            disk_bytes=tree_bytes(ordered.folder) + _BACK_BYTES,
            seconds=sum(cell.timeout_s for cell in job.cells),
        )

    def able(self, request: Request) -> tuple[AgentFile, ...]:
        """Agents whose owners would have them take a job, now or later."""
        return tuple(a for a in self.agents.values() if not any(never(a, request)))

    def works(self, agent: str, now: dt.datetime) -> bool:
        """Whether an agent may be given normal jobs, as far as it is known to be well."""
        standing = self.standings.get(agent, NEW)
        return not (owes(standing, now) or standing.quarantined or standing.rests(now))

    def saw(self, seen: Seen) -> None:
        """Adds what an agent's go at a job came to, and what its owner is told; once.

        Raises:
            InfrastructureError: a journal cannot be written, or is damaged.
        """
        lock = self._lines.path.with_suffix(".lock")
        with exclusive(lock, "the journal of agents", lambda _: None):
            self.look()
            known = next((each for each in self._journal if _same(each, seen)), None)
            if known is None:
                self._lines.add(seen)
                self.look()
            self._tell(known or seen)

    def others(self, agent: str, pool: str, now: dt.datetime) -> list[Seen]:
        """What health jobs of a pool's other agents came to in the last day."""
        since = now - EVERY
        return [
            line
            for line in self._journal
            if line.agent != agent
            and line.event in ("healthy", "sick")
            and line.agent in self.agents
            and pool in self.agents[line.agent].pools
            and dt.datetime.fromisoformat(line.at) >= since
        ]

    def refusals(self, job: Waiting, state: State, now: dt.datetime) -> tuple[Refusal, ...]:
        """Why each agent of a job's pool is not given it; an agent that could be is left out."""
        return tuple(
            refusal
            for agent in self.agents.values()
            if job.request.pool in agent.pools and job.only in ("", agent.id)
            for refusal in self._against(agent, job, state, now)
        )

    def _against(
        self, agent: AgentFile, job: Waiting, state: State, now: dt.datetime
    ) -> Iterator[Refusal]:
        standing = self.standings.get(agent.id, NEW)
        cause: Cause
        if why := next(never(agent, job.request), ""):
            cause, text = "never", f"{agent.id}: {why}"
        elif agent.id not in state.online:
            cause, text = "away", f"{agent.id} is not connected"
        elif closed(agent, now):
            cause, text = "hours", f"{agent.id} takes jobs at {', '.join(agent.terms.hours)} UTC"
        elif standing.quarantined:
            cause, text = "sick", f"{agent.id} is in quarantine: {one_line(standing.why, 120)}"
        elif why := owes(standing, now):
            cause, text = "owes", f"{agent.id} has to pass a health job first: {why}"
        elif len(state.running.get(agent.id, ())) >= agent.terms.jobs:
            cause, text = "busy", f"{agent.id} has as many jobs as its owner allows"
        else:
            return
        yield Refusal(agent=agent.id, cause=cause, text=text)

    def _tell(self, line: Seen) -> None:
        """The owner, if this line of the journal is news; again changes nothing."""
        agent = self.agents.get(line.agent)
        if agent is None:
            return
        before = NEW
        for each in self._journal:
            if _same(each, line):
                break
            if each.agent == line.agent:
                before = after(before, each)
        made = notice(agent, before, after(before, line), line)
        if made is None:
            return
        told = {(each.agent, each.at, each.subject) for each in self._notices.read()}
        if (made.agent, made.at, made.subject) not in told:
            self._notices.add(made)


def _same(one: Seen, other: Seen) -> bool:
    """Whether both tell of the same go."""
    return bool(one.go) and (one.agent, one.job, one.go) == (other.agent, other.job, other.go)


def online(agents: Mapping[str, AgentFile], connected: Collection[str] | None) -> frozenset[str]:
    """The agents that can be given something; those that cannot be seen are taken to be there."""
    return frozenset(agents) if connected is None else frozenset(agents) & frozenset(connected)
