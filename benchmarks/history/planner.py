"""What happens when: drawn night by night, so that a longer year begins as a shorter one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.history import draws, pins
from benchmarks.history.calendar import QUIET
from benchmarks.history.events import Event, Kind
from benchmarks.history.fleet import Agent
from benchmarks.history.texts import CAUSES, GPU_CAUSES
from benchmarks.history.world import DARK_POOLS, LONE_POOL, Flags, World

_REST = 25
"""Nights for which a cell is left alone after something happened to it."""
_NEVER = 1 << 40
_FULL_SIZE = 7000
"""Series for which the rates of what happens to cells are given."""


@dataclass(frozen=True, kw_only=True)
class Happening:
    """An event by numbers of nights and cells."""

    start: int
    end: int | None = None
    """The first night on which it holds no more; None: it stays."""
    cells: tuple[int, ...] = ()
    event: Event
    """Its dates and cells are filled in when it is written down."""
    key: str = ""
    """Of what changed: a package, a fact of hardware."""
    value: str = ""
    """What it is afterwards."""


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """When something is planted."""

    first: tuple[int, ...]
    """Nights on which it surely is."""
    rate: float
    """How often, each night, after the quiet beginning."""
    by_size: bool
    """The rate is for a full-sized matrix."""


_RULES: Mapping[str, _Rule] = {
    "pins": _Rule(first=(5, 12), rate=0.06, by_size=False),
    "recipe": _Rule(first=(7,), rate=0.05, by_size=False),
    "workload": _Rule(first=(9, 10), rate=0.25, by_size=True),
    "step": _Rule(first=(19, 20, 22), rate=0.35, by_size=True),
    "drift": _Rule(first=(6,), rate=0.06, by_size=True),
    "spike": _Rule(first=(16,), rate=0.5, by_size=True),
    "flaky": _Rule(first=(8,), rate=0.2, by_size=True),
    "vanished": _Rule(first=(18,), rate=0.05, by_size=True),
    "retried": _Rule(first=(4,), rate=1.4, by_size=True),
    "sick-agent": _Rule(first=(13,), rate=0.05, by_size=False),
    "driver": _Rule(first=(11,), rate=0.08, by_size=False),
}
_WITH_REGRESSION = ("pins:12", "recipe:7", "workload:9", "workload:10")
_EXPECTED = "workload:10"
"""The regression that somebody declares an expected failure."""

_BEARABLE = 10
"""Cells whose regression somebody may leave as it is, or declare expected."""
_MOST_AT_ONCE = 150


class Planner:
    """Draws what happens; asked for a night, it has drawn all nights before."""

    def __init__(self, world: World) -> None:
        """Settles what is known beforehand: what becomes of known failures, workloads, pools."""
        self._world = world
        self._next = 0
        self._free = np.where(world.calm, 0, _NEVER)
        self._sick: dict[str, int] = {}
        self._hardware = {
            agent.key: dict(agent.hardware) for pool in world.agents for agent in pool
        }
        self._pins_now = pins.Pins(world.matrix.declared, world.calendar.start)
        self._due: dict[int, list[tuple[str, str]]] = {}
        """By night: what of which stack is rolled on, to mend what an earlier roll broke."""
        self.happenings: list[Happening] = list(_settled(world))

    def upto(self, night: int) -> list[tuple[int, Happening]]:
        """All that begins on or before a night, each with a number of its own."""
        while self._next <= night:
            for stack, package in self._due.pop(self._next, []):
                self.happenings.append(self._roll(self._next, stack, package))
            if self._world.calendar.sort(self._next) == "full":
                self._draw(self._next)
            self._next += 1
        return [pair for pair in enumerate(self.happenings) if pair[1].start <= night]

    def _draw(self, night: int) -> None:
        makers: Mapping[str, Callable[[int, np.random.Generator, bool], Iterator[Happening]]] = {
            "pins": self._pins,
            "recipe": self._recipe,
            "workload": self._workload,
            "step": self._step,
            "drift": self._drift,
            "spike": self._spike,
            "flaky": self._flaky,
            "vanished": self._vanished,
            "retried": self._retried,
            "sick-agent": self._sick_agent,
            "driver": self._driver,
        }
        for name, rule in _RULES.items():
            rng = draws.rng(self._world.parameters.seed, "plan", name, night)
            surely = night in rule.first
            for number in range(self._count(rule, night, rng) + surely):
                first = surely and number == 0
                self.happenings += makers[name](night, rng, first)

    def _count(self, rule: _Rule, night: int, rng: np.random.Generator) -> int:
        if night <= QUIET:
            return 0
        parameters = self._world.parameters
        size = parameters.series / _FULL_SIZE if rule.by_size else 1.0
        return int(rng.poisson(rule.rate * parameters.density * size))

    def _take(
        self, rng: np.random.Generator, among: Flags, count: int, night: int, end: int | None
    ) -> tuple[int, ...]:
        """Free cells for something that lasts until `end`; as many as there are."""
        free = np.flatnonzero(among & (self._free <= night))
        chosen = rng.permutation(free)[:count]
        self._free[chosen] = _NEVER if end is None else end + _REST
        return tuple(sorted(int(cell) for cell in chosen))

    def _lasting(
        self, night: int, rng: np.random.Generator, least: int, mean: float, forever: float = 0.0
    ) -> int | None:
        """When something ends; `forever`: how likely never."""
        if rng.random() < forever:
            return None
        return self._world.calendar.full(night + least + int(min(rng.exponential(mean), 4 * mean)))

    # --- what people change, and what breaks by it --------------------------------------------

    def _pins(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:
        stack, package = self._pins_now.draw(rng)
        cause = self._roll(night, stack, package)
        yield cause
        among = self._where(lambda n: stack in ("", self._world.stack(n)))
        if (first and f"pins:{night}" in _WITH_REGRESSION) or rng.random() < 0.5:
            for found in self._regression(night, rng, cause, among, _several(rng, among)):
                yield found
                if found.event.kind == "fix":
                    self._due.setdefault(found.start, []).append((stack, package))
        elif rng.random() < 0.5:
            count = max(2, int(0.01 * among.sum()))
            yield from self._steps(night, rng, among, count, cause)

    def _roll(self, night: int, stack: str, package: str) -> Happening:
        before, after = self._pins_now.roll(stack, package, self._world.calendar.day(night))
        what = f"{package} {before} -> {after}"
        return Happening(
            start=night,
            event=Event(kind="pins", night="", stack=stack, what=what),
            key=package,
            value=after,
        )

    def _recipe(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:
        used = sorted({recipe for r in self._world.routes for _, recipe in r.recipes})
        recipe = str(rng.choice(used))
        cause = _edited("recipe", night, recipe)
        yield cause
        uses = [any(name == recipe for _, name in r.recipes) for r in self._world.routes]
        among = np.array(uses)[self._world.route]
        if first or rng.random() < 0.5:
            count = _several(rng, among) if rng.random() < 0.7 else 1
            for found in self._regression(night, rng, cause, among, count):
                yield found
                if found.event.kind == "fix":
                    yield _edited("recipe", found.start, recipe)

    def _workload(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:
        free = np.flatnonzero(self._free <= night)
        if not free.size:
            return
        workload = self._world.keys[int(rng.choice(free))].workload
        cause = _edited("workload", night, workload)
        yield cause
        among = self._where(lambda n: self._world.keys[n].workload == workload)
        expected = first and f"workload:{night}" == _EXPECTED
        for found in self._regression(night, rng, cause, among, 1, expected=expected):
            yield found
            if found.event.kind == "fix":
                yield _edited("workload", found.start, workload)

    def _regression(
        self,
        night: int,
        rng: np.random.Generator,
        cause: Happening,
        among: Flags,
        count: int,
        *,
        expected: bool = False,
    ) -> Iterator[Happening]:
        expected = expected or (count <= _BEARABLE and rng.random() < 0.1)
        forever = 1.0 if expected else 0.1 * (count <= _BEARABLE)
        end = self._lasting(night, rng, 2, 5.0, forever=forever)
        cells = self._take(rng, among, count, night, end)
        if not cells:
            return
        phase = self._phase(rng, cells, cause.event)
        status = "error" if cause.event.kind == "workload" and phase == "ingress" else "fail"
        event = replace(cause.event, kind="regression", phase=phase, status=status)
        yield Happening(start=night, end=end, cells=cells, event=event)
        if end is not None:
            yield Happening(start=end, cells=cells, event=replace(event, kind="fix", what=""))
        elif expected:
            later = self._world.calendar.full(night + 4)
            yield Happening(start=later, cells=cells, event=replace(event, kind="expected"))

    def _phase(self, rng: np.random.Generator, cells: Sequence[int], cause: Event) -> str:
        """A stage that all of the cells have, where the cause can show."""
        common = [
            stage
            for stage in self._world.of_cell(cells[0]).stages
            if all(stage in self._world.of_cell(cell).stages for cell in cells)
        ]
        if cause.kind == "recipe":
            common = [s for s in common if s == f"lower:{cause.recipe}"] or common
        elif cause.kind == "workload":
            common = [s for s in common if s in ("ingress", "compare")]
        return str(rng.choice(common))

    # --- speed --------------------------------------------------------------------------------

    def _step(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        yield from self._steps(night, rng, self._executing(), 1, None)

    def _steps(
        self,
        night: int,
        rng: np.random.Generator,
        among: Flags,
        count: int,
        cause: Happening | None,
    ) -> Iterator[Happening]:
        end = self._lasting(night, rng, 30, 20.0, forever=0.8)
        cells = self._take(rng, among & self._executing(), count, night, end)
        factor = float(rng.uniform(1.08, 1.40))
        factor = factor if rng.random() < 0.65 else 1 / factor
        event = Event(
            kind="step",
            night="",
            what=cause.event.what if cause else "",
            stack=cause.event.stack if cause else "",
            metric="execute" if rng.random() < 0.7 else "lowering",
            factor=round(factor, 4),
        )
        if cells:
            yield Happening(start=night, end=end, cells=cells, event=event)

    def _drift(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:
        end = self._world.calendar.full(night + (28 if first else int(rng.uniform(30, 80))))
        cells = self._take(rng, self._executing(), 1, night, end)
        factor = round(float(rng.uniform(1.10, 1.30)), 4)
        event = Event(kind="drift", night="", metric="execute", factor=factor)
        if cells:
            yield Happening(start=night, end=end, cells=cells, event=event)

    def _spike(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        end = self._world.calendar.full(night + 1)
        cells = self._take(rng, self._executing(), 1, night, end)
        factor = round(float(rng.uniform(1.5, 3.0)), 4)
        event = Event(kind="spike", night="", metric="execute", factor=factor)
        if cells:
            yield Happening(start=night, end=night + 1, cells=cells, event=event)

    # --- cells --------------------------------------------------------------------------------

    def _flaky(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        end = self._lasting(night, rng, 15, 20.0, forever=0.3)
        cells = self._take(rng, self._executing(), 1, night, end)
        phase = str(rng.choice(["execute", "compare"]))
        event = Event(
            kind="flaky",
            night="",
            phase=phase,
            status="fail",
            rate=round(float(rng.uniform(0.15, 0.5)), 3),
        )
        if cells:
            yield Happening(start=night, end=end, cells=cells, event=event)

    def _vanished(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        end = self._lasting(night, rng, 4, 6.0, forever=0.4)
        cells = self._take(rng, self._world.calm, int(rng.integers(1, 5)), night, end)
        if cells:
            status = "none" if rng.random() < 0.5 else ""
            event = Event(kind="vanished", night="", status=status)
            yield Happening(start=night, end=end, cells=cells, event=event)

    def _retried(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        cells = self._take(rng, self._world.calm, 1, night, night - _REST)
        event = Event(kind="retried", night="", causes=(str(rng.choice(CAUSES)),))
        if cells:
            yield Happening(start=night, end=night + 1, cells=cells, event=event)

    # --- machines -----------------------------------------------------------------------------

    def _sick_agent(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:
        pools = [
            pool
            for pool, machines in zip(self._world.pools, self._world.agents, strict=True)
            if (len(machines) > 1 or (pool == LONE_POOL and not first))
            and pool not in DARK_POOLS
            and self._sick.get(pool, 0) <= night
        ]
        if not pools:
            return
        agent = self._machine(rng, pools)
        end = self._world.calendar.full(night + int(rng.integers(2, 7)))
        self._sick[agent.pool] = end + 2
        possible = GPU_CAUSES.get(agent.pool, CAUSES)
        causes = rng.permutation(possible)[: int(rng.integers(1, 3))]
        event = Event(
            kind="sick-agent",
            night="",
            agent=agent.name,
            pool=agent.pool,
            causes=tuple(str(cause) for cause in causes),
        )
        yield Happening(start=night, end=end, event=event)

    def _driver(self, night: int, rng: np.random.Generator, first: bool) -> Iterator[Happening]:  # noqa: ARG002
        pools = [p for p in self._world.pools if not p.startswith("cross-")]
        agent = self._machine(rng, pools)
        hardware = self._hardware[agent.key]
        key = "gpu_driver" if "gpu_driver" in hardware else "kernel"
        before = str(hardware[key])
        after = pins.bumped(before, "-" if key == "kernel" else ".")
        hardware[key] = after
        word = "driver" if key == "gpu_driver" else "kernel"
        event = Event(
            kind="driver",
            night="",
            agent=agent.name,
            pool=agent.pool,
            what=f"{word} {before} -> {after}",
        )
        yield Happening(start=night, event=event, key=key, value=after)

    # --- common -------------------------------------------------------------------------------

    def _machine(self, rng: np.random.Generator, pools: Sequence[str]) -> Agent:
        """One of a machine of one of some pools."""
        pool = self._world.pools.index(str(rng.choice(list(pools))))
        machines = self._world.agents[pool]
        return machines[int(rng.integers(len(machines)))]

    def _where(self, true: Callable[[int], bool]) -> Flags:
        return np.array([true(n) for n in range(len(self._world.ids))])

    def _executing(self) -> Flags:
        executes = np.array([route.executes for route in self._world.routes])
        return np.asarray(executes[self._world.route])


def _several(rng: np.random.Generator, among: Flags) -> int:
    """How many cells one cause hits: from two to one in twenty, few more often than many."""
    most = max(3.0, min(_MOST_AT_ONCE, 0.05 * among.sum()))
    return max(2, int(np.exp(rng.uniform(np.log(2), np.log(most)))))


def _edited(kind: Kind, night: int, name: str) -> Happening:
    """A recipe or a workload that somebody changed."""
    event = Event(kind=kind, night="", what=f"{kind} {name}")
    named = replace(event, recipe=name) if kind == "recipe" else replace(event, workload=name)
    return Happening(start=night, event=named, key=name)


def _settled(world: World) -> Iterator[Happening]:
    """What is known before the year begins."""
    calendar = world.calendar
    for number, workload in enumerate(world.matrix.late):
        night = calendar.full(10 + 35 * number)
        yield _workload_event(world, "appeared", night, workload)
    for number, workload in enumerate(world.matrix.leaving):
        night = calendar.full(21 + 45 * number)
        yield _workload_event(world, "removed", night, workload)
    for known in world.known:
        if known.fate != "stays":
            kind: Kind = "xpass" if known.fate == "xpass" else "expired"
            yield Happening(
                start=known.night,
                end=calendar.full(known.night + 6),
                cells=(known.cell,),
                event=Event(kind=kind, night="", phase=known.phase),
            )
    for pool, night, status, length in zip(
        DARK_POOLS, (25, 31), ("skip", "none"), (None, 40), strict=True
    ):
        if pool in world.pools:
            start = calendar.full(night)
            end = None if length is None else calendar.full(start + length)
            event = Event(kind="pool-dark", night="", pool=pool, status=status)
            yield Happening(start=start, end=end, event=event)


def _workload_event(world: World, kind: Kind, night: int, workload: str) -> Happening:
    cells = tuple(n for n, key in enumerate(world.keys) if key.workload == workload)
    event = Event(kind=kind, night="", workload=workload)
    return Happening(start=night, cells=cells, event=event)
