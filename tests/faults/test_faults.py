"""Every kind of fault, through the same judgement."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.backends import jobdir
from tests.faults.bench import Bench, Fault, carry_out
from tests.faults.judging import complaints
from tests.faults.kinds import FAULTS, table

DOCUMENT = Path(__file__).parents[2] / "docs/faults.md"


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


def test_every_kind_is_documented_once() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 24
    assert table() in DOCUMENT.read_text(encoding="utf-8")
