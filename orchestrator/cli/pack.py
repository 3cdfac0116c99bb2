"""`lh-ci pack`: what a job left, as one file on its way back; on every backend."""

from __future__ import annotations

from pathlib import Path

import click

from orchestrator.cli.app import App, pass_app
from orchestrator.cli.params import examples
from orchestrator.errors import ExitCode, InfrastructureError
from orchestrator.results.files import unwritable


@click.command("pack", epilog=examples("lh-ci pack out out.tar.gz"))
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@pass_app
def command(app: App, /, out: Path, file: Path) -> int:
    """Make one FILE of OUT, the folder that `lh-ci exec` wrote. What FILE was before is gone.

    Where LH_AGENT says which registered agent this machine is, the file is signed with all keys of
    the agent, and only what ran under a warrant is. Elsewhere it is a plain archive.
    """
    from orchestrator.backends import parcel

    out, file = out.absolute(), file.absolute()
    try:
        file.unlink(missing_ok=True)  # what another job left there is never sent for this one
    except OSError as error:
        raise unwritable(file, error) from error
    if not out.is_dir():
        raise InfrastructureError(f"{out} is not there: lh-ci exec makes it")
    if (me := app.identity) is not None:
        me.pack(out, file, app.services.clock.now())
    else:
        parcel.pack(out, file, skip=("lock", "jobs"))
    return ExitCode.OK
