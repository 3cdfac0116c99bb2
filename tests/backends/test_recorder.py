"""What is kept of an attempt on a GPU."""

from __future__ import annotations

from pathlib import Path

from orchestrator.backends.base import Attempt
from orchestrator.backends.recorder import Recorder
from orchestrator.cli.report import SilentReporter
from orchestrator.health.evidence import Evidence
from orchestrator.order import CellTerms
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Runs, utc
from tests.backends.samples import MOMENT, cell
from tests.fakes import HELLO, fail

SEEN = Evidence(kind="xid", blame="program", text="NVRM: Xid 31", gpu="0000:65:00", code="31")


def record(folder: Path, **gpu: str) -> Result:
    run = Runs(folder).create(MOMENT)
    recorder = Recorder(
        run,
        RunInfo(run=run.name, started=utc(MOMENT), engine="docker", engine_note="", version="0"),
        {"a": CellTerms(tier="core", reproduce="nox -s a")},
        expectations=(),
        today=MOMENT.date(),
        reporter=SilentReporter(lambda line: None),
    )
    recorder.attempted(
        Attempt(
            cell=cell("a"),
            stack="pytorch",
            number=1,
            final=True,
            outcome=fail("an illegal address", "execute"),
            started=MOMENT,
            seconds=1.0,
            environment=None,
            hello=HELLO,
            isolation=None,
            argv=(),
            gpu=gpu,
            evidence=(SEEN,),
        )
    )
    (kept,) = run.latest().values()
    return kept


def test_gpus_and_what_was_seen_of_them_are_in_the_result(tmp_path: Path) -> None:
    kept = record(tmp_path, gpu_name="NVIDIA H100", gpu_driver="550.54")
    assert kept.hardware["gpu_driver"] == "550.54"
    assert kept.hardware["cpu_model"] == "Intel Xeon"
    assert kept.evidence == (SEEN,)
    assert kept.parts["ingress"] == "torch_mlir"


def test_another_driver_is_another_fingerprint(tmp_path: Path) -> None:
    old, new, none = (
        record(tmp_path, **facts).fingerprint
        for facts in ({"gpu_driver": "550.54"}, {"gpu_driver": "560.28"}, {})
    )
    assert len({old, new, none}) == 3
