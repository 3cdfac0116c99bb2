"""What differs between two attempts, and since a cell was green."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.results.changes import Change, changes, since_green
from orchestrator.results.schema import Result
from orchestrator.results.store import Runs
from tests.backends.samples import MOMENT
from tests.results.test_store import result

BEFORE: dict[str, Any] = {
    "engine": "docker",
    "environment": "sha256:1",
    "toolchain": "release",
    "versions": {"torch": "2.13.0", "mlir-opt": "22.1.8"},
    "hardware": {
        "cpu_model": "Intel Xeon",
        "cpu_flags": "avx2 avx512f",
        "cpus": 2,
        "memory_bytes": 7,
        "kernel": "Linux 6.1",
        "gpu_name": "NVIDIA H100",
        "gpu_driver": "550.54",
    },
    "device": {"driver": "cuda", "driver_version": "12.4", "chip": "sm_90"},
    "workload_sha256": "aa",
    "constants": {"BATCH": 8},
    "parts": {"recipe tile": "#0123456789ab", "timeout": "60.0", "harness": "#aaaaaaaaaaaa"},
}


def differing(**changed: Any) -> list[str]:
    found = changes(result(**BEFORE), result(**{**BEFORE, **changed}))
    return [str(change) for change in found]


def hardware(**changed: Any) -> dict[str, Any]:
    table = {**BEFORE["hardware"], **changed}
    return {"hardware": {key: value for key, value in table.items() if value is not None}}


def test_nothing_differs() -> None:
    assert differing() == []
    assert differing(seconds=9.0, message="x", status="fail", run="s", fingerprint="f") == []


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"engine": "venv"}, ["engine docker -> venv"]),
        ({"environment": "sha256:2"}, ["environment changed"]),
        ({"toolchain": "bindings"}, ["toolchain release -> bindings"]),
        (
            {"versions": {"torch": "2.14.0", "numpy": "2.3"}},
            ["mlir-opt 22.1.8 is gone", "numpy 2.3 is new", "torch 2.13.0 -> 2.14.0"],
        ),
        (hardware(kernel="Linux 6.8"), ["kernel Linux 6.1 -> Linux 6.8"]),
        (hardware(cpus=4, memory_bytes=9), ["CPUs 2 -> 4"]),
        (
            hardware(cpu_flags="avx2 amx_tile"),
            ["CPU flag amx_tile is new", "CPU flag avx512f is gone"],
        ),
        (hardware(gpu_driver="560.28"), ["driver 550.54 -> 560.28"]),
        ({"workload_sha256": "bb"}, ["workload changed"]),
        ({"constants": {"BATCH": 9}}, ["constant BATCH 8 -> 9"]),
        ({"constants": {}}, ["constant BATCH 8 is gone"]),
        (
            {
                "parts": {
                    "recipe tile": "#0123456789ac",
                    "recipe fuse": "#0123456789ad",
                    "timeout": "90.0",
                    "harness": "#aaaaaaaaaaaa",
                }
            },
            ["recipe fuse is new", "recipe tile changed", "timeout 60.0 -> 90.0"],
        ),
    ],
)
def test_what_differs(changed: dict[str, Any], lines: list[str]) -> None:
    assert differing(**changed) == lines


@pytest.mark.parametrize(
    "unknown",
    [
        {"versions": {}, "hardware": {}, "device": {}, "parts": {}, "toolchain": ""},
        {"environment": ""},
        {"device": {}},
        hardware(gpu_driver=None, gpu_name=None),
    ],
)
def test_what_is_not_known_has_not_changed(unknown: dict[str, Any]) -> None:
    """Such as of an attempt that was never started, or that never reached the device."""
    assert differing(**unknown) == []


def test_what_a_process_saw_counts_where_the_machine_tells_nothing() -> None:
    """Software GPUs have no driver of their own in the kernel."""
    before = {**BEFORE, **hardware(gpu_driver=None, gpu_name=None)}
    after = {**before, "device": {**BEFORE["device"], "driver_version": "12.8"}}
    assert [str(c) for c in changes(result(**before), result(**after))] == ["driver 12.4 -> 12.8"]
    assert differing(device={**BEFORE["device"], "driver_version": "12.8"}) == []


def keep(runs: Runs, status: str, started: str, attempt: int = 1, **more: Any) -> Result:
    run = runs.create(MOMENT)
    kept = result(run=run.name, status=status, started=started, attempt=attempt, **more)
    run.add(kept)
    return kept


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / ".lh")


def test_since_the_last_green_attempt(runs: Runs) -> None:
    keep(runs, "pass", "2026-11-18T00:00:00Z", **{**BEFORE, **hardware(gpu_driver="540.0")})
    green = keep(runs, "pass", "2026-11-19T00:00:00Z", **BEFORE)
    keep(runs, "miss", "2026-11-20T00:00:00Z")
    keep(runs, "pass", "2026-11-20T00:00:00Z", cell="b")
    red = keep(runs, "fail", "2026-11-21T00:00:00Z", **{**BEFORE, **hardware(gpu_driver="560.28")})
    keep(runs, "pass", "2026-11-22T00:00:00Z", **BEFORE)
    since = since_green(runs, red)
    assert since is not None
    assert (since.run, since.attempt, since.started) == (green.run, 1, green.started)
    assert since.changes == (Change(what="driver", before="550.54", after="560.28"),)


def test_the_same_run_can_hold_the_last_green_attempt(runs: Runs) -> None:
    run = runs.create(MOMENT)
    for attempt, status in enumerate(("pass", "pass", "fail"), 1):
        started = f"2026-11-2{attempt}T00:00:00Z"
        run.add(result(run=run.name, status=status, started=started, attempt=attempt))
    since = since_green(runs, run.latest()["a"])
    assert since is not None
    assert (since.attempt, since.changes) == (2, ())


def test_a_cell_that_was_never_green_or_is(runs: Runs) -> None:
    red = keep(runs, "fail", "2026-11-19T00:00:00Z")
    assert since_green(runs, red) is None
    green = keep(runs, "pass", "2026-11-20T00:00:00Z")
    assert since_green(runs, green) is None


def test_damaged_results_are_passed_over(runs: Runs) -> None:
    green = keep(runs, "pass", "2026-11-18T00:00:00Z")
    damaged = keep(runs, "pass", "2026-11-19T00:00:00Z")
    (runs.find(damaged.run).folder / "results/a.1.json").write_text("{")
    since = since_green(runs, keep(runs, "fail", "2026-11-20T00:00:00Z"))
    assert since is not None
    assert since.run == green.run


def test_another_cell_whose_name_begins_alike_is_another(runs: Runs) -> None:
    keep(runs, "pass", "2026-11-18T00:00:00Z", cell="a.1")
    assert since_green(runs, keep(runs, "fail", "2026-11-20T00:00:00Z")) is None
