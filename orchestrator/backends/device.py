"""A job's GPUs, watched from outside while its cells run, and verdicts that depend on them."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass, replace

from orchestrator.backends.clock import Clock
from orchestrator.health.evidence import Evidence, distinct
from orchestrator.health.judge import ON_DEVICE, doubtful, fault, hung, judge
from orchestrator.health.look import Look
from orchestrator.health.monitor import Monitor
from orchestrator.job import Outcome

SETTLE_S = 1.0
"""After a cell's end, for what the kernel still logs about it."""
HOLD_S = 30.0
"""How long a verdict waits for a look that does not come."""
_BUSY = 99
"""Percent: something runs all the time."""
SILENT_S = 45.0
"""A cell that executes, says nothing and keeps its GPU busy for so long is pointed out: with the
time between two questions to a tool, that is within a minute."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a cell ended, with what was seen of its GPU."""

    cell: str
    outcome: Outcome
    ended: float
    evidence: tuple[Evidence, ...] = ()


class DeviceWatch:
    """What is known of one job's GPUs. Verdicts wait here until their cells' end was looked at."""

    def __init__(self, monitor: Monitor, clock: Clock, note: Callable[[str], None]) -> None:
        """Looks from now on, until it is closed. `note` gets a line for people."""
        self._monitor = monitor
        self._clock = clock
        self._note = note
        self._looks: list[Look] = []
        self._executing: dict[str, float] = {}
        self._busy_since: float | None = None
        self._gauged = 0.0
        self._pointed_out: set[str] = set()
        self._held: collections.deque[Verdict] = collections.deque()
        self.fault: Evidence | None = None
        """What the job has to be ended for."""
        self.doubt: str = ""
        """A cell that ended in a way that a sick GPU could be the cause of."""

    def began(self, cell: str, stage: str, now: float) -> None:
        """A cell entered a stage."""
        if stage == ON_DEVICE[0]:
            self._executing[cell] = now

    def poll(self, now: float) -> None:
        """Takes what was found. Never blocks."""
        due = bool(self._held) and now >= self._held[-1].ended + SETTLE_S
        self._take(self._monitor.poll(thorough=due and not self._looked_at(self._held[-1])))
        self._point_out_silence(now)

    def hold(self, cell: str, outcome: Outcome, now: float) -> bool:
        """Keeps a verdict back if the device may have had a part in it."""
        if outcome.status == "pass" or outcome.phase not in ON_DEVICE:
            self._executing.pop(cell, None)
            return False
        # a look that comes later finds the GPU idle
        evidence = self._load(cell, now) if hung(outcome) else ()
        self._held.append(Verdict(cell=cell, outcome=outcome, ended=now, evidence=evidence))
        if doubtful(outcome):
            self.doubt = self.doubt or cell
        return True

    def ripe(self, now: float) -> list[Verdict]:
        """Verdicts whose end has been looked at, or that have waited long enough."""
        ready = []
        while self._held and (
            self._looked_at(self._held[0]) or now >= self._held[0].ended + HOLD_S
        ):
            ready.append(self._judged(self._held.popleft()))
        return ready

    def settle(self) -> list[Verdict]:
        """All verdicts that are left, after one more look for them; the job has ended."""
        if self._held:
            end = self._held[-1].ended + SETTLE_S
            self._clock.sleep(max(0.0, end - self._clock.monotonic()))
            self._take(self._monitor.wait(HOLD_S))
        return [self._judged(self._held.popleft()) for _ in range(len(self._held))]

    def evidence(self, cell: str) -> tuple[Evidence, ...]:
        """What has been seen since a cell began to execute."""
        start = self._executing.get(cell)
        return distinct(
            piece
            for look in self._looks
            for piece in look.evidence
            if piece.kind == "unreadable" or (start is not None and look.began >= start)
        )

    def close(self) -> None:
        """Stops looking."""
        self._monitor.close()

    def _looked_at(self, verdict: Verdict) -> bool:
        return any(look.began >= verdict.ended + SETTLE_S for look in self._looks[-3:])

    def _take(self, looks: tuple[Look, ...]) -> None:
        for look in looks:
            self._looks.append(look)
            if look.gauges:
                busy = any((gauge.busy or 0) >= _BUSY for gauge in look.gauges)
                self._busy_since = (self._busy_since or look.began) if busy else None
                self._gauged = look.began
        if self.fault is None:
            # of two looks: what a program did may stand in the one before
            self.fault = fault([piece for look in self._looks[-2:] for piece in look.evidence])

    def _judged(self, verdict: Verdict) -> Verdict:
        evidence = distinct([*self.evidence(verdict.cell), *verdict.evidence])
        outcome = judge(verdict.outcome, evidence, verdict.cell)
        self._executing.pop(verdict.cell, None)
        return replace(verdict, outcome=outcome, evidence=evidence)

    def _load(self, cell: str, now: float) -> tuple[Evidence, ...]:
        """What the GPUs did while a cell executed, as far as a tool said."""
        if self._gauged < self._executing.get(cell, now):
            return ()
        text = "no GPU was busy: the host's code or the driver waited"
        if self._busy_since is not None:
            text = f"a GPU was busy for the last {now - self._busy_since:.0f} s at least"
        return (Evidence(kind="busy", blame="nobody", text=text),)

    def _point_out_silence(self, now: float) -> None:
        if self._busy_since is None or now < self._busy_since + SILENT_S:
            return
        held = {verdict.cell for verdict in self._held}
        for cell in set(self._executing) - held - self._pointed_out:
            if now >= self._executing[cell] + SILENT_S:
                self._pointed_out.add(cell)
                self._note(
                    f"{cell}: a GPU has been busy for {now - self._busy_since:.0f} s while it "
                    "executes: a hang, or long work. Its deadline decides"
                )
