"""SIGKILL at fifty random moments of a run of sixty cells, here and elsewhere: the same record."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.faults import masterless, sixty
from tests.faults.killing import Record, Trials, context, differences, leftovers, record

pytestmark = pytest.mark.process
KILLS = 50
AGAIN = 5
SEED = 20261121


@pytest.fixture(scope="module", params=["here", "elsewhere"])
def trials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trials]:
    folder = tmp_path_factory.mktemp(request.param)
    root = folder / "repo"
    sixty.repository(root)
    if request.param == "here":
        yield Trials(root, folder)
        return
    theirs, ours = context.Pipe()
    machines = context.Process(target=masterless.serve, args=(root, theirs), daemon=True)
    machines.start()
    yield Trials(root, folder, where=ours.recv())
    machines.kill()
    machines.join()


@pytest.fixture(scope="module")
def undisturbed(trials: Trials) -> tuple[Record, float]:
    """The record of a run that nobody kills, and how long one takes, in seconds."""
    first, second = trials.new(), trials.new()
    assert trials.finish(first) == 1
    began = time.monotonic()
    assert trials.finish(second) == 1
    took = time.monotonic() - began
    found = record(second)
    assert differences(found, record(first)) == []
    assert len({cell for name, cell in found.items() if name.endswith(" cell")}) == sixty.CELLS
    return found, took


def test_fifty_runs_that_are_killed_once(trials: Trials, undisturbed: tuple[Record, float]) -> None:
    expected, took = undisturbed
    print(f"seed {SEED}, {took:.2f} s undisturbed")
    dice = random.Random(SEED)
    for number in range(KILLS):
        moment = took * (number + dice.random()) / KILLS
        state = trials.new()
        while not trials.killed(state, moment):  # it was faster than the first ones
            moment, state = 0.8 * moment, trials.new()
        print(f"{state.name}: killed after {moment:.3f} s")
        assert trials.finish(state) == 1
        assert differences(record(state), expected) == []
        assert leftovers(state) == []


def test_a_run_that_is_killed_again_and_again(
    trials: Trials, undisturbed: tuple[Record, float]
) -> None:
    expected, took = undisturbed
    dice = random.Random(SEED)
    state, kills = trials.new(), 0
    while kills < AGAIN:
        if trials.killed(state, took * dice.uniform(0.1, 0.5)):
            kills += 1
        else:  # it was faster than the first ones
            state, kills, took = trials.new(), 0, 0.8 * took
    print(f"seed {SEED}, killed {kills} times")
    assert trials.finish(state) == 1
    assert differences(record(state), expected) == []
    assert leftovers(state) == []
