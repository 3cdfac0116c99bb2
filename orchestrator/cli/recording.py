"""Having the framework compute outputs, in the engine that cells run in."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.backends import jobdir
from orchestrator.backends.base import Attempt
from orchestrator.backends.local import LocalRunner
from orchestrator.backends.perform import default_workers, sweep
from orchestrator.backends.signals import stopping
from orchestrator.cli.app import App
from orchestrator.cli.report import TextReporter, console
from orchestrator.cli.selecting import workload_files
from orchestrator.engines.base import Environment
from orchestrator.errors import InfrastructureError
from orchestrator.goldens import Recording, read_npz
from orchestrator.job import Artifact, Hello, Job, Status
from orchestrator.plan import PlannedCell, make_jobs
from orchestrator.results.artifacts import ArtifactError, Budget
from orchestrator.results.files import unwritable


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A cell that could not be recorded."""

    cell: str
    status: Status
    tier: str
    phase: str
    message: str


@dataclass(kw_only=True)
class Recorded:
    """What the framework computed, and what it could not."""

    recordings: list[Recording] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)


def record(app: App, cells: Sequence[PlannedCell], engine_name: str) -> Recorded:
    """Runs each cell's workload in the framework alone; nothing is lowered.

    Raises:
        InfrastructureError: no engine, or no disk.
    """
    engine, note = app.engine(engine_name)
    out = console(stderr=True)
    out.print(f"engine {note or engine.name}")
    config = app.services.load(app.root, goldens=False)
    files = workload_files(config, cells)
    with (
        _folder(app.state) as folder,
        TextReporter(out, config.pins, len(cells)) as reporter,
        stopping(reporter.note),
    ):
        sweep(engine, reporter.note)
        observer = _Collector(cells, reporter)

        def place(job: Job) -> tuple[Job, Path]:
            path = folder / job.id
            path.mkdir()
            return jobdir.write(path, job, files), path

        runner = LocalRunner(engine, place, limits=app.services.limits, clock=app.services.clock)
        bare = [
            dataclasses.replace(p, cell=dataclasses.replace(p.cell, golden=None)) for p in cells
        ]
        jobs = make_jobs(
            bare,
            workers=default_workers(app.host),
            toolchain="auto",
            keep="never",
            mode="record",
            run=folder.name,
        )
        runner.execute(jobs, observer)
    return observer.recorded


@contextlib.contextmanager
def _folder(state: Path) -> Iterator[Path]:
    """A folder for jobs, gone afterwards."""
    try:
        (state / "record").mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="golden-", dir=state / "record"))
    except OSError as error:
        raise unwritable(state / "record", error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Collector:
    """Keeps what cells send instead of writing it."""

    def __init__(self, cells: Sequence[PlannedCell], reporter: TextReporter) -> None:
        self._planned = {planned.cell.id: planned for planned in cells}
        self._reporter = reporter
        self._files: dict[str, dict[str, bytes]] = {}
        self._done = 0
        self.recorded = Recorded()

    def preparing(self, stack: str) -> None:
        self._reporter.preparing(stack)

    def progress(self, line: str) -> None:
        self._reporter.progress(line)

    def prepared(self, environment: Environment, seconds: float) -> None:
        self._reporter.prepared(environment, seconds)

    def ready(self, job: Job, hello: Hello, start_seconds: float) -> None:
        pass

    def began(self, cell: str, stage: str, attempt: int) -> None:  # noqa: ARG002
        if not stage:
            self._files[cell] = {}
        self._reporter.began(cell, stage)

    def artifact(self, event: Artifact, attempt: int) -> None:  # noqa: ARG002
        try:
            data = Budget().take(event.name, event.data)
        except ArtifactError as error:
            self._reporter.note(f"{event.cell}: {error}")
            return
        self._files.setdefault(event.cell, {})[event.name] = data

    def attempted(self, attempt: Attempt) -> None:
        if not attempt.final:
            return
        outcome, planned = attempt.outcome, self._planned[attempt.cell.id]
        status: Status = outcome.status
        message = outcome.message
        if status == "pass":
            try:
                self.recorded.recordings.append(self._recording(attempt))
            except (InfrastructureError, ValueError, KeyError, TypeError) as error:
                status, message = "miss", f"what the harness recorded cannot be used: {error}"
        if status != "pass":
            self.recorded.troubles.append(
                Trouble(
                    cell=attempt.cell.id,
                    status=status,
                    tier=planned.tier,
                    phase=outcome.phase,
                    message=message,
                )
            )
        self._reporter.ended(attempt.cell.id, status, outcome.phase, attempt.seconds)

    def note(self, line: str) -> None:
        self._reporter.note(line)

    def enough(self) -> bool:
        return False

    def _recording(self, attempt: Attempt) -> Recording:
        files = self._files.pop(attempt.cell.id, {})
        about = json.loads(files["golden.json"])
        return Recording(
            workload=attempt.cell.workload.name,
            variant=attempt.cell.variant,
            outputs=read_npz(files["golden.npz"]),
            source=str(about["source"]),
            inputs_sha256=str(about["inputs_sha256"]),
            workload_sha256=attempt.cell.workload.sha256,
            versions=attempt.hello.versions if attempt.hello else {},
        )
