"""Runs on disk: one folder each, one document per attempt, nothing ever edited.

.lh/runs/2026-11-20T21-04-11/
  plan.json  run.json  declared.json
  results/<cell>.<attempt>.json
  artifacts/<cell>/…     IR, inputs, outputs
  jobs/<job>/            what was handed to the engine
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

from orchestrator import records
from orchestrator.config.suggest import nearest
from orchestrator.engines.locks import if_free
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.artifacts import check_name
from orchestrator.results.declared import Declared
from orchestrator.results.files import remove_temporary, unwritable, write_atomically
from orchestrator.results.schema import Result, RunInfo, RunPlan

RUN_NAME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2})(?:-(\d+))?")
_RESULT_NAME = re.compile(r"(?P<cell>[A-Za-z0-9_.@+-]+)\.(?P<attempt>\d+)\.json")

T = TypeVar("T")


class Run:
    """One run's folder."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        """Takes an existing folder; `name`: of the run that it is a part of, if not its own."""
        self.folder = folder
        self.name = name or folder.name

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Makes this process the one that works on the run; the kernel lets go when it dies.

        What one that was killed had half written is removed.

        Raises:
            UsageError: another process does.
        """
        with if_free(self.folder / "lock") as free:
            if not free:
                raise UsageError(f"run {self.name} is being run by another process")
            remove_temporary(self.folder)
            yield

    def begin(self, plan: RunPlan, declared: Declared) -> None:
        """Writes what a run begins with. The plan comes last: who has one can be gone on with."""
        self.write_declared(declared)
        self.write_plan(plan)

    def write_plan(self, plan: RunPlan) -> None:
        """Writes `plan.json`."""
        self._write("plan.json", plan)

    def plan(self) -> RunPlan:
        """Raises InfrastructureError when it is missing or damaged."""
        return self._read("plan.json", RunPlan)

    def write_declared(self, declared: Declared) -> None:
        """Writes `declared.json`."""
        self._write("declared.json", declared)

    def declared(self) -> Declared:
        """Raises InfrastructureError when it is missing or damaged."""
        return self._read("declared.json", Declared)

    def write_info(self, info: RunInfo) -> None:
        """Writes `run.json`, over an older one."""
        self._write("run.json", info)

    def info(self) -> RunInfo:
        """Raises InfrastructureError when it is missing or damaged."""
        return self._read("run.json", RunInfo)

    def info_so_far(self) -> RunInfo | None:
        """None: nothing was told of the run yet, or the file is damaged. No verdict is in it."""
        try:
            return self.info()
        except InfrastructureError:
            return None

    def add(self, result: Result) -> Path:
        """Writes the document of one attempt.

        Raises:
            InfrastructureError: it cannot be written, or this attempt has a document already.
        """
        path = self.folder / "results" / f"{result.cell}.{result.attempt}.json"
        if path.exists():
            raise InfrastructureError(f"{path} exists already: is another process in this run?")
        self._write(str(path.relative_to(self.folder)), result)
        return path

    def results(self) -> tuple[tuple[Result, ...], tuple[str, ...]]:
        """All readable results by cell and attempt, and what is wrong with the others."""
        found: list[Result] = []
        problems = []
        for path in sorted((self.folder / "results").glob("*.json")):
            match = _RESULT_NAME.fullmatch(path.name)
            try:
                result = self._read(str(path.relative_to(self.folder)), Result)
            except InfrastructureError as error:
                problems.append(str(error))
                continue
            if match is None or (result.cell, result.attempt) != (
                match["cell"],
                int(match["attempt"]),
            ):
                problems.append(f"{path}: its name does not fit what is in it")
                continue
            found.append(result)
        return tuple(sorted(found, key=lambda r: (r.cell, r.attempt))), tuple(problems)

    def attempts_of(self, cell: str) -> tuple[Result, ...]:
        """The readable attempts of one cell, in order."""
        found = []
        for path in (self.folder / "results").glob(f"{check_name(cell)}.*.json"):
            match = _RESULT_NAME.fullmatch(path.name)
            if match is None or match["cell"] != cell:
                continue
            with contextlib.suppress(InfrastructureError):
                result = self._read(str(path.relative_to(self.folder)), Result)
                if (result.cell, result.attempt) == (cell, int(match["attempt"])):
                    found.append(result)
        return tuple(sorted(found, key=lambda result: result.attempt))

    def latest(self) -> dict[str, Result]:
        """The last readable attempt of each cell."""
        return {result.cell: result for result in self.results()[0]}

    def attempts(self) -> dict[str, int]:
        """The highest attempt on disk of each cell, readable or not."""
        numbers: dict[str, int] = {}
        for path in (self.folder / "results").glob("*.json"):
            if match := _RESULT_NAME.fullmatch(path.name):
                cell = match["cell"]
                numbers[cell] = max(numbers.get(cell, 0), int(match["attempt"]))
        return numbers

    def unfinished(self) -> tuple[str, ...]:
        """Ids of runnable cells without a verdict: no result, or only a `miss`."""
        latest = self.latest()
        return tuple(
            planned.cell.id
            for planned in self.plan().cells
            if planned.runnable
            and (planned.cell.id not in latest or latest[planned.cell.id].status == "miss")
        )

    def write_artifact(self, cell: str, name: str, data: bytes) -> Path:
        """Writes a file that a cell left; the name has been checked, and is checked again."""
        path = self.artifacts(cell) / check_name(name)
        write_atomically(path, data)
        return path

    def artifacts(self, cell: str) -> Path:
        """The folder of what a cell left; it need not exist."""
        return self.folder / "artifacts" / check_name(cell)

    def clear_artifacts(self, cell: str) -> None:
        """Removes what an earlier attempt left."""
        shutil.rmtree(self.artifacts(cell), ignore_errors=True)

    def job_folder(self, job: str) -> Path:
        """A new, empty folder for a job's files; a taken name gets a suffix."""
        base = self.folder / "jobs" / check_name(job)
        return _new_folder(base)

    def _write(self, name: str, record: object) -> None:
        write_atomically(self.folder / name, records.dumps(record, indent=1).encode() + b"\n")

    def _read(self, name: str, kind: type[T]) -> T:
        path = self.folder / name
        try:
            return records.decode(kind, json.loads(path.read_bytes()))
        except FileNotFoundError:
            raise InfrastructureError(f"{path} is missing: the run did not get that far") from None
        except (OSError, ValueError) as error:
            raise InfrastructureError(f"{path} is damaged: {error}") from error


class Runs:
    """All runs of a workspace."""

    def __init__(self, state: Path) -> None:
        """Takes the state folder (`.lh`)."""
        self.folder = state / "runs"

    def last(self, cell: str, statuses: Collection[str], *, before: str) -> Result | None:
        """The last attempt of a cell with one of these statuses that started earlier than `before`.

        Of all runs, the newest first; what is damaged is passed over.
        """
        for run in self.all():
            found = [
                result
                for result in run.attempts_of(cell)
                if result.status in statuses and result.started < before
            ]
            if found:
                return max(found, key=lambda result: (result.started, result.attempt))
        return None

    def create(self, now: dt.datetime) -> Run:
        """A new run, named after the UTC time; a suffix when that second is taken.

        Raises:
            InfrastructureError: the folder cannot be made.
        """
        stamp = now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H-%M-%S")
        return Run(_new_folder(self.folder / stamp))

    def all(self) -> tuple[Run, ...]:
        """Every run, the newest first."""
        if not self.folder.is_dir():
            return ()
        keyed = []
        for path in self.folder.iterdir():
            match = RUN_NAME.fullmatch(path.name)
            if match and path.is_dir():
                keyed.append(((match[1], int(match[2] or 1)), path))
        return tuple(Run(path) for _, path in sorted(keyed, reverse=True))

    def find(self, name: str) -> Run:
        """A run by its name, or the newest for `last`.

        Raises:
            UsageError: no such run; suggests one.
        """
        runs = {run.name: run for run in self.all()}
        if not runs:
            raise UsageError(f"there are no runs in {self.folder} yet. Start one: lh-ci run")
        if name == "last":
            return next(iter(runs.values()))
        if name not in runs:
            meant = nearest(name, runs)
            hint = f"Did you mean {meant}?" if meant else f"The last is {next(iter(runs))}."
            raise UsageError(f"no run `{name}`. {hint}")
        return runs[name]


def utc(moment: dt.datetime) -> str:
    """ISO 8601 in UTC, to the second: `2026-11-20T21:04:11Z`."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _new_folder(base: Path) -> Path:
    """`base`, or `base-2`, `base-3`, … : the first that did not exist, now made."""
    number = 1
    while True:
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise unwritable(path, error) from error
        else:
            return path
