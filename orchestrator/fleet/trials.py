"""Attempts of a cell as control runs compare them: where, with what, and how they ended. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from orchestrator import records
from orchestrator.health.evidence import Evidence
from orchestrator.results.alike import normalised
from orchestrator.results.history.rows import epoch
from orchestrator.results.schema import Result

Ending = Literal["pass", "fail", "error", "miss"]

_ENDINGS: Mapping[str, Ending] = {
    "pass": "pass",
    "xpass": "pass",
    "fail": "fail",
    "xfail": "fail",
    "error": "error",
    "miss": "miss",
}
_DRIVING = ("gpu_driver", "gpu_firmware", "kernel")
_MACHINE = ("cpu_model", "cpu_flags", "cpus", "gpu_name", "gpu_chip")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One attempt of a cell. Texts that are empty are not known: nothing is equal to them."""

    agent: str
    image: str
    """Digest of the environment."""
    driver: str
    """Driver, firmware and kernel of the machine, as one text."""
    hardware: str
    """What code is made for: CPU and GPU, as one text."""
    definitions: str
    """Digest of what is ours: workload, constants, recipes, golden, limits, harness."""
    fingerprint: str
    started: int
    """Seconds since 1970, UTC."""
    ending: Ending
    """Without expectations: that a failure was expected does not make it a pass."""
    phase: str = ""
    message: str = ""
    """In the form of `results.alike.normalised`."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it is green."""
        return self.ending == "pass"

    def fails_like(self, other: Trial) -> bool:
        """Whether both are the same failure."""
        mine = (self.ending, self.phase, self.message)
        return not self.passed and mine == (other.ending, other.phase, other.message)


def trial(result: Result, agent: str = "") -> Trial | None:
    """The trial that a result is; None when nothing was tried.

    `agent`: where it ran, if the result does not say.
    """
    ending = _ENDINGS.get(result.status)
    if ending is None:
        return None
    return Trial(
        agent=result.agent or agent,
        image=result.environment,
        driver=_told(result.hardware, _DRIVING),
        hardware=_told(result.hardware, _MACHINE),
        definitions=_definitions(result),
        fingerprint=result.fingerprint,
        started=epoch(result.started),
        ending=ending,
        phase=result.phase,
        message=normalised(result.message),
        evidence=result.evidence,
    )


def _told(table: Mapping[str, str | int], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {table[name]}" for name in names if table.get(name))


def _definitions(result: Result) -> str:
    """Empty when the result, of an early version, does not say."""
    if not result.parts:
        return ""
    ours = [result.workload_sha256, result.constants, result.parts]
    return hashlib.sha256(records.dumps(ours).encode()).hexdigest()
