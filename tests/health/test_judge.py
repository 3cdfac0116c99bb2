"""Whose failure it is, and what of all that was seen is kept."""

from __future__ import annotations

import pytest

from orchestrator.health.evidence import Blame, Evidence, distinct
from orchestrator.health.facts import facts
from orchestrator.health.judge import doubtful, fault, hung, judge
from orchestrator.host import Gpu
from orchestrator.job import Outcome, StageTime
from tests.fakes import PASS, fail

CELL = "torch.mlp.f32@nvidia-gpu"


def seen(blame: Blame, kind: str = "xid", code: str = "") -> Evidence:
    return Evidence(kind=kind, blame=blame, text=f"{kind} {blame}", code=code)


def ended(exit_: str, phase: str = "execute") -> Outcome:
    return fail("it failed", phase, stages=(StageTime(stage=phase, seconds=1.0, exit=exit_),))


@pytest.mark.parametrize(
    ("outcome", "evidence", "status"),
    [
        (ended("timeout"), [], "miss"),
        (ended("timeout"), [seen("unclear")], "miss"),
        (ended("timeout"), [seen("program", "aftermath")], "miss"),
        (ended("timeout"), [seen("program")], "fail"),
        (ended("timeout"), [seen("program"), seen("device")], "miss"),
        (ended("timeout", "lower:tile"), [seen("device")], "fail"),
        (ended("timeout", "compare"), [], "fail"),
        (ended("signal SIGSEGV"), [], "fail"),
        (ended("signal SIGSEGV"), [seen("unclear")], "miss"),
        (ended("signal SIGSEGV"), [seen("unclear"), seen("program")], "fail"),
        (ended("exit 3"), [seen("unclear")], "miss"),
        (ended("fail"), [seen("unclear")], "fail"),
        (ended("fail"), [seen("device")], "miss"),
        (ended("fail", "compare"), [seen("device")], "miss"),
        (ended("fail", "compare"), [seen("nobody")], "fail"),
        (PASS, [seen("device")], "pass"),
        (Outcome(status="error", phase="compare"), [seen("device")], "error"),
        (fail("no stages at all", "execute"), [], "fail"),
    ],
)
def test_whose_failure_it_is(outcome: Outcome, evidence: list[Evidence], status: str) -> None:
    judged = judge(outcome, evidence, CELL)
    assert judged.status == status
    assert (judged == outcome) == (status == outcome.status)
    assert judged.message.endswith(outcome.message)


def test_when_a_device_has_to_be_asked_before_it_is_used_again() -> None:
    assert hung(ended("timeout"))
    assert not hung(ended("timeout", "compare"))
    assert doubtful(Outcome(status="miss", phase="execute"))
    assert not doubtful(Outcome(status="miss", phase="ingress"))
    assert not doubtful(ended("signal SIGSEGV"))


@pytest.mark.parametrize(
    ("evidence", "index"),
    [
        ([], None),
        ([seen("nobody"), seen("unclear", "hang"), seen("program")], None),
        ([seen("program"), seen("device")], 1),
        ([seen("unclear", "hang"), seen("unclear", "reset")], 1),
        ([seen("program"), seen("unclear", "reset")], None),
    ],
)
def test_what_ends_a_job_at_once(evidence: list[Evidence], index: int | None) -> None:
    assert fault(evidence) == (None if index is None else evidence[index])


def test_a_flood_is_kept_short_with_the_gravest_first() -> None:
    flood = [seen("program", code=str(number % 20)) for number in range(1000)]
    kept = distinct([*flood, seen("device")])
    assert kept[0].blame == "device"
    assert len(kept) == 8
    assert len(set(kept)) == 8


def test_what_is_recorded_of_gpus() -> None:
    gpus = [
        Gpu(vendor="nvidia", name="H100", chip="sm_90", driver_version="550.54", firmware="96.0"),
        Gpu(vendor="nvidia", name="H100", chip="sm_90", driver_version="550.54", firmware="96.1"),
        Gpu(vendor="nvidia", name="A100", problem="its node may not be opened"),
        Gpu(vendor="intel", name="Arc"),
    ]
    assert facts(gpus, "nvidia") == {
        "gpu_name": "H100",
        "gpu_chip": "sm_90",
        "gpu_driver": "550.54",
        "gpu_firmware": "96.0, 96.1",
    }
    assert facts(gpus, "intel") == {"gpu_name": "Arc"}
    assert facts(gpus, "") == facts(gpus, "amd") == {}
