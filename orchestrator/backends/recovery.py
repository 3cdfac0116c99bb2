"""GPUs that were found sick: no job uses them again before they have answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.backends.clock import Clock
from orchestrator.health.evidence import Evidence, Vendor
from orchestrator.health.judge import SEEN, fault
from orchestrator.health.monitor import Monitor

Monitors = Callable[[Vendor], Monitor]
"""Opens a monitor of this machine's GPUs of a vendor."""

WAIT_S = 60.0
"""For a GPU to come back: a reset takes seconds, and what takes longer needs a person."""
_LOOK_S = 30.0
_PAUSE_S = 5.0
NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


@dataclass(kw_only=True)
class _Case:
    why: str
    proof: bool
    """Only an answer counts: silence of the kernel log says nothing about a GPU that is gone."""
    given_up: bool = False


class Recovery:
    """Which vendor's GPUs have to prove that they are well."""

    def __init__(
        self, monitors: Monitors, clock: Clock, note: Callable[[str], None], wait_s: float = WAIT_S
    ) -> None:
        """`note` gets a line for people; `wait_s` is how long a GPU is waited for, once."""
        self._monitors = monitors
        self._clock = clock
        self._note = note
        self._wait_s = wait_s
        self._cases: dict[Vendor, _Case] = {}

    def report(self, vendor: Vendor, found: Evidence | None, doubt: str) -> None:
        """After a job: what was wrong with its GPUs, or the cell that puts them in doubt."""
        if found is not None:
            why = f"{SEEN}: {found.text}"
            self._cases[vendor] = _Case(why=why, proof=found.kind == "lost")
        elif doubt:
            why = f"{doubt}, which hung, or met a fault of driver or device"
            self._cases[vendor] = _Case(why=why, proof=False)

    def refusal(self, vendor: Vendor) -> str:
        """Why no job can use these GPUs, after waiting for them; empty when one can."""
        case = self._cases.get(vendor)
        if case is None:
            return ""
        began = self._clock.monotonic()
        if not case.given_up:
            self._note(f"waiting for the {NAMES[vendor]} GPU to answer, after: {case.why}")
        if self._comes_back(vendor, case, began):
            took = self._clock.monotonic() - began
            self._note(f"the {NAMES[vendor]} GPU answers again ({took:.0f} s)")
            del self._cases[vendor]
            return ""
        case.given_up = True
        return (
            f"the device did not come back: the {NAMES[vendor]} GPU was waited for "
            f"{self._wait_s:g} s, after: {case.why}"
        )

    def _comes_back(self, vendor: Vendor, case: _Case, began: float) -> bool:
        """Whether it answers; waits for that unless it was waited for before."""
        monitor = self._monitors(vendor)
        try:
            while not _well(monitor, case):
                if case.given_up or self._clock.monotonic() >= began + self._wait_s:
                    return False
                self._clock.sleep(_PAUSE_S)
        finally:
            monitor.close()
        return True


def _well(monitor: Monitor, case: _Case) -> bool:
    looks = monitor.wait(_LOOK_S)
    if not looks or fault([piece for look in looks for piece in look.evidence]):
        return False
    return bool(looks[-1].answered) or (looks[-1].answered is None and not case.proof)
