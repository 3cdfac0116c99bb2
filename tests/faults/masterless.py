"""Machines in a process of their own, reached by HTTP: a dispatcher can be killed without them.

Each submission is worked on in a thread. Its fate depends on the first cell of its job, and on how
often that was submitted: not on who asks, or when.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from orchestrator import records
from orchestrator.backends import executing, parcel
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.buildbot.fleet import Fleet, FleetPool, FleetWorker
from orchestrator.backends.perform import Machine
from orchestrator.results.store import Run
from tests.backends.farm import HOST, Fate, quiet
from tests.fakes import FakeEngine
from tests.faults import sixty

FATES: Mapping[str, Sequence[Fate]] = {
    "w00": ["lost", "well"],
    "w08": ["torn", "foreign", "well"],
    "w32": ["silent", "well"],
    "w56": ["unfinished", "lost", "well"],
}
"""Of the goes at the job that begins with a workload; of all others: well."""


@dataclass
class _Job:
    """One submission."""

    data: bytes
    goes: list[tuple[Fate, bytes]] = field(default_factory=list)
    ended: bool = False


class Machines(ThreadingHTTPServer):
    """What stands for a master and its workers."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        """`root`: of the repository that they have a checkout of."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self._root = root
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._made: dict[str, tuple[str, bytes]] = {}
        self._goes: dict[tuple[str, str], int] = {}

    def submit(self, ticket: str, data: bytes) -> None:
        """The same ticket again is the same submission."""
        with self._lock:
            if ticket in self._jobs:
                return
            job = self._jobs[ticket] = _Job(data)
        threading.Thread(target=self._work, args=(ticket, job), daemon=True).start()

    def sights(self, tickets: Sequence[str]) -> dict[str, Sight]:
        """What has become of submissions."""
        with self._lock:
            return {ticket: _sight(ticket, self._jobs[ticket]) for ticket in tickets}

    def left(self, go: str) -> bytes:
        """What a go left; empty: nothing."""
        ticket, _, number = go.rpartition("#")
        with self._lock:
            return self._jobs[ticket].goes[int(number)][1]

    def _work(self, ticket: str, job: _Job) -> None:
        with self._lock:
            first, made = self._carried_out(job.data)
            trial = ticket.partition("/")[0]
            fates = FATES.get(first, ())
            while not job.ended:
                before = self._goes.get((trial, first), 0)
                self._goes[trial, first] = before + 1
                fate: Fate = fates[before] if before < len(fates) else "well"
                job.goes.append((fate, _bent(made, fate)))
                job.ended = fate != "lost"

    def _carried_out(self, data: bytes) -> tuple[str, bytes]:
        """A job's first workload and the parcel of its results; each is made once."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._made:
            with tempfile.TemporaryDirectory() as folder:
                self._made[digest] = carry_out(Path(folder), data, self._root)
        return self._made[digest]


def carry_out(place: Path, data: bytes, root: Path) -> tuple[str, bytes]:
    """What a machine does with a job's parcel; its first workload, and a parcel of results."""
    (place / "job.tar.gz").write_bytes(data)
    parcel.unpack(place / "job.tar.gz", place / "job")
    ordered, out = executing.read(place / "job"), place / "out"
    executing.claim(ordered, out)
    engine = FakeEngine(sixty.script(lambda: Run(out, ordered.order.run)))
    clock = engine.time.clock()
    machine = Machine(engine=engine, note="", clock=clock)
    executing.carry_out(ordered, out, root, HOST, lambda _: machine, clock, quiet())
    parcel.pack(out, place / "out.tar.gz", skip=("lock", "jobs"))
    return ordered.job.cells[0].workload.name, (place / "out.tar.gz").read_bytes()


def _bent(made: bytes, fate: Fate) -> bytes:
    """What comes back of a go."""
    if fate in ("lost", "silent"):
        return b""
    if fate == "torn":
        return made[: len(made) // 2]
    if fate == "well":
        return made
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "a.tar.gz").write_bytes(made)
        parcel.unpack(place / "a.tar.gz", place / "a")
        summary = place / "a" / "exec.json"
        document = json.loads(summary.read_text())
        summary.unlink()
        if fate == "foreign":
            summary.write_text(json.dumps({**document, "order_sha256": "0" * 64}))
        parcel.pack(place / "a", place / "b.tar.gz")
        return (place / "b.tar.gz").read_bytes()


def _sight(ticket: str, job: _Job) -> Sight:
    goes = tuple(
        Go(id=f"{ticket}#{n}", machine=f"box-{n}", ended=True, lost=fate == "lost")
        for n, (fate, _) in enumerate(job.goes)
    )
    return Sight(goes=goes, ended=job.ended)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        machines = cast(Machines, self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        what, _, name = self.path.removeprefix("/").partition("/")
        match what:
            case "submit":
                machines.submit(name, body)
                self._reply(b"")
            case "watch":
                sights = machines.sights(json.loads(body))
                self._reply(f"{{{', '.join(map(_item, sights.items()))}}}".encode())
            case "collect":
                self._reply(machines.left(body.decode()))

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


def _item(item: tuple[str, Sight]) -> str:
    return f"{json.dumps(item[0])}: {records.dumps(item[1])}"


def serve(root: Path, told: Connection) -> None:
    """Serves until it is killed; tells its address."""
    sixty.small_harness()
    with Machines(root) as machines:
        told.send(f"http://127.0.0.1:{machines.server_port}")
        machines.serve_forever()


class Client:
    """The backend that reaches them."""

    name = "machines"

    def __init__(self, where: str, trial: str) -> None:
        """`trial` is told apart from all others."""
        self.where = where
        self._trial = trial

    def fleet(self) -> Fleet:
        """More machines than jobs: how cells are split does not depend on how many wait."""
        workers = tuple(FleetWorker(name=f"m{n}", pools=("intel-cpu",)) for n in range(99))
        return Fleet(pools={"intel-cpu": FleetPool(tier="core")}, workers=workers)

    def online(self) -> tuple[str, ...] | None:
        """See `Backend`."""
        return None

    def submit(self, given: Parcel) -> str:
        """See `Backend`."""
        ticket = f"{self._trial}/{given.key}"
        self._post(f"submit/{ticket}", given.archive.read_bytes())
        return ticket

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend`."""
        said: dict[str, Any] = json.loads(self._post("watch", json.dumps(list(tickets)).encode()))
        return {ticket: records.decode(Sight, sight) for ticket, sight in said.items()}

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        """See `Backend`."""
        data = self._post("collect", go.encode())
        if not data:
            raise NothingLeftError("it brought back no results")
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(data)

    def cancel(self, ticket: str, why: str) -> None:
        """See `Backend`."""

    def forget(self, job: str) -> None:
        """See `Backend`."""

    def _post(self, path: str, body: bytes) -> bytes:
        request = urllib.request.Request(f"{self.where}/{path}", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())
