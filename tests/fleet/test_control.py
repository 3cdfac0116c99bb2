"""Whose fault: the whole truth table, against worlds in which it is known who did it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from orchestrator.fleet.control import SUSPECTS, TRIES, Attribution, Control, Peer, decide, wanted
from orchestrator.fleet.trials import Trial, trial
from orchestrator.health.evidence import Evidence
from tests.fleet import truth
from tests.fleet.blaming import FAILED, GREEN, again, golden, run, there
from tests.results.test_store import result

ROOT = Path(__file__).parents[2]
HUNG = dataclasses.replace(
    FAILED,
    ending="miss",
    phase="execute",
    message="A kernel that never ends and a GPU that hangs look the same from outside",
)


class World(NamedTuple):
    """Who did it, and what else is as it is."""

    culprit: str
    peer_driver: str
    peer_hardware: str
    green: Trial | None


def _greens() -> Iterator[Trial | None]:
    """All ways in which what is now can differ from what was green."""
    yield None
    for image, definitions, driver, agent in itertools.product(
        ("sha256:old", "sha256:new"),
        ("before", "today"),
        ("gpu_driver 1", "gpu_driver 2"),
        ("here", "elsewhere"),
    ):
        yield dataclasses.replace(
            GREEN, image=image, definitions=definitions, driver=driver, agent=agent
        )


WORLDS = [
    World(*each)
    for each in itertools.product(
        (
            *("compiler", "compiler on this hardware", "definitions", "machine", "driver"),
            *("machine with this image", "driver with this image"),
        ),
        ("gpu_driver 2", "gpu_driver 1"),
        ("gpu_chip sm_90", "gpu_chip sm_80"),
        _greens(),
    )
]


def fails(world: World, each: Trial) -> bool:
    """Whether a run fails in a world: what the culprit does, and nothing else."""
    match world.culprit:
        case "compiler":
            return each.image == FAILED.image
        case "compiler on this hardware":
            return each.image == FAILED.image and each.hardware == FAILED.hardware
        case "definitions":
            return each.definitions == FAILED.definitions
        case "machine":
            return each.agent == FAILED.agent and each.started > GREEN.started
        case "machine with this image":
            return fails(world._replace(culprit="machine"), each) and each.image == FAILED.image
        case "driver with this image":
            return each.driver == FAILED.driver and each.image == FAILED.image
        case _:
            return each.driver == FAILED.driver


def possible(world: World) -> bool:
    """Whether the last green run passes in its own world."""
    return world.green is None or not fails(world, world.green)


def asked(world: World) -> dict[str, Trial]:
    """The three controls as they come out in a world."""
    controls = {
        "golden": golden(passed=True),
        "there": there(
            passed=True,
            driver=world.peer_driver,
            hardware=world.peer_hardware,
            fingerprint="f" if world[1:3] == (FAILED.driver, FAILED.hardware) else "p",
        ),
        "again": again(passed=True),
    }
    if world.green is None or world.green.image == FAILED.image:
        del controls["golden"]
    return {
        name: dataclasses.replace(FAILED, **_place(each)) if fails(world, each) else each
        for name, each in controls.items()
    }


def _place(each: Trial) -> dict[str, Any]:
    kept = ("agent", "image", "driver", "hardware", "fingerprint", "started")
    return {name: getattr(each, name) for name in kept}


@pytest.mark.parametrize("missing", list(itertools.product((False, True), repeat=3)))
def test_nobody_is_blamed_who_did_not_do_it(missing: tuple[bool, ...]) -> None:
    """In every world, with every control there or missing: who did it, or nobody."""
    for world in filter(possible, WORLDS):
        controls = asked(world)
        kept = [
            each
            for gone, (name, each) in zip(missing, sorted(controls.items()), strict=False)
            if not gone
        ]
        found = decide(FAILED, kept, world.green)
        assert found.verdict in (who(world), "undecided") or presumed(world, found), (world, found)


def who(world: World) -> str:
    """The verdict that is right."""
    return world.culprit.partition(" ")[0]


def presumed(world: World, found: Attribution) -> bool:
    """Whether a verdict is one of those that are only the likelier ones; docs/blame.md names them.

    A machine broke on the day its driver changed, or shows it with the new image alone, and the
    peer that passes has another driver. A machine, or its driver, that fails with the new image
    alone, and no peer of its kind shows that the image is well.
    """
    moved = world.green is not None and world.green.driver != FAILED.driver
    other = world.peer_driver != FAILED.driver
    if found.verdict == "driver":
        return who(world) == "machine" and other and (moved or "image" in world.culprit)
    shown = any("has another" not in text and "passed" in text for text in _of_peers(found))
    return found.verdict == "compiler" and world.culprit.endswith("this image") and not shown


def _of_peers(found: Attribution) -> list[str]:
    return [text for text in found.evidence if text.startswith("the same image on there")]


@pytest.mark.parametrize(
    ("culprit", "changed"),
    [
        ("compiler", ["image", "definitions", "driver"]),
        ("compiler on this hardware", ["image", "definitions", "driver"]),
        ("machine", ["image", "definitions", "driver"]),
        ("definitions", ["image", "definitions"]),
        ("driver", ["image", "driver"]),
    ],
)
def test_who_did_it_is_found_with_all_controls(culprit: str, changed: list[str]) -> None:
    """On a twin, or for a compiler's fault on one kind of hardware, on another kind."""
    green = dataclasses.replace(
        GREEN,
        **{
            name: getattr(FAILED, name) for name in ("definitions", "driver") if name not in changed
        },
    )
    hardware = "gpu_chip sm_80" if culprit.endswith("hardware") else FAILED.hardware
    world = World(culprit, FAILED.driver, hardware, green)
    found = decide(FAILED, list(asked(world).values()), green)
    assert found.verdict == who(world), found


def test_a_driver_too_old_for_a_new_image() -> None:
    """The old image runs with it, the new one does not, and runs with a newer one."""
    world = World("driver with this image", "gpu_driver 3", FAILED.hardware, GREEN)
    for green in (GREEN, dataclasses.replace(GREEN, driver=FAILED.driver)):
        found = decide(FAILED, list(asked(world._replace(green=green)).values()), green)
        assert found.verdict == "driver"


def test_chance_has_to_be_seen() -> None:
    for case in truth.cases():
        found = decide(FAILED, case.controls, case.green)
        assert (found.verdict == "flaky") == (case.again == "passes")


def test_the_table_in_the_documentation_is_what_the_code_does() -> None:
    text = (ROOT / "docs" / "blame.md").read_text(encoding="utf-8")
    assert truth.table() in text


def test_every_cell_of_the_table_has_a_reason() -> None:
    for each in truth.cases():
        found = decide(FAILED, each.controls, each.green)
        assert found.evidence
        assert bool(found.left) <= (found.verdict == "undecided")
        assert set(found.left) <= set(SUSPECTS)


def test_a_machine_that_breaks_is_not_flaky() -> None:
    """Its twin has the same fingerprint and passes; and so did itself, yesterday."""
    yesterday = again(passed=True, started=50)
    found = decide(FAILED, [yesterday, golden(passed=False), there(passed=True)], GREEN)
    assert found.verdict == "machine"


@pytest.mark.parametrize("started", [100, 150])
def test_the_same_thing_that_passes_afterwards_is_flaky(started: int) -> None:
    controls = [golden(passed=True), there(passed=False), again(passed=True, started=started)]
    found = decide(FAILED, controls, GREEN)
    assert found.verdict == "flaky"
    assert "nothing differed" in found.evidence[0]


def test_a_pass_with_another_fingerprint_is_no_flake() -> None:
    assert decide(FAILED, [again(passed=True, fingerprint="x")], GREEN).verdict == "undecided"
    empty = dataclasses.replace(FAILED, fingerprint="")
    assert decide(empty, [again(passed=True, fingerprint="")], GREEN).verdict == "undecided"


@pytest.mark.parametrize(
    "control",
    [
        golden(passed=False, ending="miss", message="the agent was lost"),
        golden(passed=False, phase="lower:x", message="unknown pass"),
        golden(passed=True, driver="gpu_driver 3"),
        there(passed=False, ending="miss"),
        there(passed=False, message="otherwise"),
        run(passed=True, agent="there", image="sha256:old"),
        run(passed=True, agent="there", image=""),
    ],
)
def test_controls_that_say_nothing_change_nothing(control: Trial) -> None:
    with_it, without = (
        decide(FAILED, [*each, again(passed=False)], GREEN) for each in ((control,), ())
    )
    assert (with_it.verdict, with_it.left) == (without.verdict, without.left)


def test_one_that_said_nothing_is_told() -> None:
    found = decide(FAILED, [there(passed=False, ending="miss")], GREEN)
    assert found.evidence[-1] == "the same image on there came to no verdict: says nothing"


class TestMisses:
    """What had no verdict of its own."""

    def test_seen_from_outside(self) -> None:
        piece = Evidence(kind="xid", blame="device", text="Xid 79: off the bus")
        failure = dataclasses.replace(HUNG, evidence=(piece,))
        found = decide(failure, [there(passed=False)], GREEN)
        assert (found.verdict, found.evidence) == (
            "machine",
            ("seen from outside: Xid 79: off the bus",),
        )
        driver = dataclasses.replace(piece, kind="driver")
        assert decide(dataclasses.replace(HUNG, evidence=(driver,)), [], None).verdict == "driver"

    def test_infrastructure_needs_no_control(self) -> None:
        failure = dataclasses.replace(FAILED, ending="miss", phase="build", message="no space")
        assert decide(failure, [], GREEN).verdict == "machine"
        assert wanted(failure, [], GREEN, [Peer(agent="p", driver="", hardware="")]) == ()

    def test_a_hang_is_decided_by_controls(self) -> None:
        same = {"ending": "miss", "phase": "execute", "message": HUNG.message}
        found = decide(HUNG, [golden(passed=True), there(passed=False, **same)], GREEN)
        assert found.verdict == "compiler"
        found = decide(HUNG, [golden(passed=False, **same), there(passed=True)], GREEN)
        assert found.verdict == "machine"
        unclear = Evidence(kind="reset", blame="unclear", text="ring reset")
        assert decide(dataclasses.replace(HUNG, message="", evidence=(unclear,)), [], None).left


class TestErrors:
    """What the harness found in our own definitions."""

    ERROR = dataclasses.replace(FAILED, ending="error", phase="ingress")

    def like(self, control: Trial) -> Trial:
        return dataclasses.replace(control, ending="error", phase="ingress")

    def test_everywhere(self) -> None:
        found = decide(self.ERROR, [self.like(there(passed=False))], None)
        assert found.verdict == "definitions"

    def test_with_the_new_image_alone(self) -> None:
        controls = [golden(passed=True), self.like(there(passed=False))]
        assert decide(self.ERROR, controls, GREEN).verdict == "definitions"

    def test_here_alone(self) -> None:
        found = decide(self.ERROR, [there(passed=True), self.like(again(passed=False))], GREEN)
        assert found.verdict == "machine"


PEERS = [
    Peer(agent="far", driver="gpu_driver 1", hardware="gpu_chip sm_80"),
    Peer(agent="near", driver="gpu_driver 1", hardware="gpu_chip sm_90"),
    Peer(agent="twin", driver="gpu_driver 2", hardware="gpu_chip sm_90"),
    Peer(agent="here", driver="gpu_driver 2", hardware="gpu_chip sm_90"),
]
GOLDEN = Control(role="golden-here", agent="here", image="sha256:old")
AGAIN = Control(role="again-here", agent="here", image="sha256:new")


def ask(agent: str) -> Control:
    return Control(role="same-there", agent=agent, image="sha256:new")


class TestWanted:
    """Which runs would tell."""

    def test_both_at_first(self) -> None:
        assert wanted(FAILED, [], GREEN, PEERS) == (GOLDEN, ask("twin"))

    def test_nothing_when_it_is_decided(self) -> None:
        assert wanted(FAILED, [golden(passed=True), there(passed=False)], GREEN, PEERS) == ()

    def test_once_more_when_both_passed(self) -> None:
        controls = [golden(passed=True), there(passed=True)]
        assert wanted(FAILED, controls, GREEN, PEERS) == (AGAIN,)
        assert wanted(FAILED, [*controls, again(passed=False)], GREEN, PEERS) == ()

    def test_without_peers_or_a_green_image(self) -> None:
        assert wanted(FAILED, [], GREEN, []) == (GOLDEN,)
        assert wanted(FAILED, [golden(passed=True)], GREEN, []) == (AGAIN,)
        assert wanted(FAILED, [], None, PEERS[:1]) == (ask("far"),)
        assert wanted(FAILED, [], None, []) == (AGAIN,)
        same = dataclasses.replace(GREEN, image=FAILED.image)
        assert wanted(FAILED, [], same, []) == (AGAIN,)

    def test_one_that_missed_is_tried_on_the_next_peer(self) -> None:
        missed = there(passed=False, ending="miss", agent="twin")
        assert wanted(FAILED, [missed, golden(passed=True)], GREEN, PEERS) == (ask("near"),)

    def test_not_for_ever(self) -> None:
        missed = golden(passed=False, ending="miss")
        assert wanted(FAILED, [missed] * (TRIES - 1), GREEN, []) == (GOLDEN,)
        assert wanted(FAILED, [missed] * TRIES, GREEN, []) == (AGAIN,)
        again_missed = again(passed=False, ending="miss")
        assert wanted(FAILED, [missed] * TRIES + [again_missed] * TRIES, GREEN, []) == ()

    def test_asking_ends_in_every_world(self) -> None:
        """Whatever is wanted is run; after a handful of runs nothing is wanted any more."""
        for world in filter(possible, WORLDS):
            peer = Peer(agent="there", driver=world.peer_driver, hardware=world.peer_hardware)
            by_role = dict(
                zip(("golden-here", "same-there", "again-here"), _in_order(world), strict=True)
            )
            controls: list[Trial] = []
            while more := wanted(FAILED, controls, world.green, [peer]):
                controls += [_of(by_role[each.role]) for each in more]
                assert len(controls) <= 3
            found = decide(FAILED, controls, world.green)
            assert found.verdict in (who(world), "undecided") or presumed(world, found)


def _in_order(world: World) -> list[Trial | None]:
    found = asked(world)
    return [found.get(name) for name in ("golden", "there", "again")]


def _of(control: Trial | None) -> Trial:
    assert control is not None
    return control


def test_a_result_as_a_trial() -> None:
    made = result(
        status="xfail",
        parts={"harness": "#1"},
        hardware={"gpu_driver": "550", "kernel": "6.1", "cpus": 2},
    )
    found = trial(made, agent="mine")
    assert found is not None
    assert (found.ending, found.agent, found.driver) == (
        "fail",
        "mine",
        "gpu_driver 550, kernel 6.1",
    )
    assert found.hardware == "cpus 2"
    other = trial(dataclasses.replace(made, parts={"recipe x": "#1"}))
    assert other is not None
    assert other.definitions != found.definitions
    assert trial(dataclasses.replace(made, status="skip")) is None
    early = trial(dataclasses.replace(made, parts={}))
    assert early is not None
    assert early.definitions == ""
