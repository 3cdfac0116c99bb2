"""Results of attempts, as the record has them."""

from __future__ import annotations

from typing import Any

from orchestrator import records
from orchestrator.results.schema import Result


def result(**changed: Any) -> Result:
    """One that passed, unless it says otherwise."""
    document: dict[str, Any] = {
        "run": "2026-11-20T21-04-11",
        "cell": "torch_cpu.mlp.f32@intel-cpu",
        "attempt": 1,
        "status": "pass",
        "phase": "",
        "message": "",
        "stages": [],
        "errors": [],
        "golden": "recorded",
        "last_words": "",
        "dropped_bytes": 0,
        "peak_memory_bytes": 0,
        "started": "2026-11-20T21:04:11Z",
        "seconds": 1.0,
        "engine": "docker",
        "environment": "sha256:new",
        "toolchain": "release",
        "versions": {},
        "hardware": {},
        "isolation": None,
        "argv": [],
        "workload_sha256": "0" * 64,
        "constants": {},
        "tier": "core",
        "fingerprint": "f" * 32,
        "parts": {"harness": "#000000000000"},
        "reproduce": "lh-ci run",
    }
    return records.decode(Result, {**document, **changed})
