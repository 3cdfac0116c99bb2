"""Where results are: folders of runs and archives; each run folder is read once."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results import attribution
from orchestrator.results.declared import Declared
from orchestrator.results.history.archive import (
    SUFFIX,
    Archive,
    RunRecord,
    table_of,
    write,
)
from orchestrator.results.history.known import Known
from orchestrator.results.history.rows import Row, rows
from orchestrator.results.schema import RunInfo
from orchestrator.results.store import RUN_NAME, Run

_STAMPED = ("run.json", "plan.json", "declared.json")
_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Source:
    """An archive, and what it says of itself."""

    path: Path
    archive: Archive
    digest: bytes
    """SHA-256 of the file."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """All results below a folder."""

    sources: tuple[Source, ...]
    """By path."""
    problems: tuple[str, ...]
    """What could not be read; the rest counts."""


def find(folder: Path, cache: Path, progress: Callable[[str], None]) -> Found:
    """Archives and run folders directly in `folder`; runs are kept as archives in `cache`.

    A run whose files have not changed since is not read again. Archives of months come first, so
    that the archive of a run that a month has is left out.

    Raises:
        UsageError: there is no such folder.
        InfrastructureError: the cache cannot be written.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}. Results are in .lh/runs after `lh-ci run`")
    for _ in range(_TRIES):
        finding = _Finding(Known(cache))
        for path in sorted(folder.iterdir(), key=_months_first):
            if not path.name.startswith("."):
                finding.add(path, cache, progress)
        if not finding.vanished:
            break
    finding.known.keep()
    return Found(sources=tuple(finding.sources), problems=tuple(finding.problems))


def _months_first(path: Path) -> tuple[bool, str]:
    return RUN_NAME.match(path.name) is not None, path.name


class _Finding:
    """What was found of a folder so far."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.sources: list[Source] = []
        self.problems: list[str] = []
        self.vanished = False
        """Something went while it was looked at, as parts do when they are merged: what it became
        may have come too late to be listed.
        """
        self._seen: dict[str, RunRecord] = {}

    def add(self, path: Path, cache: Path, progress: Callable[[str], None]) -> None:
        """Takes a path of the folder, if it is a source."""
        try:
            if path.suffix == SUFFIX and path.is_file():
                archive, digest = self.known.archive(path)
                self._take(Source(path=path, archive=archive, digest=digest))
            elif RUN_NAME.fullmatch(path.name) and path.is_dir():
                self._take(of_run(Run(path), cache, progress, self.known))
            elif not path.exists() and not path.is_symlink():
                self.vanished = True
        except InfrastructureError as error:
            if path.exists():
                self.problems.append(str(error))
            else:
                self.vanished = True

    def _take(self, source: Source) -> None:
        news = False
        for record in source.archive.runs:
            self.problems += [f"{source.path.name}, {text}" for text in record.unread]
            if self._seen.setdefault(record.run, record) is record:
                news = True
            elif self._seen[record.run] != record:
                self.problems.append(
                    f"{source.path} has a run {record.run} that differs from the one before it, "
                    "which counts: lh-ci results verify"
                )
        if news or not source.archive.runs:
            self.sources.append(source)


def of_run(
    run: Run, cache: Path, progress: Callable[[str], None], known: Known | None = None
) -> Source:
    """The archive of a run folder, made when it is not there or not of this state; `known`: what
    archives said before.

    Raises:
        InfrastructureError: the run's own documents are damaged, or the cache cannot be written.
            Attempts that cannot be read are in `RunRecord.unread`.
    """
    stamp, known = _stamp(run), known or Known(None)
    path = cache / f"{run.name}.{hashlib.sha256(str(run.folder).encode()).hexdigest()[:8]}{SUFFIX}"
    if path.is_file():
        # of another version, or cut short: made again
        with contextlib.suppress(InfrastructureError):
            archive, digest = known.archive(path)
            if archive.stamp == stamp:
                return Source(path=path, archive=archive, digest=digest)
    progress(f"reading {run.name}")
    plan, info = run.plan(), _info(run)
    results, wrong = run.results()
    declared, unreadable = _declared(run)
    record = RunRecord(
        run=run.name,
        started=info.started,
        ended=info.ended,
        seconds=info.seconds,
        engine=info.engine,
        version=info.version,
        selection=plan.selection,
        cells=len(plan.cells),
        declared=declared.digest() if declared else "",
        # without this machine's folders: two machines say the same of the same run
        unread=tuple(text.replace(f"{run.folder}/", "") for text in (*wrong, *unreadable)),
    )
    archive = Archive(
        runs=(record,),
        declared={record.declared: declared} if declared else {},
        stamp=stamp,
    )
    attempted: list[Row] = list(rows(results, plan.cells, run.name, attribution.blamed(run)))
    write(path, table_of(attempted), archive)
    return Source(path=path, archive=archive, digest=known.archive(path)[1])


def _info(run: Run) -> RunInfo:
    """When a run was stopped before it wrote any, its name still says when it began."""
    if (run.folder / "run.json").exists():
        return run.info()
    day, _, time = run.name[:19].partition("T")
    return RunInfo(
        run=run.name,
        started=f"{day}T{time.replace('-', ':')}Z",
        engine="",
        engine_note="",
        version="",
    )


def _declared(run: Run) -> tuple[Declared | None, tuple[str, ...]]:
    """What was declared, and what is wrong with it; runs of earlier versions have none. Its
    results count all the same.
    """
    if not (run.folder / "declared.json").exists():
        return None, ()
    try:
        return run.declared(), ()
    except InfrastructureError as error:
        return None, (str(error),)


def _stamp(run: Run) -> str:
    """Changes whenever a file of the run does: names, sizes and times of all of them."""
    digest = hashlib.sha256()
    told = sorted((run.folder / attribution.FOLDER).glob("*.json"))
    for path in [*(run.folder / name for name in _STAMPED), *_results(run), *told]:
        if path.exists():
            state = path.stat()
            digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _results(run: Run) -> Iterable[Path]:
    return sorted((run.folder / "results").glob("*.json"))
