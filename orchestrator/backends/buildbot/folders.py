"""The folders of a master and of a worker, made ready for Buildbot's own commands to start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from orchestrator.backends.buildbot.fleet import Fleet, write_fleet, write_secret
from orchestrator.errors import InfrastructureError
from orchestrator.results.files import write_atomically

PASSWORD_FILE = "password"  # noqa: S105  the name of a file
_RUNNER = "import sys; from buildbot.scripts.runner import run; sys.exit(run())"

MASTER_CFG = """\
# Written by `lh-ci buildbot master`. What is served is in fleet.json, passwords are in secrets/.
from orchestrator.backends.buildbot.master import configuration

BuildmasterConfig = configuration(basedir)
"""

WORKER_TAC = """\
# Written by `lh-ci buildbot worker`.
import os
import stat

from buildbot_worker.bot import Worker
from twisted.application import service
from twisted.python.log import FileLogObserver, ILogObserver
from twisted.python.logfile import LogFile

basedir = os.path.abspath(os.path.dirname(__file__))
application = service.Application('buildbot-worker')
log = os.path.join(basedir, "twistd.log")
logfile = LogFile.fromFullPath(log, rotateLength=10000000, maxRotatedFiles=5)
application.setComponent(ILogObserver, FileLogObserver(logfile).emit)

secret = os.path.join(basedir, {password!r})
if stat.S_IMODE(os.stat(secret).st_mode) & 0o077:
    raise SystemExit("others can read %s: chmod 600 it" % secret)
with open(secret) as file:
    password = file.read().strip()

# `lh-ci` works in this checkout, wherever a job's folder is
os.environ["LH_ROOT"] = {root!r}
os.environ["PATH"] = os.pathsep.join([{programs!r}, os.environ.get("PATH", os.defpath)])

Worker({host!r}, {port!r}, {name!r}, password, basedir, keepalive=60, umask=0o022, maxdelay=30,
       connection_string={connection!r}).setServiceParent(application)
"""


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """What a worker's folder is made from."""

    name: str
    host: str
    """Of the master; empty: `connection` says how to reach it."""
    port: int
    connection: str = ""
    """As Twisted writes the endpoint of a client, such as `tls:ci.example.org:9989`."""
    password: str
    root: Path
    """The checkout that stacks are built from."""
    admin: str = ""
    """Whom to ask about the machine."""


def write_master(folder: Path, fleet: Fleet) -> None:
    """Writes or rewrites what a master is configured by; passwords that are there stay.

    Raises:
        InfrastructureError: the folder cannot be written.
    """
    write_fleet(folder, fleet)
    write_atomically(folder / "master.cfg", MASTER_CFG.encode())


def create_master(folder: Path) -> None:
    """Has Buildbot make its database and its `buildbot.tac`, or bring them up to date.

    Raises:
        InfrastructureError: it could not; with what it said.
    """
    argv = [sys.executable, "-c", _RUNNER, "create-master", "--relocatable", "--quiet", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise InfrastructureError(f"buildbot create-master failed for {folder}: {said}")
    (folder / "master.cfg.sample").unlink(missing_ok=True)


def write_worker(folder: Path, plan: WorkerPlan) -> None:
    """Writes or rewrites a worker's folder.

    Raises:
        InfrastructureError: the folder cannot be written.
    """
    write_secret(folder / PASSWORD_FILE, plan.password)
    text = WORKER_TAC.format(
        password=PASSWORD_FILE,
        root=str(plan.root),
        programs=_programs(),
        host=plan.host or None,
        port=plan.port if plan.host else None,
        name=plan.name,
        connection=plan.connection or None,
    )
    write_atomically(folder / "buildbot.tac", text.encode())
    write_atomically(folder / "info" / "admin", f"{plan.admin or 'unknown'}\n".encode())
    write_atomically(folder / "info" / "host", b"runs jobs of Lighthouse CI: lh-ci exec\n")


def _programs() -> str:
    """The folder with `lh-ci` in it."""
    own = Path(sys.executable).parent
    found = shutil.which("lh-ci")
    return str(own if (own / "lh-ci").exists() or found is None else Path(found).parent)
