"""The machine at hand, with processes."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

from orchestrator.backends.base import Backend
from orchestrator.backends.local_machine import LocalMachine
from orchestrator.backends.local_places import Place, group_of
from tests.backends.conformance.bench import BusyBench, until
from tests.backends.farm import HOST


@dataclass
class LocalBench(BusyBench):
    """See `Bench`."""

    swept: list[str] = field(default_factory=list)

    def client(self) -> Backend:
        """See `Bench`."""
        return LocalMachine(
            self.folder / "machine",
            machine="box",
            host=HOST,
            environ={"PATH": os.environ["PATH"]},
            sweep=lambda: self.swept.append("swept"),
            program=self.program(),
        )

    def nudge(self) -> None:
        """See `StubBench`."""
        self.client().watch([])

    def lose(self, job: str) -> None:
        """SIGKILL to everything, as when memory runs out."""
        self.drop(job)
        place = Place(folder=self.folder / "machine" / job)
        os.killpg(group_of(place), signal.SIGKILL)
        until(lambda: not place.alive(), "processes to end")
