"""A cell failed on one machine: which runs decide whose fault it is, and what they say. Pure.

The rules, the table of all outcomes and the reasons for them are in docs/blame.md.

Each run that we know of clears suspects; who is left over is to blame. Nobody is blamed because
nothing else comes to mind: with two suspects left, or none, the verdict is `undecided`, and says
which run would tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from orchestrator.fleet.trials import Trial
from orchestrator.health.evidence import against
from orchestrator.health.judge import ON_DEVICE, either

Suspect = Literal["compiler", "definitions", "machine", "driver", "flaky"]
Verdict = Literal["compiler", "definitions", "machine", "driver", "flaky", "undecided"]
Role = Literal["golden-here", "same-there", "again-here"]

SUSPECTS: tuple[Suspect, ...] = get_args(Suspect)
TRIES = 3
"""Of one control run: the first, and twice again when it was a `miss`."""

Clue = tuple[str, tuple[Suspect, ...]]
"""What is known, and whom that clears."""


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Whose fault a failure is."""

    verdict: Verdict
    evidence: tuple[str, ...]
    """One sentence each, for people."""
    left: tuple[Suspect, ...] = ()
    """Of an undecided one: who it can be. Empty: all that we know of are cleared."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another agent of the pool that could be given a control run."""

    agent: str
    driver: str
    hardware: str


@dataclass(frozen=True, kw_only=True)
class Control:
    """A run that would tell more."""

    role: Role
    agent: str
    image: str


def role_of(run: Trial, failure: Trial) -> Role | None:
    """What a run is a control of; None: it says nothing about this failure.

    By what it ran with, not by what it was meant to be: a control of whose machine the driver was
    changed meanwhile is none.
    """
    here = run.agent == failure.agent
    if not run.image or not failure.image or (here and _other(run.driver, failure.driver)):
        return None
    if run.image == failure.image:
        return "again-here" if here else "same-there"
    return "golden-here" if here else None


def decide(failure: Trial, controls: Sequence[Trial], green: Trial | None) -> Attribution:
    """Whose fault a failure is, by everything that was run.

    Args:
        failure: did not pass.
        controls: other attempts of the cell with the same definitions, made for this or not.
        green: the last one that passed before, on the same machine if there is one; None: it never
            did.
    """
    if seen := _seen_outside(failure):
        return seen
    known = [(run, role) for run in controls if (role := role_of(run, failure))]
    odd = [f"{_says(run, failure)}: says nothing" for run, _ in known if _silent(run, failure)]
    known = [(run, role) for run, role in known if not _silent(run, failure)]
    if came_back := next((run for run, _ in known if _flakes(run, failure)), None):
        text = f"{_says(came_back, failure)}: nothing differed, and it came out otherwise"
        return Attribution(verdict="flaky", evidence=(text, *odd))
    clues = [*_since_green(failure, green, known), *_from_controls(failure, known)]
    cleared = {suspect for _, suspects in clues for suspect in suspects}
    left = tuple(suspect for suspect in SUSPECTS if suspect not in cleared)
    evidence = [f"{text}: {_whom(suspects)}" for text, suspects in clues] + odd
    evidence = evidence or ["no control has run, and it was never green"]
    # what nothing else accounts for is no chance: that has to be seen
    verdict: Verdict = left[0] if len(left) == 1 and left != ("flaky",) else "undecided"
    if left == ("machine", "driver") and _moved(failure, green) and _elsewhere(failure, known):
        verdict = "driver"
        evidence.append(
            "its driver changed since it was green here, and with another one it passes"
        )
    return Attribution(
        verdict=verdict, evidence=tuple(evidence), left=left if verdict == "undecided" else ()
    )


def wanted(
    failure: Trial,
    controls: Sequence[Trial],
    green: Trial | None,
    peers: Sequence[Peer],
    cannot: Collection[Role] = (),
) -> tuple[Control, ...]:
    """The control runs that should be made now; none: it is decided, or nothing more can be known.

    First the last green image on the same machine and the failing image on a peer, whose
    driver and hardware are the same if there is such a one; when those leave it open, the failing
    image on the same machine once more. `cannot`: what cannot be run, whoever wants it.
    """
    found = decide(failure, controls, green)
    if found.verdict != "undecided":
        return ()
    roles = [(run, role_of(run, failure)) for run in controls]
    done = {role for run, role in roles if role and not _silent(run, failure)} | {*cannot}
    tries = {role: sum(each == role for _, each in roles) for role in get_args(Role)}
    first = []
    golden = green.image if green is not None and _other(green.image, failure.image) else ""
    if golden and "golden-here" not in done and tries["golden-here"] < TRIES:
        first.append(Control(role="golden-here", agent=failure.agent, image=golden))
    asked = {run.agent for run, role in roles if role == "same-there"}
    fresh = [peer for peer in peers if peer.agent not in asked and peer.agent != failure.agent]
    if "same-there" in done and {"machine", "driver"} <= set(found.left):
        # the one that was asked has another driver: one with this driver tells them apart
        fresh = [peer for peer in fresh if _same(peer.driver, failure.driver)]
    elif "same-there" in done:
        fresh = []
    if fresh and tries["same-there"] < TRIES:
        peer = min(fresh, key=lambda each: (_far(each, failure), each.agent))
        first.append(Control(role="same-there", agent=peer.agent, image=failure.image))
    if not first and "again-here" not in done and tries["again-here"] < TRIES:
        return (Control(role="again-here", agent=failure.agent, image=failure.image),)
    return tuple(first)


# --- clues -------------------------------------------------------------------------------------


def _seen_outside(failure: Trial) -> Attribution | None:
    """What needs no control run."""
    piece = against(failure.evidence, "device")
    if piece is not None:
        verdict: Verdict = "driver" if piece.kind == "driver" else "machine"
        return Attribution(verdict=verdict, evidence=(f"seen from outside: {piece.text}",))
    if failure.ending == "miss" and not either(failure.phase, failure.message, failure.evidence):
        text = "no verdict was reached for reasons outside the cell: it is tried again elsewhere"
        return Attribution(verdict="machine", evidence=(text,))
    return None


def _since_green(
    failure: Trial, green: Trial | None, known: Sequence[tuple[Trial, Role]]
) -> Iterator[Clue]:
    """What is as it was when the cell passed cannot be what broke it."""
    if failure.ending == "error":
        yield "the harness found the fault in what is ours", ("compiler",)
    if failure.phase and failure.phase not in ON_DEVICE:
        yield f"it failed in {failure.phase}, before anything was executed", ("driver",)
    if green is None:
        return
    here = "here" if green.agent == failure.agent else f"on {green.agent}"
    if _same(green.image, failure.image):
        yield f"it was green {here} with the same image", ("compiler",)
    if _same(green.definitions, failure.definitions):
        yield "its definitions are those with which it was green", ("definitions",)
    if green.agent == failure.agent and _same(green.driver, failure.driver):
        # a new image may need a newer driver than the old one did
        fits = _same(green.image, failure.image) or not _elsewhere(failure, known)
        if fits or any(role == "golden-here" and not run.passed for run, role in known):
            yield "it was green here with the same driver", ("driver",)


def _from_controls(failure: Trial, known: Sequence[tuple[Trial, Role]]) -> Iterator[Clue]:
    passed_there = [run for run, role in known if role == "same-there" and run.passed]
    for run, role in known:
        if role == "golden-here":
            cleared = _golden(run, failure, passed_there)
        elif role == "same-there":
            cleared = _there(run, failure)
        else:
            cleared = ("flaky",)  # it failed again: `decide` has dealt with a pass
        yield _says(run, failure), cleared


def _golden(run: Trial, failure: Trial, passed_there: Sequence[Trial]) -> tuple[Suspect, ...]:
    """The last green image on the same machine."""
    if not run.passed:
        return ("compiler", "flaky")
    # an error that an older image does not show: our definitions do not fit the new one
    cleared: list[Suspect] = [] if failure.ending == "error" else ["definitions"]
    # this machine runs the old code; whether it is what is wrong with the new code is told by
    # where the same code passes
    if not any(_twin(peer, failure) for peer in passed_there):
        cleared.append("machine")
    if not any(_other(peer.driver, failure.driver) for peer in passed_there):
        cleared.append("driver")
    return tuple(cleared)


def _there(run: Trial, failure: Trial) -> tuple[Suspect, ...]:
    """The failing image on a peer."""
    if run.passed:
        cleared: list[Suspect] = ["definitions"]
        if _same(run.hardware, failure.hardware):
            cleared.append("compiler")
        if _same(run.driver, failure.driver):
            cleared.append("driver")
        return tuple(cleared)
    if _other(run.driver, failure.driver):
        return ("machine", "driver", "flaky")
    return ("machine", "flaky")


def _flakes(run: Trial, failure: Trial) -> bool:
    """Whether the same thing passed on the same machine, not before it failed there.

    Another machine of the same make has the same fingerprint: that it passes there speaks against
    this machine. That it passed before here, too: a machine that breaks does so between two runs.
    """
    same = run.agent == failure.agent and _same(run.fingerprint, failure.fingerprint)
    return run.passed and same and run.started >= failure.started


def _silent(run: Trial, failure: Trial) -> bool:
    """Whether a control says nothing: it came to no verdict, or failed otherwise.

    An older image may not know what today's recipes ask for: that it fails at that is no sign of
    anything. A repetition that passes but is not the same thing says nothing either.
    """
    if run.passed:
        return role_of(run, failure) == "again-here" and not _flakes(run, failure)
    return not run.fails_like(failure)


# --- words -------------------------------------------------------------------------------------


def _says(run: Trial, failure: Trial) -> str:
    """A control run in words."""
    where = "here" if run.agent == failure.agent else f"on {run.agent}"
    how = "passed" if run.passed else "failed in the same way"
    if not run.passed and not run.fails_like(failure):
        how = "came to no verdict" if run.ending == "miss" else f"failed otherwise ({run.phase})"
    apart = ""
    if run.agent != failure.agent:
        others = [
            name
            for name, mine, its in (
                ("driver", failure.driver, run.driver),
                ("hardware", failure.hardware, run.hardware),
            )
            if _other(mine, its)
        ]
        apart = f", which has another {' and '.join(others)}," if others else ""
    same = run.image == failure.image
    what = "the same image" if same else f"the last green image {run.image[:19]}"
    return f"{what} {where}{apart} {how}"


def _whom(suspects: Sequence[Suspect]) -> str:
    names = [_NAMES[each] for each in suspects]
    if not names:
        return "clears nobody"
    return f"clears {', '.join(names[:-1])} and {names[-1]}" if names[1:] else f"clears {names[0]}"


_NAMES: dict[Suspect, str] = {
    "compiler": "the compiler",
    "definitions": "our definitions",
    "machine": "the machine",
    "driver": "its driver",
    "flaky": "chance",
}


def _same(one: str, other: str) -> bool:
    return bool(one) and one == other


def _other(one: str, other: str) -> bool:
    return bool(one) and bool(other) and one != other


def _twin(run: Trial, failure: Trial) -> bool:
    return _same(run.hardware, failure.hardware) and _same(run.driver, failure.driver)


def _moved(failure: Trial, green: Trial | None) -> bool:
    """Whether the machine's driver is not the one with which it was green here."""
    if green is None or green.agent != failure.agent:
        return False
    return _other(green.driver, failure.driver)


def _elsewhere(failure: Trial, known: Sequence[tuple[Trial, Role]]) -> bool:
    """Whether the failing image passed on a peer with another driver."""
    return any(
        role == "same-there" and run.passed and _other(run.driver, failure.driver)
        for run, role in known
    )


def _far(peer: Peer, failure: Trial) -> int:
    """How unlike a peer is."""
    return 2 * (peer.hardware != failure.hardware) + (peer.driver != failure.driver)
