"""A run that was planned in one place, run in others and is collected in a third.

Nobody waits for it in between: the folder of the plan travels from the one who planned to the one
who collects, and each job, as a line of text, to whoever runs it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends import executing, intake, ordering, parcel, slip
from orchestrator.backends.clock import Clock
from orchestrator.backends.executing import Ordered
from orchestrator.backends.handed import Handed, handed_job
from orchestrator.backends.handed import read as read_handed
from orchestrator.backends.handed import write as write_handed
from orchestrator.backends.intake import IntakeError, Taken
from orchestrator.backends.ordering import Terms
from orchestrator.backends.placing import Placed
from orchestrator.backends.signing import Signing, files, has_warrants
from orchestrator.errors import InfrastructureError
from orchestrator.order import JOB_FILE, ORDER_FILE
from orchestrator.results.artifacts import check_name
from orchestrator.results.files import write_atomically
from orchestrator.results.schema import Result, RunInfo
from orchestrator.results.store import Run, Runs

SLIPS = "slips"
"""Folder of a plan with a text for each job, `<job>.txt`."""
_TAKER = ".taken"
"""Of a file `<job>.taken`, with the name of the machine that began the job."""
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")


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
    handed: Handed,
    placed: Sequence[Placed],
    terms: Terms,
    signing: Signing | None,
    now: dt.datetime,
) -> None:
    """Writes the documents of jobs into the run, and as texts beside it.

    What was handed out is written last: a job that it does not name was never handed out.

    Args:
        folder: of the plan.
        run: in that folder.
        handed: the plan as it is without these jobs.
        placed: the jobs.
        terms: what their orders have in common.
        signing: signs those for registered agents; None: nobody does.
        now: aware of its time zone.

    Raises:
        UsageError: a job needs a file that is not in the repository.
        DefinitionError: a file changed since the run was planned.
        InfrastructureError: it cannot be written.
    """
    attempts = run.attempts()
    jobs = dict(handed.jobs)
    for each in placed:
        job = each.job
        slip.check_travels(job, terms.config.root)
        kept = _folder(run, job.id)
        with tempfile.TemporaryDirectory(dir=run.folder, prefix=".") as temporary:
            whole = Path(temporary) / job.id
            whole.mkdir()
            ordering.write(whole, job, terms)
            for name in (JOB_FILE, ORDER_FILE):
                write_atomically(kept / name, (whole / name).read_bytes())
            if signing is not None and not each.hosted:
                takers = (each.agent,) if each.agent else None
                ordered = executing.read(whole)
                made = signing.warrants(run, ordered, ordered.order.job, now, takers)
                for name, data in files(made).items():
                    write_atomically(whole / name, data)
            text = slip.encode(whole)
        write_atomically(folder / SLIPS / f"{job.id}.txt", f"{text}\n".encode())
        known = {c.id: attempts[c.id] for c in job.cells if c.id in attempts}
        jobs[job.id] = handed_job(each, known)
    write_handed(folder, dataclasses.replace(handed, jobs=jobs))


def _folder(run: Run, job: str) -> Path:
    return run.folder / "jobs" / check_name(job)


def collect(
    folder: Path, run: Run, back: Path, clock: Clock, say: Callable[[str], None], signing: Signing
) -> Collected:
    """Takes all that came back into the record of its run; a job of which nothing did is `miss`.

    What comes of a job that was signed has to be signed by who it was given to. What comes of
    another one is taken as it is, and is no agent's.

    Safe to repeat: what is in the record stays as it is, of whichever go at a cell.

    Args:
        folder: of the plan.
        run: claimed by this process.
        back: a folder with a parcel `<job>.tar.gz` for each job, however deep; of several for one
            job, the first that is whole counts. Files `<job>.taken` say who began what.
        clock: what the record goes by.
        say: gets a line for people about each job.
        signing: checks what is signed.

    Raises:
        InfrastructureError: the record cannot be written.
    """
    handed = read_handed(folder)
    handed = dataclasses.replace(handed, takers={**handed.takers, **_takers(back, handed.jobs)})
    found = _parcels(back)
    settled = handed.settled()
    results: list[Result] = []
    infos: list[RunInfo] = []
    notes = [f"{job}: came too late, and is left out" for job in settled if found.pop(job, None)]
    lost = []
    for job, what in handed.jobs.items():
        ordered = executing.read(_folder(run, job))
        archives = found.pop(job, [])
        taken, why = _first_whole(run, ordered, archives, what.before, clock, signing)
        if taken is None:
            why = why or _nothing(handed, ordered)
            say(f"job   {job}: {why}")
            results += intake.lose(run, ordered, what.before, why, clock.now())
            lost.append(job)
            continue
        say(f"job   {job}: {len(taken.results)} results")
        results += taken.results
        infos += [taken.info] if taken.info is not None else []
        notes += [f"{job}: {note}" for note in (*taken.notes, *([why] if why else []))]
    write_handed(folder, dataclasses.replace(handed, lost=tuple(lost)))
    notes += [f"{name}: results of a job that is not of this run" for name in sorted(found)]
    return Collected(results=tuple(results), infos=tuple(infos), notes=tuple(notes))


def _parcels(back: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(back.rglob(f"*{parcel.SUFFIX}")):
        if path.is_file() and not path.is_symlink():
            found.setdefault(path.name.removesuffix(parcel.SUFFIX), []).append(path)
    return found


def _takers(back: Path, jobs: Collection[str]) -> dict[str, str]:
    """Who began which job. What a machine wrote is no name until it looks like one."""
    found = {}
    for path in sorted(back.rglob(f"*{_TAKER}")):
        job = path.name.removesuffix(_TAKER)
        if job in jobs and path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                name = file.read(200).decode("ascii", "replace").strip()
            if _MACHINE.fullmatch(name):
                found[job] = name
    return found


def _nothing(handed: Handed, ordered: Ordered) -> str:
    """Why nothing came back of a job, as far as that is known. See `fleet.misses`."""
    job = ordered.order.job
    if job in handed.takers:
        return f"nothing came back of it: {handed.takers[job]} took it, and was lost"
    if handed.tells(job):
        return f"nothing came back of it: no machine of pool {ordered.job.pool} took the job"
    return "nothing came back of it: no machine took it, or the one that did was lost"


def _first_whole(
    run: Run,
    ordered: Ordered,
    archives: Sequence[Path],
    before: Mapping[str, int],
    clock: Clock,
    signing: Signing,
) -> tuple[Taken | None, str]:
    """What was taken in, and what was wrong with other parcels, or that there were more."""
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
                    numbers=before,
                    now=clock.now(),
                )
            except (parcel.ParcelError, IntakeError) as error:
                wrong.append(str(error))
                continue
        more = len(archives) - number
        wrong += [f"{more} more came back of it, and are left out"] if more else []
        return taken, "; ".join(wrong)
    return None, "; ".join(wrong)


def only_run(folder: Path) -> Run:
    """The run in a plan's folder.

    Raises:
        InfrastructureError: there is none, or there are several.
    """
    runs = Runs(folder).all()
    if len(runs) != 1:
        raise InfrastructureError(f"{folder} is no folder that `lh-ci plan --out` wrote")
    return runs[0]
