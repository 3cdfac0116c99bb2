"""What a cell's failure on a GPU means, given what was seen of the GPU from outside. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from orchestrator.health.evidence import Evidence, against
from orchestrator.job import Outcome

ON_DEVICE = ("execute", "compare")
"""The phases in which a device can be to blame: it runs, or what it wrote is looked at."""
SEEN = "GPU fault seen from outside"
_ALIKE = "A kernel that never ends and a GPU that hangs look the same from outside"
_EITHER = "The program or the device: "


def hung(outcome: Outcome) -> bool:
    """Whether a cell was still executing at its deadline."""
    last = outcome.stages[-1].exit if outcome.stages else ""
    return outcome.status == "fail" and outcome.phase == "execute" and last == "timeout"


def doubtful(outcome: Outcome) -> bool:
    """Whether a cell ended so that its device has to be asked before the next one runs on it."""
    return hung(outcome) or (outcome.status == "miss" and outcome.phase == "execute")


def either(phase: str, message: str, evidence: Sequence[Evidence]) -> bool:
    """Whether a `miss` may be the program's doing after all: a hang, a death beside a reset."""
    if phase not in ON_DEVICE:
        return False
    said = _ALIKE in message or _EITHER.strip() in message
    return said or against(evidence, "unclear") is not None


def judge(outcome: Outcome, evidence: Sequence[Evidence], cell: str) -> Outcome:
    """The outcome that counts, of a cell that ended on a GPU.

    A failure becomes a `miss` when the device is to blame, or may be: something that speaks
    against it, a death beside something unclear, or work that did not end by the deadline. What
    speaks against the program and is no aftermath of its end explains all that is unclear, so
    then the failure stays.
    """
    if outcome.status != "fail" or outcome.phase not in ON_DEVICE:
        return outcome
    if piece := against(evidence, "device"):
        return _miss(outcome, f"{SEEN}: {piece.text}")
    if any(piece.blame == "program" and piece.kind != "aftermath" for piece in evidence):
        return outcome
    unclear = against(evidence, "unclear")
    if hung(outcome):
        seen = f"{SEEN}: {unclear.text}\n" if unclear else ""
        return _miss(outcome, seen + _cannot_tell(cell))
    if unclear and _died(outcome):
        return _miss(outcome, f"{SEEN}: {unclear.text}\n{_EITHER}{_rerun(cell)}")
    return outcome


def fault(evidence: Sequence[Evidence]) -> Evidence | None:
    """What is grave enough to end a job at once: the device's fault, or a reset of all of it.

    A reset that follows from what the program did is left to the program's cell.
    """
    if piece := against(evidence, "device"):
        return piece
    if against(evidence, "program"):
        return None
    return next((piece for piece in evidence if piece.kind == "reset"), None)


def _died(outcome: Outcome) -> bool:
    last = outcome.stages[-1].exit if outcome.stages else ""
    return last.startswith(("signal ", "exit "))


def _miss(outcome: Outcome, why: str) -> Outcome:
    return dataclasses.replace(outcome, status="miss", message=f"{why}\n{outcome.message}")


def _cannot_tell(cell: str) -> str:
    return f"{_ALIKE}, so this is no verdict: {_rerun(cell)}"


def _rerun(cell: str) -> str:
    """The control that tells them apart."""
    stem = cell.rpartition("@")[0] or cell
    return (
        "it is the program if the same happens on another GPU of this kind, or on the software "
        f"GPU: lh-ci run '{stem}@software-gpu*'"
    )
