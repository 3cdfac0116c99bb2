"""A machine that carries out what a service hands it, by the files of this repository."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.backends.base import Go, Sight
from tests.backends.conformance.stub import ROOT

_AGENT = """\
#!/bin/sh
# stands for `buildkite-agent`
case "$1 $2" in
"meta-data get") cat "$SERVICE/slip" ;;
"artifact upload") cp "$3" "$SERVICE/back.tar.gz" ;;
*) exit 1 ;;
esac
"""


@dataclass
class Try:
    """A go."""

    go: Go
    process: subprocess.Popen[bytes]
    service: Path
    """Where the service keeps what belongs to it."""

    @property
    def left(self) -> Path:
        """What came back."""
        return self.service / "back.tar.gz"


@dataclass
class Order:
    """A submission."""

    key: str
    text: str
    tries: list[Try] = field(default_factory=list)
    ended: bool = False
    cancelled: bool = False

    @property
    def job(self) -> str:
        """Its id."""
        return self.key.partition("~")[0]


@dataclass
class Agents(ABC):
    """One machine, and the jobs that it is to do."""

    folder: Path
    root: Path
    """Of the checkout that jobs are made again from."""
    programs: Path
    """Where `lh-ci` is."""
    orders: dict[str, Order] = field(default_factory=dict)
    held: bool = False
    count: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    @abstractmethod
    def script(self) -> str:
        """What the service's own files have it run."""

    @abstractmethod
    def start(self, order: Order, checkout: Path, service: Path) -> subprocess.Popen[bytes]:
        """Runs that."""

    def submit(self, key: str, text: str) -> None:
        """A job is handed over."""
        with self.lock:
            self.orders.setdefault(key, Order(key, text))
            self.work()

    def look(self, key: str) -> Sight:
        """Lets time pass."""
        with self.lock:
            self.work()
            order = self.orders[key]
            goes = tuple(each.go for each in order.tries)
            return Sight(goes=goes, ended=order.ended, cancelled=order.cancelled)

    def work(self) -> None:
        """What has ended is noted, and the next job is begun."""
        with self.lock:
            for order, last in self._running():
                if last.process.poll() is not None:
                    last.go = _over(last.go)
                    order.ended = True
            waiting = [order for order in self.orders.values() if not order.ended]
            if waiting and not self.held and not list(self._running()):
                self._take(waiting[0])

    def cancel(self, key: str, why: str) -> None:
        """As a service does: SIGTERM to what runs."""
        with self.lock:
            order = self.orders[key]
            if order.ended:
                return
            order.ended = order.cancelled = True
            if order.tries:
                self._kill(order, signal.SIGTERM, cancelled=True, why=why)

    def lose(self, job: str) -> None:
        """The machine goes away."""
        with self.lock:
            for order, _ in self._running():
                if order.job == job:
                    self._kill(order, signal.SIGKILL, why="it went away")

    def close(self) -> None:
        """Ends everything."""
        for order, _ in self._running():
            self._kill(order, signal.SIGKILL)

    def _running(self) -> Iterator[tuple[Order, Try]]:
        for order in list(self.orders.values()):
            if order.tries and not order.tries[-1].go.ended:
                yield order, order.tries[-1]

    def _take(self, order: Order) -> None:
        self.count += 1
        checkout = self.folder / f"go-{self.count}"
        service = self.folder / f"service-{self.count}"
        service.mkdir(parents=True)
        for part in (".buildkite", ".github"):
            shutil.copytree(ROOT / part, checkout / part)
        (checkout / ".ci").mkdir()
        write_program(checkout / ".ci/setup", f"#!/bin/sh\necho {self.programs}\n")
        process = self.start(order, checkout, service)
        go = Go(id=f"go-{self.count}", machine="lab-one", ended=False)
        order.tries.append(Try(go, process, service))

    def _kill(self, order: Order, number: signal.Signals, **changes: Any) -> None:
        last = order.tries[-1]
        os.killpg(last.process.pid, number)
        last.process.wait()
        last.go = _over(last.go, lost=True, **changes)

    def spawn(
        self, argv: list[str], checkout: Path, environ: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """A process in a group of its own."""
        kept = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LH_ROOT": str(self.root)}
        with (checkout / "log.txt").open("wb") as log:
            return subprocess.Popen(
                argv,
                cwd=checkout,
                env={**kept, **environ},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class BuildkiteAgents(Agents):
    """`.buildkite/job.sh`, with an agent's program in front of the service."""

    def script(self) -> str:
        """See `Agents`."""
        return (ROOT / ".buildkite/job.sh").read_text()

    def start(self, order: Order, checkout: Path, service: Path) -> subprocess.Popen[bytes]:
        """See `Agents`."""
        (service / "slip").write_text(order.text)
        write_program(service / "bin" / "buildkite-agent", _AGENT)
        environ = {
            "PATH": f"{service / 'bin'}:{os.environ['PATH']}",
            "SERVICE": str(service),
            "LIGHTHOUSE_JOB": order.job,
        }
        return self.spawn([".buildkite/job.sh"], checkout, environ)


class GitHubAgents(Agents):
    """The steps of `job.yml`, and of the action that it uses."""

    def script(self) -> str:
        """See `Agents`."""
        return (ROOT / ".github/actions/exec/action.yml").read_text()

    def start(self, order: Order, checkout: Path, service: Path) -> subprocess.Popen[bytes]:
        """See `Agents`."""
        job = yaml.safe_load((ROOT / ".github/workflows/job.yml").read_text())
        action = yaml.safe_load(self.script())
        words = {
            "inputs.job": order.job,
            "inputs.slip": order.text,
            "steps.environment.outputs.LH_PROGRAMS": str(self.programs),
        }
        inner = {**words, "inputs.slip": "slip.txt"}
        steps = [(step, words) for step in job["jobs"]["job"]["steps"]]
        steps += [(step, inner) for step in action["runs"]["steps"]]
        lines = ["failed=0"]
        for number, (step, known) in enumerate(steps):
            if "run" in step:
                lines.append(_step(service / f"{number}.sh", step, known))
        lines += [f"cp back/{order.job}.tar.gz {service}/back.tar.gz", "exit $failed"]
        (service / "all.sh").write_text("\n".join(lines) + "\n")
        return self.spawn(["bash", str(service / "all.sh")], checkout, {"GITHUB_OUTPUT": "out.env"})


def _step(path: Path, step: Mapping[str, Any], known: Mapping[str, str]) -> str:
    """The line that runs a step, as the runner would."""
    environ = {name: _filled(str(value), known) for name, value in step.get("env", {}).items()}
    exports = "".join(f"export {name}={json.dumps(value)}\n" for name, value in environ.items())
    path.write_text(exports + _filled(step["run"], known) + "\n")
    line = f"bash -e {path} || failed=1"
    return line if "always()" in str(step.get("if", "")) else f"[ $failed = 1 ] || {line}"


def _filled(text: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(f"${{{{ {name} }}}}", value)
    assert "${{" not in text, text
    return text


def _over(go: Go, **changes: Any) -> Go:
    return Go(**{**vars(go), "ended": True, **changes})


def write_program(path: Path, text: str) -> None:
    """A file that can be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
