"""Jobs to machines elsewhere and their results back, whatever happens on the way.

Everything is told to the journal before it is done, and can be done again: a dispatcher that is
killed at any moment loses nothing, and nothing runs twice into the record.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Collection, Mapping

from orchestrator.backends.carrying import WORK, Carrier, Pace
from orchestrator.backends.handing import Held
from orchestrator.backends.underway import Underway

__all__ = ["Dispatcher", "Pace"]


class Dispatcher(Carrier):
    """One run's jobs, under way."""

    def open_cells(self) -> frozenset[str]:
        """Cells of jobs that an earlier dispatcher left under way."""
        return frozenset(
            cell.id
            for state in self._journal.open_jobs()
            if not state.aside
            for cell in self._read(state.job).job.cells
        )

    def plan(self, job: str) -> None:
        """Takes on a job whose folder is in the run's `jobs`."""
        self._tell("planned", job)

    def go(self, priorities: Mapping[str, int]) -> None:
        """Until every job is over. `priorities`: by tier; a job has that of its best cell.

        Raises:
            InfrastructureError: nobody answers, or the record cannot be written.
            UsageError: the backend refuses us.
        """
        self._priorities = priorities
        for state in self._journal.open_jobs():
            self._take_up(state)
        pause = self._pace.first_s
        while True:
            if self._is_quiet() and not self._control():
                self._wind_down()
            if not self._open:
                break
            # looked at first: what a machine has begun is not taken back from it
            changed = self._round()
            changed |= self._hand_out()
            if self._enough is not None and self._enough(self.results):
                self._stop("a core cell is red, and the first one was to be the last")
                break
            pause = self._pace.first_s if changed else min(2 * pause, self._pace.most_s)
            if self._open:
                self._clock.sleep(pause)
        shutil.rmtree(self._run.folder / WORK, ignore_errors=True)

    def _round(self) -> bool:
        """Looks at all jobs once; whether anything changed."""
        there = [job.state.ticket for job in self._open.values() if not job.waits]
        sights = self._backend.watch(there) if there else {}
        changed = False
        for job in list(self._open.values()):
            if not job.waits and (sight := sights.get(job.state.ticket)) is not None:
                changed |= self._look(job, sight)
        return changed

    def _stop(self, why: str) -> None:
        for job in list(self._open.values()):
            self._give_up(job, why)

    def _hand_out(self) -> bool:
        """Gives waiting jobs to agents; whether anything changed."""
        if self._fleet is None or not any(
            job.waits or not job.taken for job in self._open.values()
        ):
            return False
        now = self._clock.now()
        made = self._fleet.decide(self._open, self._connected(), now, self._retries)
        for name in made.withdraw:
            self._withdraw(self._open[name], "its agent cannot take it any more")
        for each in made.submit:
            self._submit(self._open[each.job], each.agent)
        for agent, like in made.checkups.items():
            self._check(agent, self._open[like], now)
        for held in made.held:
            self._hold(self._open[held.job], held)
        return bool(made.withdraw or made.submit or made.checkups)

    def _connected(self) -> Collection[str] | None:
        """Agents that are there; one that leaves a job alone for long is taken to be away."""
        found, now = self._backend.online(), self._clock.monotonic()
        if found is not None or self._fleet is None:
            return found
        for job in self._open.values():
            if job.agent and not job.taken and now > job.since + self._pace.untaken_s:
                self._away[job.agent] = now + self._pace.untaken_s
        gone = {agent for agent, until in self._away.items() if now < until}
        return set(self._fleet.roster.agents) - gone

    def _check(self, agent: str, like: Underway, now: dt.datetime) -> None:
        """Plans a health job."""
        assert self._fleet is not None  # who else decided so
        mine = sum(each.aside == "health" and each.only == agent for each in self._jobs())
        folder = self._run.folder / "jobs" / f"{self._run.name}.health.{agent}.{mine + 1}"
        proof = self._fleet.checkup(agent, like.ordered, folder, now)
        self._tell("planned", folder.name, aside="health", machine=agent, of=proof)
        self._take_up(self._journal.jobs[folder.name])

    def _hold(self, job: Underway, held: Held) -> None:
        """A job that nobody can be given now: says why, once, and gives up in the end."""
        if held.hope:
            job.since = self._clock.monotonic()
        if held.never:
            self._unclaimed(job, f"and none will: {held.why}")
        elif self._overdue(job):
            hours = self._pace.unclaimed_s / 3600
            self._unclaimed(job, f"within {hours:g} h: {held.why or 'none may'}")
        elif held.why and held.why != job.said and not job.state.aside:
            job.said = held.why
            self._reporter.note(f"job {job.state.job} waits: {held.why}")

    def _wind_down(self) -> None:
        """Health jobs alone are left: those that have begun may end, for a while."""
        now = self._clock.monotonic()
        if self._quiet is None:
            self._quiet = now
        for job in list(self._open.values()):
            if not job.taken or now > self._quiet + self._pace.aside_s:
                self._give_up(job, "there is nothing else left to do")

    # --- what is none of the plan's ---------------------------------------------------------

    def _is_quiet(self) -> bool:
        """Whether health jobs alone are under way, or nothing."""
        return all(job.state.aside == "health" for job in self._open.values())

    def _control(self) -> bool:
        """Plans the control runs that would tell more, once no other job is left; whether any."""
        over = sum(state.over for state in self._jobs())
        if self._fleet is None or over == self._looked:
            return False
        self._looked = over
        found = self._fleet.controls_for(self._journal.jobs, self._connected(), self._clock.now())
        for asked in found:
            number = 1 + sum(each.aside == "control" for each in self._jobs())
            folder = self._run.folder / "jobs" / f"{self._run.name}.control.{number}"
            self._fleet.make_control(asked, folder)
            who = asked.control.agent
            self._tell("planned", folder.name, aside="control", machine=who, of=asked.cell)
            self._take_up(self._journal.jobs[folder.name])
        return bool(found)
