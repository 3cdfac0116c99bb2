"""All outcomes of control runs and what they come to, as docs/blame.md shows them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.fleet.control import decide
from orchestrator.fleet.trials import Trial
from tests.fleet.blaming import FAILED, GREEN, again, golden, there

_GOLDEN = {"passes": True, "fails": False, "-": None}
_AGAIN = {"fails": False, "-": None, "passes": True}
_PEERS = {
    "fails": (False, {}),
    "fails, other driver": (False, {"driver": "gpu_driver 3"}),
    "passes": (True, {}),
    "passes, other driver": (True, {"driver": "gpu_driver 3", "fingerprint": "p"}),
    "passes, other hardware": (True, {"hardware": "gpu_chip sm_80", "fingerprint": "p"}),
    "passes, both other": (
        True,
        {"driver": "gpu_driver 3", "hardware": "gpu_chip sm_80", "fingerprint": "p"},
    ),
    "-": None,
}
_CHANGED = ("image", "definitions", "driver")


class Case(NamedTuple):
    """What is known of a failure."""

    golden: str
    there: str
    again: str
    changed: str
    controls: list[Trial]
    green: Trial | None


def cases() -> Iterator[Case]:
    """All of them."""
    for on_golden, on_peer, on_again in itertools.product(_GOLDEN, _PEERS, _AGAIN):
        controls = []
        if (passed := _GOLDEN[on_golden]) is not None:
            controls.append(golden(passed=passed))
        if (peer := _PEERS[on_peer]) is not None:
            controls.append(there(passed=peer[0], **peer[1]))
        if (repeated := _AGAIN[on_again]) is not None:
            controls.append(again(passed=repeated))
        for changed, green in _greens(had_golden=on_golden != "-"):
            yield Case(on_golden, on_peer, on_again, changed, controls, green)


def _greens(*, had_golden: bool) -> Iterator[tuple[str, Trial | None]]:
    """What can have changed; where the last green image was run, it is another one."""
    if not had_golden:
        yield "never green", None
    for flags in itertools.product((False, True), repeat=len(_CHANGED)):
        changed = [name for name, did in zip(_CHANGED, flags, strict=True) if did]
        if had_golden and "image" not in changed:
            continue
        green = dataclasses.replace(
            GREEN,
            image=GREEN.image if "image" in changed else FAILED.image,
            definitions=GREEN.definitions if "definitions" in changed else FAILED.definitions,
            driver=GREEN.driver if "driver" in changed else FAILED.driver,
        )
        yield ", ".join(changed) or "nothing", green


def table() -> str:
    """Markdown. Rows that say the same whatever changed are one row."""
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for case in cases():
        found = decide(FAILED, case.controls, case.green)
        text: str = found.verdict
        if text == "undecided":
            text = f"undecided: {' or '.join(found.left) or 'nobody that we know of'}"
        key = (case.golden, case.there, case.again)
        groups.setdefault(key, {}).setdefault(text, []).append(case.changed)
    lines = [
        "| golden here | same on a peer | again here | changed since green | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (on_golden, on_peer, on_again), verdicts in groups.items():
        if on_again == "passes":
            continue  # flaky, whatever else
        for verdict, changed in verdicts.items():
            when = "whatever" if len(verdicts) == 1 else "; ".join(changed)
            lines.append(f"| {on_golden} | {on_peer} | {on_again} | {when} | {verdict} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
