"""A machine's GPUs, one job at a time: also between workers, users and checkouts.

A job is handed all GPUs of a vendor, so there is one lock file for each vendor, in a folder that
everybody on the machine can write to. The kernel lets go of it when its holder dies, however it
dies. What stands in the file is for people, and for telling a holder that hangs.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator import records
from orchestrator.backends.clock import Clock
from orchestrator.backends.recovery import NAMES
from orchestrator.errors import InfrastructureError
from orchestrator.health.evidence import Vendor
from orchestrator.text import one_line, seconds

MORE_S = 900.0
"""What a job may take beyond the time limits of its cells: its start, its end, looks at the GPU."""
UNKNOWN_S = 6 * 3600.0
"""How long a holder is waited for that does not say how long it may take."""
_LOOK_S = 2.0
_SILENT = 3
"""Looks after which a holder that says nothing is told of."""
_BYTES = 512
"""Of what stands in the file: always as many, so that nobody reads half of it."""
_USUAL = Path("/run/lock")


class BusyError(InfrastructureError):
    """Somebody else has the GPU, and has had it for longer than it may."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """What the one who has the GPU writes into the lock file."""

    pid: int
    job: str
    since: float
    """Seconds since 1970, as `until`."""
    until: float
    """When its job has to be over."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The GPU is ours, or is not needed any more."""

    ours: bool
    after_death: bool = False
    """The one before died with it: what it started may still be there."""


def usual_folder() -> Path:
    """`/run/lock` where everybody can write to it, else the folder for temporary files."""
    return _USUAL if os.access(_USUAL, os.W_OK) else Path(tempfile.gettempdir())


@contextlib.contextmanager
def turn(
    folder: Path,
    job: str,
    vendor: Vendor,
    *,
    limit_s: float,
    clock: Clock,
    note: Callable[[str], None],
    enough: Callable[[], bool],
) -> Iterator[Turn]:
    """Holds the lock of a vendor's GPUs, after waiting for it: `note` is told for whom.

    Args:
        folder: of lock files.
        job: what the GPU is wanted for, in a word: others are told.
        vendor: of the GPU.
        limit_s: how long that may take, apart from start and end.
        clock: what waiting goes by.
        note: gets a line for people.
        enough: whether to stop waiting.

    Raises:
        BusyError: the one who has it should have been done by now; names its process.
        InfrastructureError: the lock file cannot be used.
    """
    file = folder / f"lighthouse-gpu-{vendor}.lock"
    descriptor = _opened(file)
    try:
        if not _wait(descriptor, vendor, clock, note, enough):
            yield Turn(ours=False)
            return
        before = _read(descriptor)
        now = clock.now().timestamp()
        until = now + limit_s + MORE_S
        _write(descriptor, Holder(pid=os.getpid(), job=job[:200], since=now, until=until))
        try:
            yield Turn(ours=True, after_death=before is not None)
        finally:
            _write(descriptor, None)
    finally:
        os.close(descriptor)


def _wait(
    descriptor: int,
    vendor: Vendor,
    clock: Clock,
    note: Callable[[str], None],
    enough: Callable[[], bool],
) -> bool:
    """Whether we have it; False: enough."""
    began = clock.monotonic()
    told: Holder | None = None
    silent = 0
    while not _taken(descriptor):
        holder = _read(descriptor)
        silent += holder is None
        # one who has just taken it says so in a moment
        if (holder is not None and holder != told) or silent == _SILENT:
            told = holder
            note(f"the {NAMES[vendor]} GPU is in use by {_shown(holder)}; waiting for it")
        late = (
            clock.now().timestamp() > holder.until
            if holder
            else clock.monotonic() > began + UNKNOWN_S
        )
        if late:
            raise BusyError(_hung(vendor, holder))
        if enough():
            return False
        clock.sleep(_LOOK_S)
    return True


def _hung(vendor: Vendor, holder: Holder | None) -> str:
    what = f"the {NAMES[vendor]} GPU is held by {_shown(holder)}"
    if holder is None:
        return f"{what}, for more than {seconds(UNKNOWN_S)}: look at who has the lock file open"
    state = f" ({held})" if (held := _state(holder.pid)) else ""
    limit = seconds(holder.until - holder.since)
    return (
        f"{what}, whose job may take {limit}: it hangs{state}. Look at process {holder.pid}, and "
        f"end it if nothing comes of it: kill {holder.pid}"
    )


def _shown(holder: Holder | None) -> str:
    if holder is None:
        return "a process that does not say who it is"
    since = dt.datetime.fromtimestamp(holder.since, dt.UTC)
    return f"process {holder.pid} (job {one_line(holder.job)}, since {since:%Y-%m-%d %H:%M:%S} UTC)"


def _state(pid: int) -> str:
    """What a process that does not get on is doing, if the kernel says so."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    states = {"D": "it waits in the kernel", "T": "it was stopped", "t": "a debugger has it"}
    return states.get(stat.rpartition(")")[2].split()[0], "")


def _opened(file: Path) -> int:
    """Everybody's file, whoever made it."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            # not made in passing: kernels keep users from that in folders such as /run/lock
            return os.open(file, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                made = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(made, 0o666)
                return made
            return os.open(file, flags)
    except OSError as error:
        raise InfrastructureError(
            f"the lock of this machine's GPUs, {file}, cannot be used: {error.strerror}. LH_LOCKS "
            "names a folder that everybody on this machine who uses its GPUs can write to"
        ) from error


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> Holder | None:
    """Written by anybody: only what has our form counts."""
    try:
        return records.decode(Holder, json.loads(os.pread(descriptor, _BYTES, 0)))
    except (ValueError, RecursionError):
        return None


def _write(descriptor: int, holder: Holder | None) -> None:
    text = "" if holder is None else records.dumps(holder)
    with contextlib.suppress(OSError):  # the lock holds all the same
        os.pwrite(descriptor, text.encode().ljust(_BYTES), 0)
