"""A run that was planned in one place, run in others and is collected in a third.

Nobody waits for it in between: the folder of the plan travels from the one who planned to the one
who collects, and each job, as a line of text, to whoever runs it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends import executing, intake, ordering, parcel, slip
from orchestrator.backends.clock import Clock
from orchestrator.backends.executing import Ordered
from orchestrator.backends.intake import IntakeError, Taken
from orchestrator.backends.ordering import Terms
from orchestrator.backends.placing import Placed
from orchestrator.backends.signing import Signing, files, has_warrants
from orchestrator.errors import InfrastructureError
from orchestrator.order import JOB_FILE, ORDER_FILE
from orchestrator.results.files import write_atomically
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, Runs

SLIPS = "slips"
"""Folder of a plan with a text for each job, `<job>.txt`."""
_PROBATION = "probation.json"


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What came back of a run."""

    results: tuple[Result, ...]
    infos: tuple[RunInfo, ...]
    """What machines say of their environments."""
    notes: tuple[str, ...]
    """What was odd, for people."""


def write(
    folder: Path,
    run: Run,
    placed: Sequence[Placed],
    terms: Terms,
    signing: Signing | None,
    now: dt.datetime,
) -> None:
    """Writes the documents of all jobs into the run, and as texts beside it.

    Args:
        folder: of the plan.
        run: in that folder.
        placed: the jobs.
        terms: what their orders have in common.
        signing: signs those for registered agents; None: nobody does.
        now: aware of its time zone.

    Raises:
        UsageError: a job needs a file that is not in the repository.
        DefinitionError: a file changed since the run was planned.
        InfrastructureError: it cannot be written.
    """
    quiet = [cell.id for each in placed if each.probation for cell in each.job.cells]
    write_atomically(folder / _PROBATION, json.dumps(quiet, indent=1).encode())
    for each in placed:
        job = each.job
        slip.check_travels(job, terms.config.root)
        kept = run.job_folder(job.id)
        with tempfile.TemporaryDirectory(dir=run.folder, prefix=".") as temporary:
            whole = Path(temporary) / job.id
            whole.mkdir()
            ordering.write(whole, job, terms)
            for name in (JOB_FILE, ORDER_FILE):
                shutil.copyfile(whole / name, kept / name)
            if signing is not None and not each.hosted:
                takers = (each.agent,) if each.agent else None
                ordered = executing.read(whole)
                made = signing.warrants(run, ordered, ordered.order.job, now, takers)
                for name, data in files(made).items():
                    write_atomically(whole / name, data)
            text = slip.encode(whole)
        write_atomically(folder / SLIPS / f"{kept.name}.txt", f"{text}\n".encode())


def collect(
    run: Run, back: Path, clock: Clock, say: Callable[[str], None], signing: Signing
) -> Collected:
    """Takes all that came back into the record of its run; a job of which nothing did is `miss`.

    What comes of a job that was signed has to be signed by who it was given to. What comes of
    another one is taken as it is, and is no agent's.

    Safe to repeat.

    Args:
        run: claimed by this process.
        back: a folder with a parcel `<job>.tar.gz` for each job, however deep; of several for one
            job, the first that is whole counts.
        clock: what the record goes by.
        say: gets a line for people about each job.
        signing: checks what is signed.

    Raises:
        InfrastructureError: the record cannot be written.
    """
    found = _parcels(back)
    results: list[Result] = []
    infos: list[RunInfo] = []
    notes: list[str] = []
    for folder in sorted((run.folder / "jobs").iterdir()):
        ordered = executing.read(folder)
        job = ordered.order.job
        taken, why = _first_whole(run, ordered, found.pop(job, []), clock, signing)
        if taken is None:
            say(f"job   {job}: {why}")
            results += intake.lose(run, ordered, {}, why, clock.now())
            continue
        say(f"job   {job}: {len(taken.results)} results")
        results += taken.results
        infos += [taken.info] if taken.info is not None else []
        notes += [f"{job}: {note}" for note in (*taken.notes, *([why] if why else []))]
    notes += [f"{name}: results of a job that is not of this run" for name in sorted(found)]
    return Collected(results=tuple(results), infos=tuple(infos), notes=tuple(notes))


def _parcels(back: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(back.rglob(f"*{parcel.SUFFIX}")):
        if path.is_file() and not path.is_symlink():
            found.setdefault(path.name.removesuffix(parcel.SUFFIX), []).append(path)
    return found


def _first_whole(
    run: Run, ordered: Ordered, archives: Sequence[Path], clock: Clock, signing: Signing
) -> tuple[Taken | None, str]:
    """What was taken in, and what was wrong with other parcels, or that there were more."""
    if not archives:
        return None, "nothing came back of it: no machine took it, or the one that did was lost"
    wrong = []
    key = ordered.order.job
    signing = dataclasses.replace(signing, unsigned=not has_warrants(run, key))
    for number, archive in enumerate(archives, 1):
        with tempfile.TemporaryDirectory(dir=run.folder, prefix=".") as temporary:
            try:
                taken = signing.take(
                    run,
                    ordered,
                    archive,
                    Path(temporary) / "out",
                    key=key,
                    machine="",
                    numbers={},
                    now=clock.now(),
                )
            except (parcel.ParcelError, IntakeError) as error:
                wrong.append(str(error))
                continue
        more = len(archives) - number
        wrong += [f"{more} more came back of it, and are left out"] if more else []
        return taken, "; ".join(wrong)
    return None, "; ".join(wrong)


def on_probation(folder: Path) -> frozenset[str]:
    """Cells that no trusted agent has run: they turn nothing red.

    Raises:
        InfrastructureError: the plan is damaged.
    """
    try:
        return frozenset(json.loads((folder / _PROBATION).read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise InfrastructureError(f"{folder / _PROBATION} is damaged: {error}") from error


def only_run(folder: Path) -> Run:
    """The run in a plan's folder.

    Raises:
        InfrastructureError: there is none, or there are several.
    """
    runs = Runs(folder).all()
    if len(runs) != 1:
        raise InfrastructureError(f"{folder} is no folder that `lh-ci plan --out` wrote")
    return runs[0]
