"""What differs between two attempts of a cell, and since it was green the last time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.results.fingerprint import DIGEST
from orchestrator.results.schema import Result
from orchestrator.results.store import Runs

GREEN = ("pass",)
_HARDWARE = {
    "kernel": "kernel",
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "gpu_name": "GPU",
    "gpu_chip": "GPU chip",
    "gpu_driver": "driver",
    "gpu_firmware": "firmware",
}
_DEVICE = {"device": "gpu_name", "chip": "gpu_chip", "driver_version": "gpu_driver"}
"""What a cell's process found on its GPU, by what the machine says of the same from outside."""


class Recorded(Protocol):
    """What an attempt says of its surroundings; see `Result`."""

    @property
    def agent(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def toolchain(self) -> str: ...
    @property
    def versions(self) -> Mapping[str, str]: ...
    @property
    def hardware(self) -> Mapping[str, str | int]: ...
    @property
    def device(self) -> Mapping[str, str | int]: ...
    @property
    def workload_sha256(self) -> str: ...
    @property
    def constants(self) -> Mapping[str, str | int | float | bool]: ...
    @property
    def parts(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """A `Recorded` by itself, as histories keep it."""

    agent: str = ""
    engine: str = ""
    environment: str = ""
    toolchain: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, str | int] = field(default_factory=dict)
    device: Mapping[str, str | int] = field(default_factory=dict)
    workload_sha256: str = ""
    constants: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that is not as it was."""

    what: str
    before: str
    """Empty: it was not there."""
    after: str
    """Empty: it is gone."""
    digest: bool = False
    """The values tell only that they differ."""

    def __str__(self) -> str:
        if not self.before:
            return f"{self.what} is new" if self.digest else f"{self.what} {self.after} is new"
        if not self.after:
            return f"{self.what} is gone" if self.digest else f"{self.what} {self.before} is gone"
        return (
            f"{self.what} changed" if self.digest else f"{self.what} {self.before} -> {self.after}"
        )


@dataclass(frozen=True, kw_only=True)
class SinceGreen:
    """How an attempt's surroundings differ from those of the last green attempt before it."""

    run: str
    attempt: int
    started: str
    """UTC, ISO 8601."""
    changes: tuple[Change, ...]


def since_green(runs: Runs, result: Result) -> SinceGreen | None:
    """What changed since a cell passed for the last time; None if it passes, or never has."""
    if result.status in GREEN:
        return None
    green = runs.last(result.cell, GREEN, before=result.started)
    if green is None:
        return None
    return SinceGreen(
        run=green.run,
        attempt=green.attempt,
        started=green.started,
        changes=changes(green, result),
    )


def changes(before: Recorded, after: Recorded) -> tuple[Change, ...]:
    """What differs between two attempts of a cell, of all that is recorded.

    What one of them does not know has not changed: an attempt that was never started has no
    versions, one that failed early saw no device.
    """
    return tuple(_changes(before, after))


def _changes(before: Recorded, after: Recorded) -> Iterator[Change]:
    yield from _one("agent", before.agent, after.agent)
    yield from _one("engine", before.engine, after.engine)
    yield from _one("environment", before.environment, after.environment, digest=True)
    yield from _one("toolchain", before.toolchain, after.toolchain)
    if before.versions and after.versions:
        yield from _all(before.versions, after.versions)
    for key, name in _HARDWARE.items():
        yield from _one(name, _text(before.hardware, key), _text(after.hardware, key))
    yield from _flags(_text(before.hardware, "cpu_flags"), _text(after.hardware, "cpu_flags"))
    for key, outside in _DEVICE.items():
        if not (outside in before.hardware and outside in after.hardware):
            name = _HARDWARE[outside]
            yield from _one(name, _text(before.device, key), _text(after.device, key))
    yield from _one("workload", before.workload_sha256, after.workload_sha256, digest=True)
    yield from _all(before.constants, after.constants, "constant ")
    if before.parts and after.parts:
        yield from _all(before.parts, after.parts)


def _one(what: str, before: str, after: str, *, digest: bool = False) -> Iterator[Change]:
    if before and after and before != after:
        yield Change(what=what, before=before, after=after, digest=digest)


def _all(
    before: Mapping[str, object], after: Mapping[str, object], prefix: str = ""
) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        old, new = _text(before, name), _text(after, name)
        if old != new:
            digest = _is_digest(old) and _is_digest(new)
            yield Change(what=f"{prefix}{name}", before=old, after=new, digest=digest)


def _flags(before: str, after: str) -> Iterator[Change]:
    if before and after:
        old, new = set(before.split()), set(after.split())
        for flag in sorted(old ^ new):
            was, is_ = (flag, "") if flag in old else ("", flag)
            yield Change(what=f"CPU flag {flag}", before=was, after=is_, digest=True)


def _text(table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    return "" if value is None else str(value)


def _is_digest(text: str) -> bool:
    """Whether text is nothing, or one of the digests that stand for what is long."""
    return not text or DIGEST.fullmatch(text) is not None
