"""The machine at hand as a backend: see `backends.base.Backend`. A submission is a folder.

Jobs run one after the other, each by the two lines of the contract, in processes that outlive
whoever started them. What is going on is read from the folders and from locks that the kernel
holds for those processes: a dispatcher that is killed and comes back finds the process again, or
goes on in the folder that it left. Nobody waits in between: the next job is begun by whoever
submits or watches.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator import records
from orchestrator.backends import parcel
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.clock import Clock
from orchestrator.backends.contract import ARGV, PACK, PACKED
from orchestrator.backends.local_places import (
    CANCELLED,
    DOCUMENT,
    EXIT,
    GROUP,
    Place,
    Submission,
    group_of,
    name_of,
    ticket_of,
)
from orchestrator.engines import locks
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.host import Host
from orchestrator.plan import Here
from orchestrator.results.files import unwritable, write_atomically

END_S = 60.0
"""After SIGTERM, for containers to be removed."""
_KILLED_S = 10.0
"""After SIGKILL; a process that hangs in the kernel may not end."""
_LOOK_S = 0.2
_LAUNCH = 'sh -c "$1" lh-go "$2" $$ &'
"""The process has no parent that waits for it, and a group of its own: `$$`."""
GO = f"""\
trap : TERM
echo "$2" > "$1/{GROUP}"
{shlex.join(ARGV)}
code=$?
{shlex.join(PACK)}
echo "$code" > "$1/code" && mv "$1/code" "$1/{EXIT}"
"""
"""One go, in the folder of a submission. `$1`: its own folder, `$2`: its process group."""


class ThisMachine(Here):
    """The machine at hand, as a fleet of one."""

    def serving(self, pool: str) -> tuple[Host, ...]:  # noqa: ARG002  whoever asks has planned
        """The machine."""
        return (self._host,)


class LocalMachine:
    """Processes of this machine, one job at a time."""

    name = "local"

    def __init__(
        self,
        folder: Path,
        *,
        machine: str,
        host: Host,
        environ: Mapping[str, str],
        sweep: Callable[[], None],
        program: Sequence[str] | None = None,
        clock: Clock | None = None,
        end_s: float = END_S,
    ) -> None:
        """Starts nothing yet.

        Args:
            folder: of all submissions; whoever names the same one sees the same.
            machine: what this one is called; the agent that it is, if it is one.
            host: this machine.
            environ: of the processes.
            sweep: removes containers whose orchestrator is dead.
            program: what `lh-ci` is; None: this installation.
            clock: what waiting goes by.
            end_s: how long a job that is cancelled may take to end.
        """
        self._folder = folder
        self._machine = machine
        self._host = host
        self._environ = environ
        self._sweep = sweep
        self._program = tuple(program or _this_program())
        self._clock = clock or Clock()
        self._end_s = end_s
        self.where = str(folder)

    def fleet(self) -> ThisMachine:
        """What there is."""
        return ThisMachine(self._host)

    def online(self) -> tuple[str]:
        """See `Backend.online`: it is there when we are."""
        return (self._machine,)

    def submit(self, parcel: Parcel) -> str:
        """See `Backend.submit`. There is one machine: who else alone may take it never will."""
        if parcel.agents is not None and self._machine not in parcel.agents:
            raise UsageError(
                f"job {parcel.job} is for {', '.join(parcel.agents)} alone, and this machine is "
                f"{self._machine}. Where it is one of them, LH_AGENT says so"
            )
        place = self._place(ticket_of(parcel.key))
        with self._alone():
            if not place.folder.exists():
                self._receive(parcel, place.folder)
            self._start_next()
        return place.ticket

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend.watch`."""
        with self._alone():
            self._start_next()
            return {ticket: self._sight(self._place(ticket)) for ticket in tickets}

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:  # noqa: ARG002
        """See `Backend.collect`."""
        place = self._place(ticket)
        goes = place.goes()
        source = place.folder / PACKED
        # a go that was lost is gone on with: what it left is in what the last one leaves
        if not goes or go != name_of(place, goes[-1]) or not (goes[-1] / EXIT).exists():
            raise NothingLeftError("it brought back no results")
        partial = archive.with_name(f".{archive.name}.part")
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
            if not source.is_file():
                raise NothingLeftError("it brought back no results")
            shutil.copyfile(source, partial)
            partial.replace(archive)
        except OSError as error:
            raise unwritable(archive, error) from error

    def cancel(self, ticket: str, why: str) -> None:
        """See `Backend.cancel`: SIGTERM, and SIGKILL for what does not end."""
        place = self._place(ticket)
        with self._alone():
            if not place.folder.exists() or place.over():
                return
            write_atomically(place.folder / CANCELLED, f"{why}\n".encode())
        if self._ended(place, signal.SIGTERM, self._end_s):
            return
        if not self._ended(place, signal.SIGKILL, _KILLED_S):
            raise InfrastructureError(
                f"job {place.ticket} does not end: its processes hang in the kernel (process "
                f"group {group_of(place)})"
            )
        self._sweep()

    def forget(self, job: str) -> None:
        """See `Backend.forget`: its folders are removed."""
        for place in self._places():
            if place.submission().job == job:
                self.cancel(place.ticket, "forgotten")
                with self._alone(), contextlib.suppress(FileNotFoundError):
                    place.folder.rename(self._folder / f".{place.ticket}.gone")
        for gone in self._folder.glob(".*.gone"):
            shutil.rmtree(gone, ignore_errors=True)

    # --- how --------------------------------------------------------------------------------

    def _place(self, ticket: str) -> Place:
        return Place(folder=self._folder / ticket_of(ticket))

    def _places(self) -> list[Place]:
        found = self._folder.glob(f"*/{DOCUMENT}")
        return [Place(folder=path.parent) for path in found if path.parent.name[0] != "."]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes these folders meanwhile."""
        with locks.exclusive(self._folder / ".lock", self.where, _quiet):
            yield

    def _receive(self, given: Parcel, folder: Path) -> None:
        """The folder of a submission, whole or not at all."""
        numbers = [place.submission().number for place in self._places()]
        submission = Submission(
            key=given.key,
            job=given.job,
            number=max(numbers, default=0) + 1,
            priority=given.priority,
        )
        making = self._folder / f".{folder.name}.new"
        shutil.rmtree(making, ignore_errors=True)
        parcel.unpack(given.archive, making / "job")
        write_atomically(making / DOCUMENT, records.dumps(submission).encode() + b"\n")
        making.rename(folder)

    def _start_next(self) -> None:
        """Begins the next go, unless one runs."""
        places = self._places()
        if any(place.alive() for place in places):
            return
        waiting = [(place.submission(), place) for place in places if not place.over()]
        if waiting:
            _, place = min(waiting, key=lambda each: (-each[0].priority, each[0].number))
            self._start(place)

    def _start(self, place: Place) -> None:
        go = place.folder / "goes" / str(len(place.goes()) + 1)
        programs = place.folder / "bin"
        alive = locks.take(place.folder / "alive")
        if alive is None:  # whoever looks at it at this moment; the next look begins it
            return
        try:
            (place.folder / PACKED).unlink(missing_ok=True)
            write_atomically(programs / "lh-ci", _launcher(self._program))
            (programs / "lh-ci").chmod(0o755)
            go.mkdir(parents=True)
            with (place.folder / "log.txt").open("ab") as log:
                subprocess.run(
                    ["sh", "-c", _LAUNCH, "sh", GO, f"goes/{go.name}"],
                    cwd=place.folder,
                    env={**self._environ, "PATH": f"{programs}:{self._environ.get('PATH', '')}"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(alive,),
                    check=True,
                )
        except (OSError, subprocess.CalledProcessError) as error:
            raise InfrastructureError(
                f"job {place.ticket} cannot be started in {place.folder}: {error}"
            ) from error
        finally:
            os.close(alive)

    def _ended(self, place: Place, number: signal.Signals, limit_s: float) -> bool:
        """Sends a signal to what runs; whether it ends in time."""
        began, sent = self._clock.monotonic(), False
        while place.alive():
            if not sent and (group := group_of(place)):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, number)
                sent = True
            if self._clock.monotonic() > began + limit_s:
                return False
            self._clock.sleep(_LOOK_S)
        return True

    def _sight(self, place: Place) -> Sight:
        if not place.folder.exists():
            return Sight(goes=(), ended=True)
        alive, cancelled, folders = place.alive(), place.cancelled(), place.goes()
        goes = []
        for folder in folders:
            last = folder == folders[-1]
            runs, stopped = last and alive, last and cancelled
            lost = not runs and (stopped or not (folder / EXIT).exists())
            what = "it was cancelled" if stopped else "it was killed, or the machine was"
            goes.append(
                Go(
                    id=name_of(place, folder),
                    machine=self._machine,
                    ended=not runs,
                    lost=lost,
                    cancelled=lost and stopped,
                    why=f"{self._machine}: {what}" if lost else "",
                )
            )
        over = place.over()
        return Sight(goes=tuple(goes), ended=over, cancelled=over and cancelled)


def _quiet(line: str) -> None:
    """Others are done in a moment."""


def _this_program() -> tuple[str, ...]:
    """`lh-ci` of this installation, wherever it is started."""
    package = str(Path(__file__).parents[2])
    start = (
        f"import sys; sys.path.insert(0, {package!r}); from orchestrator.cli import main; main()"
    )
    return (sys.executable, "-P", "-c", start)


def _launcher(program: Sequence[str]) -> bytes:
    return f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n'.encode()
