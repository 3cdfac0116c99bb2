"""Trials of one cell, on two machines, with two images."""

from __future__ import annotations

import dataclasses
from typing import Any

from orchestrator.fleet.trials import Trial

FAILED = Trial(
    agent="here",
    image="sha256:new",
    driver="gpu_driver 2",
    hardware="gpu_chip sm_90",
    definitions="today",
    fingerprint="f",
    started=100,
    ending="fail",
    phase="compare",
    message="wrong: # of #",
)
GREEN = dataclasses.replace(
    FAILED,
    image="sha256:old",
    definitions="before",
    driver="gpu_driver 1",
    fingerprint="g",
    started=1,
    ending="pass",
    phase="",
    message="",
)


def run(*, passed: bool, **changed: Any) -> Trial:
    """A control after the failure, which passes or fails in the same way."""
    after = dataclasses.replace(FAILED, started=200)
    if passed:
        after = dataclasses.replace(after, ending="pass", phase="", message="")
    return dataclasses.replace(after, **changed)


def golden(*, passed: bool, **changed: Any) -> Trial:
    """The last green image on the same machine."""
    return run(passed=passed, **{"image": "sha256:old", "fingerprint": "h", **changed})


def there(*, passed: bool, **changed: Any) -> Trial:
    """The failing image on a peer."""
    return run(passed=passed, **{"agent": "there", **changed})


def again(*, passed: bool, **changed: Any) -> Trial:
    """The same thing on the same machine."""
    return run(passed=passed, **changed)
