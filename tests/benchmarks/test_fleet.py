"""The simulated night: small ones, whose numbers can be told."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import pytest

from benchmarks import fleet
from benchmarks.fleet_simulation import bounds, world
from benchmarks.fleet_simulation.faults import Fate, Faults
from benchmarks.fleet_simulation.night import Simulation
from benchmarks.fleet_simulation.world import Parameters
from orchestrator.fleet.misses import Kind
from orchestrator.job import Device

SMALL = Parameters(agents=12, pools=3, cells=600, of_job=10)


class Always(Faults):
    """Every normal job, or every one on some agents, ends in the same way."""

    def __init__(self, kind: Kind, agents: frozenset[str], *, health: bool) -> None:
        """`health`: health jobs too."""
        super().__init__((), 0)
        self._kind, self._agents, self._both = kind, agents, health

    def health(self, agent: str, now: float, seconds: float) -> Fate:
        """See `Faults`."""
        return self.normal(agent, now, seconds, "") if self._both else Fate(seconds=seconds)

    def normal(self, agent: str, now: float, seconds: float, device: Device) -> Fate:
        """See `Faults`."""
        kind = self._kind if agent in self._agents else None
        return Fate(seconds=seconds, kind=kind, away_s=300.0 if kind is Kind.LOST else 0.0)


def test_the_same_parameters_make_the_same_night() -> None:
    one, two = (
        Simulation(made, Faults(made.agents, 1)).run()
        for made in (world.make(SMALL), world.make(SMALL))
    )
    for night in (one, two):
        night.decision_s = night.longest_decision_s = 0.0
    assert one == two
    other = world.make(dataclasses.replace(SMALL, seed=2))
    assert other.seconds != world.make(SMALL).seconds


def test_every_cell_is_in_one_job_of_a_pool_that_somebody_serves() -> None:
    made = world.make(SMALL)
    cells = Counter(cell.id for placed in made.jobs for cell in placed.job.cells)
    assert len(cells) == SMALL.cells
    assert set(cells.values()) == {1}
    served = {pool for agent in made.agents.values() for pool in agent.pools}
    assert {placed.job.pool for placed in made.jobs} <= served
    assert max(len(placed.job.cells) for placed in made.jobs) <= SMALL.of_job


def test_nobody_beats_the_bound() -> None:
    for seed in range(5):
        made = world.make(dataclasses.replace(SMALL, seed=seed))
        night = Simulation(made, None).run()
        assert night.worked == night.jobs == len(made.jobs)
        assert bounds.least(made) <= night.seconds
        assert len(night.ended) == night.jobs


def test_a_machine_that_fails_at_everything_is_left_alone() -> None:
    made = world.make(SMALL)
    sick = frozenset([next(iter(made.agents))])
    careful = Simulation(made, Always(Kind.DEVICE, sick, health=True)).run()
    assert careful.misses == {}
    assert careful.quarantined == 1
    careless = Simulation(made, Always(Kind.DEVICE, sick, health=True), careful=False).run()
    assert careless.misses["device"] > 0
    assert careless.worked == careless.jobs - careless.given_up


def test_one_that_passes_health_jobs_alone_rests_longer_and_longer() -> None:
    made = world.make(dataclasses.replace(SMALL, cells=4000))
    limping = frozenset([next(iter(made.agents))])
    careful = Simulation(made, Always(Kind.DEVICE, limping, health=False)).run()
    careless = Simulation(made, Always(Kind.DEVICE, limping, health=False), careful=False).run()
    assert 0 < careful.misses["device"] < careless.misses["device"] / 2


@pytest.mark.parametrize("kind", [Kind.LOST, Kind.PULL, Kind.DEVICE])
def test_where_nothing_works_everything_is_given_up_and_nothing_lost(kind: Kind) -> None:
    made = world.make(dataclasses.replace(SMALL, cells=60, agents=6))
    all_ = frozenset(made.agents)
    night = Simulation(made, Always(kind, all_, health=False)).run()
    assert (night.worked, night.given_up) == (0, night.jobs)
    assert night.misses == {str(kind): 3 * night.jobs}


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--agents", "8", "--pools", "2", "--cells", "200"]
    fleet.main(words)
    text = capsys.readouterr().out
    assert "| machines fail | 8 | 200 | " in text
    fleet.main([*words, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"]["agents"] == 8
    assert [night["cells"] for night in document["nights"]] == [200] * 4 + [10, 20, 50, 100]
    assert all(night["least_s"] <= night["seconds"] for night in document["nights"])
