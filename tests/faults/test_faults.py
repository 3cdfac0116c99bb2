"""Every kind of fault, through the same judgement."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.backends import jobdir
from tests.faults import at_the_seam, of_processes
from tests.faults.bench import Bench, Fault, carry_out
from tests.faults.judging import complaints

FAULTS = [*at_the_seam.fault.faults, *of_processes.fault.faults]


@pytest.mark.process
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_fault(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault.layer != "processes":  # nothing of the harness runs there, and copies take time
        monkeypatch.setattr(jobdir, "HARNESS_PARTS", ("job.py",))
    jobdir.harness_sha256.cache_clear()
    bench = Bench(tmp_path, monkeypatch)
    try:
        carry_out(fault, bench)
    finally:
        jobdir.harness_sha256.cache_clear()
    assert complaints(bench.aftermath(fault.kind)) == [], "\n".join(bench.said)
