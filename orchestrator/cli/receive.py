"""`lh-ci receive`: a job's folder from what was handed over as text."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TextIO

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.errors import ExitCode, UsageError
from orchestrator.text import plural

_MAX_TEXT = 16 << 20


@click.command("receive", epilog=examples("lh-ci receive plan/slips/JOB.txt job"))
@click.argument("slip", type=click.File("r", encoding="ascii", errors="replace"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@pass_app
def command(app: App, /, slip: TextIO, folder: Path) -> int:
    """Make the folder of a job again, from SLIP and this checkout; `-` is standard input.

    The checkout must be of the commit that the job was planned in: every file is checked. What is
    in DIR is replaced, if it is a job; then: lh-ci exec DIR/job.json --out out
    """
    from orchestrator.backends.slip import restore
    from orchestrator.order import JOB_FILE

    text = slip.read(_MAX_TEXT)
    folder = Path.cwd() / folder
    if folder.exists():
        if any(folder.iterdir()) and not (folder / JOB_FILE).exists():
            raise UsageError(f"{folder} has something in it that is no job")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    job = restore(text, folder, app.root)
    click.echo(f"job   {job.id}: {plural(len(job.cells), 'cell')} of {job.stack} on {job.pool}")
    return ExitCode.OK
