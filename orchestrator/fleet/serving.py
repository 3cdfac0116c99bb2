"""Whose machines a plan is for: registered agents, machines that a service hosts, or any. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from orchestrator.config.models import GpuPool, Pool
from orchestrator.fleet.models import AgentFile, BackendName
from orchestrator.plan import PlannedCell, fixed_chips

Machines = Literal["any", "registered", "hosted", "both"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runnable cells that the same machines take."""

    cells: tuple[PlannedCell, ...]
    agents: tuple[AgentFile, ...]
    """Who takes them; empty: hosted, or any."""
    whole: bool
    """Whether they are all agents of their pool, so that its name is enough to find them."""
    hosted: bool = False
    """For machines that the service hosts."""


class AnyMachines:
    """As if there were a machine for every pool. See `plan.Serving`."""

    def __init__(self, agents: Mapping[str, AgentFile]) -> None:
        """`agents` that are registered tell the chips of pools that name none."""
        self._agents = agents

    def refusal(self, name: str, pool: Pool) -> str:
        """Only chips can be missing."""
        if pool.gpu is not None and not self.chips(name, pool.gpu):
            return f"no registered agent of pool {name} says which chip its GPU has"
        return ""

    def chips(self, name: str, gpu: GpuPool) -> tuple[str, ...]:
        """As the pool says, else every chip of its agents."""
        there = [agent for agent in self._agents.values() if name in agent.pools]
        return fixed_chips(gpu) or tuple(dict.fromkeys(c for agent in there for c in agent.chips))

    def judged(self, cells: Iterable[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells, those with a reason that nobody would take."""
        return tuple(cells)

    def groups(self, cells: Iterable[PlannedCell]) -> tuple[Group, ...]:
        """All runnable cells."""
        return (Group(cells=tuple(c for c in cells if c.runnable), agents=(), whole=True),)


class HostedMachines(AnyMachines):
    """Machines that a service hosts: any x86-64 CPU, whoever made it, and no GPU."""

    def __init__(self) -> None:
        """Knows no agents."""
        super().__init__({})

    def refusal(self, name: str, pool: Pool) -> str:
        """Pools that need no hardware of their own are served."""
        if pool.arch or pool.cpu_vendor or pool.gpu is None:
            return f"pool {name} needs a CPU of its kind, and hosted machines have any"
        if pool.gpu.device not in ("software", "none"):
            return f"pool {name} needs a GPU, and hosted machines have none"
        return super().refusal(name, pool)

    def groups(self, cells: Iterable[PlannedCell]) -> tuple[Group, ...]:
        """All runnable cells."""
        return tuple(dataclasses.replace(group, hosted=True) for group in super().groups(cells))


class RegisteredMachines(AnyMachines):
    """Registered agents, on their owners' terms."""

    def __init__(
        self, agents: Mapping[str, AgentFile], backend: BackendName | None, branch: str
    ) -> None:
        """`backend`: None: whichever. `branch`: of the code that is to be run."""
        super().__init__({n: a for n, a in agents.items() if backend in (None, a.backend)})
        self._backend = backend
        self._branch = branch
        self._takers: dict[tuple[str, str], tuple[AgentFile, ...]] = {}

    def refusal(self, name: str, pool: Pool) -> str:
        """Somebody has to be there who takes this branch."""
        there = self.serving(name)
        if not there:
            which = f" with backend {self._backend}" if self._backend else ""
            return f"no agent is registered for pool {name}{which}"
        if not any(_matches(self._branch, agent.terms.branches) for agent in there):
            return f"no agent of pool {name} runs branch {self._branch}"
        return super().refusal(name, pool)

    def serving(self, pool: str) -> tuple[AgentFile, ...]:
        """All agents of a pool."""
        return tuple(agent for agent in self._agents.values() if pool in agent.pools)

    def takers_of_all(self, pool: str, pipelines: Iterable[str]) -> tuple[AgentFile, ...]:
        """Who takes cells of every one of these, the highest priority first."""
        sets = [self.takers(pool, pipeline) for pipeline in pipelines]
        return tuple(agent for agent in sets[0] if all(agent in each for each in sets))

    def takers(self, pool: str, pipeline: str) -> tuple[AgentFile, ...]:
        """Who takes a pipeline's cells, the highest priority first."""
        key = (pool, pipeline)
        if key not in self._takers:
            found = [
                agent
                for agent in self.serving(pool)
                if _matches(pipeline, agent.terms.pipelines)
                and _matches(self._branch, agent.terms.branches)
            ]
            found.sort(key=lambda agent: (-agent.terms.priority, agent.id))
            self._takers[key] = tuple(found)
        return self._takers[key]

    def judged(self, cells: Iterable[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells, those with a reason that nobody would take."""
        return tuple(
            dataclasses.replace(
                planned,
                runnable=False,
                reason=f"no agent of pool {planned.cell.pool} runs {planned.cell.pipeline}",
            )
            if planned.runnable and not self.takers(planned.cell.pool, planned.cell.pipeline)
            else planned
            for planned in cells
        )

    def groups(self, cells: Iterable[PlannedCell]) -> tuple[Group, ...]:
        """Runnable cells by pool and takers, as `judged` left them."""
        found: dict[tuple[str, tuple[str, ...]], list[PlannedCell]] = {}
        known: dict[tuple[str, str], tuple[str, ...]] = {}
        for planned in cells:
            key = (planned.cell.pool, planned.cell.pipeline)
            if key not in known:
                known[key] = tuple(agent.id for agent in self.takers(*key))
            if planned.runnable:
                found.setdefault((key[0], known[key]), []).append(planned)
        return tuple(
            Group(
                cells=tuple(group),
                agents=tuple(self._agents[agent] for agent in agents),
                whole=set(agents) == {n for n, a in self._agents.items() if pool in a.pools},
            )
            for (pool, agents), group in found.items()
        )


class BothMachines(AnyMachines):
    """Registered agents, and what the service hosts for pools that have none of them."""

    def __init__(self, registered: RegisteredMachines) -> None:
        """`registered`: come first."""
        super().__init__({})
        self._registered = registered
        self._hosted = HostedMachines()
        self._theirs: dict[str, bool] = {}

    def refusal(self, name: str, pool: Pool) -> str:
        """Why neither serves it."""
        why = self._registered.refusal(name, pool)
        self._theirs[name] = bool(why) and not self._hosted.refusal(name, pool)
        return "" if self._theirs[name] else why

    def serving(self, pool: str) -> tuple[AgentFile, ...]:
        """All agents of a pool."""
        return self._registered.serving(pool)

    def chips(self, name: str, gpu: GpuPool) -> tuple[str, ...]:
        """Hosted machines have none of their own."""
        return self._registered.chips(name, gpu)

    def judged(self, cells: Iterable[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells, those with a reason that nobody would take."""
        return tuple(
            planned if self._theirs.get(planned.cell.pool) else judged
            for planned in cells
            for judged in self._registered.judged([planned])
        )

    def groups(self, cells: Iterable[PlannedCell]) -> tuple[Group, ...]:
        """Registered agents' first."""
        every = tuple(cells)
        hosted = [c for c in every if self._theirs.get(c.cell.pool)]
        own = [c for c in every if not self._theirs.get(c.cell.pool)]
        return (*self._registered.groups(own), *self._hosted.groups(hosted))


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)
