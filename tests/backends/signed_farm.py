"""Machines elsewhere that are registered agents: they want warrants, and sign what they send."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.backends.executing import Ordered
from orchestrator.backends.signing import Office, Signing
from orchestrator.fleet import keys
from orchestrator.fleet.identity import Identity
from orchestrator.fleet.models import AgentFile, OrchestratorFile
from tests.backends.farm import Farm
from tests.fleet.forge import agent

REPOSITORY = "https://example.org/lighthouse"
ONE, TWO = "intel-lab-1", "intel-lab-2"


@dataclass
class Lent:
    """Keys of everybody, and who is registered."""

    root: Path
    agents: dict[str, AgentFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Two agents of one pool."""
        self.ours = keys.make(self.root / "ours", "orchestrator")
        for name in (ONE, TWO):
            own = keys.make(self.root / name, name)
            self.agents[name] = agent(name.removeprefix("intel-"), own)

    @property
    def trusted(self) -> OrchestratorFile:
        """Whose jobs are run."""
        keys = ({"key": self.ours.public, "from": dt.date(2026, 11, 1)},)
        return OrchestratorFile.model_validate(
            {"schema": 1, "repositories": (REPOSITORY,), "keys": keys}
        )

    def identity(self, name: str) -> Identity:
        """A machine that is an agent."""
        return Identity(agent=self.agents[name], trusted=self.trusted, state=self.root / name)

    def signing(self, **changed: Any) -> Signing:
        """The dispatcher's side."""
        office = Office(signers=[self.ours], repository=REPOSITORY, commit="c" * 40)
        whole = Signing(
            agents=self.agents,
            backend="buildbot",
            office=office,
            refusals=self.root / "refusals.jsonl",
        )
        return dataclasses.replace(whole, **changed)


@dataclass(kw_only=True)
class SignedFarm(Farm):
    """A backend whose machines are agents."""

    lent: Lent
    who: list[str] = field(default_factory=list)
    """Of the goes, one after the other; then whoever was asked, else `ONE`. Empty: a machine that
    is nobody's."""
    tricks: list[Callable[[Path], object] | None] = field(default_factory=list)
    """What becomes of the file of each go on its way."""
    _me: str = ""

    def begin(self, place: Path, ordered: Ordered) -> bool:
        """As `lh-ci exec` does."""
        self._me = self.who.pop(0) if self.who else self._asked(ordered.order.job)
        if not self._me:
            return True
        me, now = self.lent.identity(self._me), self.engine.time.clock().now()
        return me.begin(place / "job", ordered.order.job, place / "out", now) is None

    def _asked(self, job: str) -> str:
        """Who alone was to take a job; `ONE` where several may."""
        given = [s.parcel.agents for s in self.submissions.values() if s.parcel.job == job][-1]
        return given[0] if given and len(given) == 1 else ONE

    def pack(self, place: Path) -> Path:
        """As `lh-ci pack` does."""
        archive = place / "out.tar.gz"
        if not self._me:
            archive = super().pack(place)
        else:
            (place / "out" / "log.txt").touch()
            now = self.engine.time.clock().now()
            self.lent.identity(self._me).pack(place / "out", archive, now)
        if self.tricks and (trick := self.tricks.pop(0)):
            trick(archive)
        return archive
