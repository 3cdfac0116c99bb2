"""`lh-ci exec`: the one argv that carries out a job, on every backend."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from rich.console import Console

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.cli.report import TextReporter
from orchestrator.errors import InfrastructureError, Interrupted, UsageError
from orchestrator.order import JOB_FILE, LOG_FILE
from orchestrator.results.files import unwritable
from orchestrator.text import counts, seconds

if TYPE_CHECKING:
    import datetime as dt

    from orchestrator.backends.executing import Ordered
    from orchestrator.backends.perform import Machine
    from orchestrator.fleet.identity import Identity
    from orchestrator.order import ExecSummary


@click.command(
    "exec",
    epilog=examples("lh-ci exec job/job.json --out out"),
)
@click.argument("job", type=click.Path(path_type=Path), metavar="JOBFOLDER/job.json")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where results, artifacts, log and summary go.",
)
@pass_app
def command(app: App, /, job: Path, out: Path) -> int:
    """Carry out a job that was planned elsewhere, and write what it comes to into DIR.

    This is what agents run: the job's folder has all that it needs, apart from the definitions of
    images, which come from this checkout. A finished DIR is left as it is; one that was
    interrupted goes on. When nobody reads the output any more, the job is stopped.

    Where LH_AGENT says which registered agent this machine is, the job has to have a warrant for
    it, which counts once: see docs/trust.md.
    """
    from orchestrator.backends import executing
    from orchestrator.order import read_summary

    if job.name != JOB_FILE:
        raise UsageError(f"{job}: a job is named by its document: JOBFOLDER/{JOB_FILE}")
    ordered = executing.read(job.parent.absolute())
    folder = out.absolute()
    before = executing.claim(ordered, folder)
    if (me := app.identity) is not None:
        _take_warrant(me, ordered, folder, app.services.clock.now())
        before = read_summary(folder)  # what was made under another warrant is gone
    if before is not None:
        click.echo(f"job   {before.job} was finished before, on {before.ended}")
        return before.exit
    with _until_nobody_listens():
        return _carry_out(app, ordered, folder).exit


def _take_warrant(me: Identity, ordered: Ordered, out: Path, now: dt.datetime) -> None:
    from orchestrator.results.store import Run

    with Run(out, ordered.order.run).claimed():
        refusal = me.begin(ordered.folder, ordered.order.job, out, now)
    if refusal is not None:
        raise InfrastructureError(str(refusal))


def _carry_out(app: App, ordered: Ordered, out: Path) -> ExecSummary:
    from orchestrator.backends import executing
    from orchestrator.engines.pins import read_pins
    from orchestrator.results.store import Run

    def choose(name: str) -> Machine:
        return app.machine(*app.engine(name))

    order = ordered.order
    with _logged(out / LOG_FILE) as screen:
        reporter = TextReporter(screen, read_pins(app.root), len(order.cells))
        screen.print(f"job   {order.job} of run {order.run}, {len(order.cells)} cells")
        try:
            with reporter:
                summary = executing.carry_out(
                    ordered, out, app.root, app.host, choose, app.services.clock, reporter
                )
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; what finished is kept in {out}. The same command goes on"
            ) from None
        latest = Run(out, order.run).latest()
        for result in latest.values():
            if result.message:
                screen.print(f"      {result.cell}: {result.message.splitlines()[0]}")
        screen.print(f"done  {counts([r.status for r in latest.values()])}")
        screen.print(f"      exit {summary.exit} after {seconds(summary.seconds)}")
        return summary


class _Tee(io.TextIOBase):
    """Standard output and a file; goes on with the file when nobody reads the output."""

    def __init__(self, first: TextIO, second: TextIO) -> None:
        self._first: TextIO | None = first
        self._second = second

    def write(self, text: str) -> int:
        if self._first is not None:
            try:
                self._first.write(text)
                self._first.flush()
            except OSError:
                self._first = None
        self._second.write(text)
        self._second.flush()
        return len(text)


@contextlib.contextmanager
def _logged(path: Path) -> Iterator[Console]:
    """A console that also writes to `path`, after what an earlier call wrote."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8", errors="replace")
    except OSError as error:
        raise unwritable(path, error) from error
    with file:
        yield Console(
            file=_Tee(sys.stdout, file),  # type: ignore[arg-type]
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
            force_terminal=False,
        )


@contextlib.contextmanager
def _until_nobody_listens() -> Iterator[None]:
    """Stops this process, as SIGTERM does, when the reader of its output goes away.

    An agent that is killed leaves its children running: nobody would collect what they compute,
    and they would be in the way of the next job.
    """
    try:
        descriptor = sys.stdout.fileno()
        piped = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):  # not a real file, or closed
        piped = False
    if piped:
        poller = select.poll()
        poller.register(descriptor, 0)  # errors are told whatever is asked for

        def watch() -> None:
            poller.poll()
            if not ended.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

        ended = threading.Event()
        threading.Thread(target=watch, daemon=True, name="lh-listener").start()
        try:
            yield
        finally:
            ended.set()
        return
    yield
