"""A master and workers of Buildbot as processes of this machine, and a dispatcher in front.

It may all work in a checkout of its own, a copy of this one, in which the workers are registered
agents with keys, and the dispatcher has the orchestrator's: by the commands that people use.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import requests

from orchestrator.fleet.agents import ORCHESTRATOR_FILE
from orchestrator.results.schema import Result
from orchestrator.results.store import Run

ROOT = Path(__file__).parents[2]
URL = "https://git.example/lighthouse"
"""Of the repository."""
_TWISTD = "from twisted.scripts.twistd import run; run()"
_LH_CI = "import sys; from orchestrator.cli import main; main()"
_LAUNCHER = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from orchestrator.cli import main
main()
"""


_AGENT = """\
schema: 1
vendor: {vendor}
name: {name}
owner: us
contact: us@b.example
backend: buildbot
pools: [{pools}]
level: trusted
terms: {{disk: 20GiB, time: 1h}}
"""


def git(root: Path, *words: str) -> str:
    """Standard output of a command that must succeed."""
    who = ("-c", "user.name=us", "-c", "user.email=us@example.org")
    argv = ["git", "-C", str(root), *who, *words]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def until(condition: Callable[[], Any], what: str, limit_s: float = 120.0) -> Any:
    """What `condition` gives as soon as that is something."""
    pause = threading.Event()
    for _ in range(int(limit_s / 0.1)):
        if found := condition():
            return found
        pause.wait(0.1)
    raise AssertionError(f"waited {limit_s:g} s for {what}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass
class Site:
    """Processes, their folders, and the commands that talk to them."""

    folder: Path
    workers: Mapping[str, str]
    """Name to pools, as `--worker` takes them; `register` makes agents of them."""
    root: Path = ROOT
    """The checkout that commands work in; the code is that of this one."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: list[int] = field(default_factory=lambda: free_ports(3))

    @property
    def url(self) -> str:
        """Of the master."""
        return f"http://127.0.0.1:{self.ports[0]}/"

    @property
    def state(self) -> Path:
        """Of the dispatcher."""
        return self.folder / "state"

    def state_of(self, agent: str) -> Path:
        """Of an agent: its keys are there."""
        return self.folder / "states" / agent

    def environ(self, **more: str) -> dict[str, str]:
        """Of every process: this checkout, and nothing of the machine's settings."""
        programs = self.folder / "bin"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LH_", "NOX_"))}
        return {**kept, "PATH": f"{programs}:{kept['PATH']}", "PYTHONPATH": str(ROOT), **more}

    def lh_ci(self, *words: str, root: Path | None = None, **more: str) -> str:
        """Standard output of a command that must succeed; in another checkout, with settings."""
        done = subprocess.run(
            [sys.executable, "-c", _LH_CI, "-C", str(root or self.root), *words],
            capture_output=True,
            text=True,
            check=False,
            env=self.environ(**more),
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def dispatch(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts `lh-ci run`, whose runs are in `state`."""
        log = (self.folder / "dispatch.log").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-c", _LH_CI, "-C", str(self.root), "run", *words],
                stdout=log,
                stderr=log,
                env=self.environ(
                    LH_STATE=str(self.state),
                    LH_BUILDBOT_MASTER=self.url,
                    LH_BUILDBOT_PASSWORD=str(self.folder / "master/secrets/dispatcher.password"),
                ),
            )

    def install(self) -> None:
        """Puts the programs of a virtual environment on the path."""
        launcher = self.folder / "bin" / "lh-ci"
        launcher.parent.mkdir(exist_ok=True)
        launcher.write_text(_LAUNCHER)
        launcher.chmod(0o755)
        worker = launcher.parent / "buildbot-worker"
        worker.unlink(missing_ok=True)
        worker.symlink_to(Path(sys.executable).parent / worker.name)

    def check_out(self) -> None:
        """Makes `root`, with what git knows of this checkout, as it is now, and no agents."""
        listed = git(ROOT, "ls-files", "-coz", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file() and not name.startswith("agents/"):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.root / name)
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "remote", "add", "origin", URL)

    def commit(self, about: str) -> None:
        """Everything in `root`."""
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", about)

    def declare_orchestrator(self) -> None:
        """By what `lh-ci keys rotate orchestrator` tells to write."""
        said = self.lh_ci("keys", "rotate", "orchestrator", LH_STATE=str(self.state))
        text = said.split("\n\n")[1].replace("https://…", URL)
        (self.root / ORCHESTRATOR_FILE).parent.mkdir(exist_ok=True)
        (self.root / ORCHESTRATOR_FILE).write_text(text + "\n")

    def register(self) -> None:
        """All workers, with keys that `lh-ci keys` makes, each in a state folder of its own.

        `lh-ci register` wants much free disk, which the images here may have taken already.
        """
        for agent, pools in self.workers.items():
            path = self.root / f"agents/{agent}.yaml"
            path.parent.mkdir(exist_ok=True)
            vendor, _, name = agent.partition("-")
            text = _AGENT.format(vendor=vendor, name=name, pools=pools)
            path.write_text(f"{text}keys: []\n")
            said = self.lh_ci("keys", "rotate", agent, LH_STATE=str(self.state_of(agent)))
            path.write_text(f"{text}keys:\n{said.split(chr(10) * 2)[1]}\n")

    def set_up(self) -> None:
        """Writes the folders of the master and of all workers, by the commands that people use."""
        self.install()
        http, depot, port = self.ports
        places = ("--http", f"127.0.0.1:{http}", "--depot", f"127.0.0.1:{depot}")
        master = self.folder / "master"
        others = [name for name in self.workers if not self._registered(name)]
        named = [w for name in others for w in ("--worker", f"{name}={self.workers[name]}")]
        self.lh_ci("buildbot", "master", str(master), *named, *places, "--port", str(port))
        for agent in self.workers:
            self.write_worker(agent)

    def write_worker(self, agent: str) -> None:
        """A worker's folder."""
        password = self.folder / "master/secrets" / f"{agent}.password"
        words = ["--name", agent, "--master", f"127.0.0.1:{self.ports[2]}"]
        words += ["--password-file", str(password)]
        self.lh_ci("buildbot", "worker", str(self.folder / agent), *words)

    def start(self, *names: str, agents: bool = True) -> None:
        """Starts processes, `master` among them, and waits until every worker is connected.

        `agents`: whether the workers are who they are registered as.
        """
        for name in names:
            argv = [sys.executable, "-c", _TWISTD, "--nodaemon", "--pidfile=", "-y", "buildbot.tac"]
            with (self.folder / f"{name}.out").open("ab") as log:
                self.running[name] = subprocess.Popen(
                    argv,
                    cwd=self.folder / name,
                    stdout=log,
                    stderr=log,
                    env=self.environ(**(self._identity(name) if agents else {})),
                )
        wanted = set(self.running) - {"master"}
        until(lambda: self.connected() == wanted, f"workers {wanted} to connect")

    def _registered(self, name: str) -> bool:
        return (self.root / f"agents/{name}.yaml").exists()

    def _identity(self, name: str) -> dict[str, str]:
        """Settings of an agent's machine."""
        if not self._registered(name):
            return {}
        return {"LH_AGENT": name, "LH_STATE": str(self.state_of(name))}

    def connected(self) -> set[str]:
        """Workers that the master sees."""
        try:
            answer = requests.get(f"{self.url}api/v2/workers", timeout=10).json()
        except (requests.RequestException, ValueError):
            return set()
        return {worker["name"] for worker in answer["workers"] if worker["connected_to"]}

    def kill(self, name: str) -> None:
        """SIGKILL, as a power cut would."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Ends everything, workers first."""
        for name in sorted(self.running, key=lambda name: name == "master"):
            process = self.running.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def result_of(self, job: str) -> Path:
        """What a worker sent of a job's first go, once all of it is there."""
        found = until(lambda: self._ended(job), f"the results of {job}")
        assert isinstance(found, Path)
        return found

    def _ended(self, job: str) -> Path | None:
        where = f"{self.url}api/v2/builds?complete=1&property=job"
        for build in requests.get(where, timeout=10).json()["builds"]:
            if build["properties"]["job"][0] == job:
                return self.folder / f"master/depot/results/{job}/{build['number']}.tar.gz"
        return None

    def run_folder(self, but: Collection[str] = ()) -> Run | None:
        """The newest run, but for some; None: there is none yet."""
        found = sorted(path.parent for path in (self.state / "runs").glob("*/plan.json"))
        found = [folder for folder in found if folder.name not in but]
        return Run(found[-1]) if found else None

    def claimed(self) -> dict[str, str]:
        """Job to the worker that has it, of the newest run; health jobs are none of its jobs."""
        run = self.run_folder()
        lines = journal(run) if run else []
        found = {e["job"]: e["machine"] for e in lines if e["event"] == "claimed"}
        return {job: machine for job, machine in found.items() if ".health." not in job}

    def logs(self) -> Iterator[Path]:
        """Everything that was logged."""
        yield from self.folder.rglob("*.log")
        yield from self.folder.glob("*.out")


def journal(run: Run) -> list[dict[str, Any]]:
    """The whole lines of a run's journal."""
    try:
        lines = (run.folder / "journal.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def containers(client: docker.APIClient, word: str) -> list[str]:
    """Names of containers, running or not, that have a word in them."""
    return [n for c in client.containers(all=True) for n in c["Names"] if word in n]


def by_cell(results: Sequence[Result]) -> dict[str, list[tuple[int, str]]]:
    """Attempt and status of each, in order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for result in results:
        found.setdefault(result.cell, []).append((result.attempt, result.status))
    return found


def agents_jobs(word: str) -> list[int]:
    """Processes of this machine that carry out jobs for a site."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            own = word in str((entry / "cwd").readlink())
        except OSError:
            continue
        if own and b"exec" in argv:
            found.append(int(entry.name))
    return found
