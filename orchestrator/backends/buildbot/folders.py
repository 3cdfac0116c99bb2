"""The folders of a master and of a worker, made ready for Buildbot's own commands to start."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.backends.buildbot.fleet import Fleet, write_fleet, write_secret
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.files import write_atomically

TAC = "buildbot.tac"
ADMIN = "info/admin"
HOST = "info/host"
PASSWORD_FILE = "password"  # noqa: S105  the name of a file
_PLACE = re.compile(r"(?:(?P<host>[A-Za-z0-9.:\[\]-]+):)?(?P<port>\d{1,5})")
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
if not os.path.exists(secret):
    raise SystemExit("no password yet. Once the master's operator has sent it: lh-ci buildbot "
                     "worker %s --name %s --password-file FILE" % (basedir, {name!r}))
if stat.S_IMODE(os.stat(secret).st_mode) & 0o077:
    raise SystemExit("others can read %s: chmod 600 it" % secret)
with open(secret) as file:
    password = file.read().strip()

# `lh-ci` works in this checkout, wherever a job's folder is
os.environ["LH_ROOT"] = {root!r}
os.environ.update({environ!r})
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
    """Empty: not known yet, or as it was."""
    root: Path
    """The checkout that stacks are built from."""
    admin: str = ""
    """Whom to ask about the machine."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """More settings for its jobs."""


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
    if plan.password:
        write_secret(folder / PASSWORD_FILE, plan.password)
    text = WORKER_TAC.format(
        password=PASSWORD_FILE,
        root=str(plan.root),
        environ=dict(plan.environ),
        programs=str(programs()),
        host=plan.host or None,
        port=plan.port if plan.host else None,
        name=plan.name,
        connection=plan.connection or None,
    )
    write_atomically(folder / TAC, text.encode())
    write_atomically(folder / ADMIN, f"{plan.admin or 'unknown'}\n".encode())
    write_atomically(folder / HOST, b"runs jobs of Lighthouse CI: lh-ci exec\n")


def programs() -> Path:
    """The folder with `lh-ci` in it."""
    own = Path(sys.executable).parent
    found = shutil.which("lh-ci")
    return own if (own / "lh-ci").exists() or found is None else Path(found).parent


def parse_place(option: str, text: str) -> tuple[str, int]:
    """Host and port of `[HOST:]PORT`; the host may be empty.

    Raises:
        UsageError: it is not of that form; names the option.
    """
    match = _PLACE.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise UsageError(f"{option} {text}: expected HOST:PORT or PORT")
    return match["host"] or "", int(match["port"])


def parse_master(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises UsageError."""
    host, port = parse_place("--master", text)
    if not host:
        raise UsageError(f"--master {text}: expected HOST:PORT")
    return host, port
