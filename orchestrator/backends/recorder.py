"""From attempts to results on disk: verdicts, fingerprints, artifacts, spans."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Protocol

from orchestrator.backends.base import Attempt
from orchestrator.backends.jobdir import harness_sha256
from orchestrator.config.models import Expectation
from orchestrator.engines.base import Environment
from orchestrator.job import Artifact, Hello, Job
from orchestrator.order import CellTerms
from orchestrator.results import verdict
from orchestrator.results.artifacts import ArtifactError, Budget
from orchestrator.results.fingerprint import fingerprint, parts
from orchestrator.results.schema import Result, RunInfo, Span
from orchestrator.results.store import Run, utc


class Reporter(Protocol):
    """Who shows people what happens."""

    def preparing(self, stack: str) -> None:
        """A stack's environment is being made ready."""

    def progress(self, line: str) -> None:
        """One line about that work."""

    def prepared(self, environment: Environment, seconds: float) -> None:
        """It is ready."""

    def began(self, cell: str, stage: str) -> None:
        """A cell entered a stage."""

    def finished(self, result: Result, *, final: bool) -> None:
        """An attempt has its result; not `final`: it is tried again."""

    def note(self, line: str) -> None:
        """Something odd."""


class Recorder:
    """The observer of a run: keeps everything, and tells a reporter."""

    def __init__(
        self,
        run: Run,
        info: RunInfo,
        terms: Mapping[str, CellTerms],
        *,
        expectations: Sequence[Expectation],
        today: dt.date,
        reporter: Reporter,
        fail_fast: bool = False,
        harness: str | None = None,
    ) -> None:
        """Takes an open run, and the terms of its cells.

        `harness`: digest of the one that the jobs bring; None: it is this package's.
        """
        self._run = run
        self._terms = terms
        self._expectations = expectations
        self._today = today
        self._reporter = reporter
        self._fail_fast = fail_fast
        self._harness = harness or harness_sha256()
        self._budgets: dict[tuple[str, int], Budget] = {}
        self._refused: set[str] = set()
        self.info = info
        self.results: dict[str, Result] = {}
        """The last attempt of each cell."""

    def preparing(self, stack: str) -> None:
        """See `Observer`."""
        self._reporter.preparing(stack)

    def progress(self, line: str) -> None:
        """See `Observer`."""
        self._reporter.progress(line)

    def prepared(self, environment: Environment, seconds: float) -> None:
        """See `Observer`."""
        others = [e for e in self.info.environments if e.stack != environment.stack]
        self._add_span(
            Span(kind="prepare", name=environment.stack, seconds=seconds),
            environments=(*others, environment),
        )
        self._reporter.prepared(environment, seconds)

    def ready(self, job: Job, hello: Hello, start_seconds: float) -> None:
        """See `Observer`."""
        outside = max(0.0, start_seconds - hello.seconds)
        self._add_span(Span(kind="start", name=job.id, seconds=outside))
        self._add_span(Span(kind="harness", name=job.id, seconds=hello.seconds))

    def began(self, cell: str, stage: str, attempt: int) -> None:  # noqa: ARG002
        """See `Observer`."""
        if not stage:
            # of an earlier attempt, or of one that was under way when we were killed
            self._run.clear_artifacts(cell)
        self._reporter.began(cell, stage)

    def artifact(self, event: Artifact, attempt: int) -> None:
        """See `Observer`; what breaks the bounds is refused, once aloud for each cell."""
        budget = self._budgets.setdefault((event.cell, attempt), Budget())
        try:
            data = budget.take(event.name, event.data)
        except ArtifactError as error:
            if event.cell not in self._refused:
                self._refused.add(event.cell)
                self._reporter.note(f"{event.cell}: {error}")
            return
        self._run.write_artifact(event.cell, event.name, data)

    def attempted(self, attempt: Attempt) -> None:
        """See `Observer`."""
        result = self._result(attempt)
        self._run.add(result)
        self.results[result.cell] = result
        self._reporter.finished(result, final=attempt.final)

    def note(self, line: str) -> None:
        """See `Observer`."""
        self._reporter.note(line)

    def enough(self) -> bool:
        """See `Observer`: a core cell is red and the first red one was to be the last."""
        return self._fail_fast and verdict.is_red(self.results.values())

    def _add_span(self, span: Span, environments: tuple[Environment, ...] | None = None) -> None:
        self.info = dataclasses.replace(
            self.info,
            spans=(*self.info.spans, span),
            environments=self.info.environments if environments is None else environments,
        )
        self._run.write_info(self.info)

    def _result(self, attempt: Attempt) -> Result:
        outcome, terms = attempt.outcome, self._terms[attempt.cell.id]
        judged = verdict.judge(outcome, attempt.cell.id, self._expectations, self._today)
        hello = attempt.hello
        versions: Mapping[str, str] = hello.versions if hello else {}
        hardware = {**(hello.hardware if hello else {}), **attempt.gpu}
        toolchain = hello.toolchain if hello else ""
        environment = attempt.environment.digest if attempt.environment else ""
        return Result(
            run=self._run.name,
            cell=attempt.cell.id,
            attempt=attempt.number,
            status=judged.status,
            phase=judged.phase,
            message=judged.message,
            expectation=judged.expectation,
            notes=judged.notes,
            stages=outcome.stages,
            errors=outcome.errors,
            kernels=outcome.kernels,
            kernel_ns=outcome.kernel_ns,
            device=outcome.device,
            evidence=attempt.evidence,
            golden=outcome.golden,
            last_words=outcome.last_words,
            dropped_bytes=outcome.dropped_bytes,
            peak_memory_bytes=outcome.peak_memory_bytes,
            started=utc(attempt.started),
            seconds=round(attempt.seconds, 3),
            engine=self.info.engine,
            environment=environment,
            toolchain=toolchain,
            versions=versions,
            hardware=hardware,
            isolation=attempt.isolation,
            argv=attempt.argv,
            workload_sha256=attempt.cell.workload.sha256,
            constants=attempt.cell.workload.constants,
            tier=terms.tier,
            fingerprint=fingerprint(
                attempt.cell,
                environment=environment,
                toolchain=toolchain,
                versions=versions,
                hardware=hardware,
                harness_sha256=self._harness,
            ),
            parts=parts(attempt.cell, self._harness),
            reproduce=terms.reproduce,
        )
