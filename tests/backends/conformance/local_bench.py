"""The machine at hand, with processes."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

from orchestrator.backends.base import Backend, Parcel
from orchestrator.backends.local_machine import GO, LocalMachine
from orchestrator.backends.local_places import Place, group_of
from tests.backends.conformance.bench import StubBench, until
from tests.backends.farm import HOST


@dataclass
class LocalBench(StubBench):
    """See `Bench`."""

    blocker: Parcel | None = None
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

    def hold(self) -> None:
        """It has something to do."""
        self.blocker = self.parcel("blocker")
        self.client().submit(self.blocker)

    def free(self) -> None:
        """See `Bench`."""
        assert self.blocker is not None
        self.end(self.blocker.job)
        self.ended(self.blocker.key)

    def lose(self, job: str) -> None:
        """SIGKILL to everything, as when memory runs out."""
        self.drop(job)
        place = Place(folder=self.folder / "machine" / job)
        os.killpg(group_of(place), signal.SIGKILL)
        until(lambda: not place.alive(), "processes to end")

    def script(self) -> str:
        """See `Bench`."""
        return GO
