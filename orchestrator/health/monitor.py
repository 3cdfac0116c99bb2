"""Looking at GPUs beside a running job, in a thread that may hang without anybody waiting for it.

There is never more than one look under way. A tool that hangs is left behind by its limit; a look
that hangs all the same is evidence itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from orchestrator.health.evidence import Evidence, Vendor
from orchestrator.health.look import Look, Looker

LOOK_EVERY_S = 5.0
STUCK_S = 40.0
"""A look that takes longer is stuck: its programs have limits that are shorter, all together."""
_CLOSE_S = 5.0


class Monitor(Protocol):
    """What follows a job's GPUs."""

    def poll(self, *, thorough: bool = False) -> tuple[Look, ...]:
        """What was found since the last call; starts the next look when it is due. Never blocks.

        `thorough`: a look is due now, and has to ask.
        """

    def wait(self, limit_s: float) -> tuple[Look, ...]:
        """Like `poll`, but blocks for a whole look that begins now, at most `limit_s` seconds."""

    def close(self) -> None:
        """Ends what can be ended."""


class Lookout(Protocol):
    """What a monitor looks with; see `Looker`."""

    def look(self, *, thorough: bool) -> Look:
        """Looks once."""

    def stop(self) -> None:
        """Ends a look early; from any thread."""

    def close(self) -> None:
        """No look is under way, and none will be."""


class ThreadMonitor:
    """A monitor whose looks are taken in threads."""

    def __init__(self, looker: Lookout, monotonic: Callable[[], float]) -> None:
        """Takes a looker for itself alone, and the clock that the looker goes by."""
        self._looker = looker
        self._monotonic = monotonic
        self._found: queue.SimpleQueue[Look] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._began: float | None = None
        self._told = False

    def poll(self, *, thorough: bool = False) -> tuple[Look, ...]:
        """See `Monitor`."""
        looks = self._taken()
        now = self._monotonic()
        if self._under_way():
            return (*looks, *self._stuck(now))
        if thorough or self._began is None or now >= self._began + LOOK_EVERY_S:
            self._start(now, thorough=thorough)
        return looks

    def wait(self, limit_s: float) -> tuple[Look, ...]:
        """See `Monitor`."""
        end = self._monotonic() + limit_s
        self._join(limit_s)
        if not self._under_way():
            self._start(self._monotonic(), thorough=True)
            self._join(end - self._monotonic())
        looks = self._taken()
        return (*looks, *self._stuck(self._monotonic())) if self._under_way() else looks

    def close(self) -> None:
        """See `Monitor`."""
        self._looker.stop()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        if not self._under_way():
            self._looker.close()

    def _under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _join(self, limit_s: float) -> None:
        if self._thread is not None:
            self._thread.join(max(0.0, limit_s))

    def _taken(self) -> tuple[Look, ...]:
        looks = []
        while True:
            try:
                looks.append(self._found.get_nowait())
            except queue.Empty:
                return tuple(looks)

    def _start(self, now: float, *, thorough: bool) -> None:
        self._began, self._told = now, False
        self._thread = threading.Thread(
            target=self._look, args=(thorough,), daemon=True, name="lh-health"
        )
        self._thread.start()

    def _look(self, thorough: bool) -> None:
        self._found.put(self._looker.look(thorough=thorough))

    def _stuck(self, now: float) -> tuple[Look, ...]:
        """One look that stands for the one that does not come back."""
        assert self._began is not None
        if self._told or now < self._began + STUCK_S:
            return ()
        self._told = True
        text = f"looking at the GPUs did not come to an end within {STUCK_S:g} s"
        piece = Evidence(kind="tool", blame="device", text=text, code="stuck")
        return (Look(began=self._began, ended=now, evidence=(piece,), answered=False),)


def open_monitor(vendor: Vendor, monotonic: Callable[[], float]) -> Monitor:
    """A monitor of this machine's GPUs of a vendor; what is logged counts from now on."""
    return ThreadMonitor(Looker(vendor, monotonic), monotonic)
