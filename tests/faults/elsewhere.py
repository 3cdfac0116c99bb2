"""Faults of machines elsewhere, of what lies between, and of what they send back."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import io
import json
import os
import shutil
import signal
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.backends import parcel
from orchestrator.backends.base import Sight
from orchestrator.backends.buildbot.fleet import Fleet, make_fleet, parse_worker
from orchestrator.cli import remote
from orchestrator.errors import InfrastructureError
from orchestrator.fleet import keys
from orchestrator.fleet.misses import Kind
from tests.backends.farm import Farm, Fate
from tests.backends.services.conversation import Answer, Asked, serve
from tests.backends.services.live import LiveGitHub
from tests.backends.services.test_conformance import client
from tests.backends.signed_farm import ONE, TWO, Lent, SignedFarm
from tests.faults.at_the_seam import full
from tests.faults.bench import PLANNED, Bench, Table
from tests.fleet.forge import agent

fault = Table("elsewhere")
Trick = Callable[[Path], object]
"""What becomes of a file on its way back."""


class Machines(SignedFarm):
    """Machines that are nobody's, and strike as they are told to."""

    blows: list[Callable[[], None]]
    """Of the looks at them, one after the other."""

    def fleet(self) -> Fleet:
        """Two of them."""
        pools = self.tree.load().matrix.pools
        return make_fleet(pools, [parse_worker("one=intel-cpu"), parse_worker("two=intel-cpu")])

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend`."""
        if self.blows:
            self.blows.pop(0)()
        known = super().watch([ticket for ticket in tickets if ticket in self.submissions])
        # as Buildbot's backend tells of what its master does not know
        return {**dict.fromkeys(tickets, Sight(goes=(), ended=True)), **known}


def machines(bench: Bench, *fates: Fate, tricks: Sequence[Trick] = ()) -> Machines:
    """Cells run there; `tricks` are played with the first files that come back."""
    made = Machines(
        bench.tree,
        bench.folder / "farm",
        bench.engine,
        fates=list(fates),
        lent=Lent(bench.folder / "keys"),
        who=[""] * 9,
        tricks=list(tricks),
    )
    made.blows = []
    bench.backend = made
    bench.leaves.append(lambda: [str(p) for p in bench.run.folder.glob("parcels/*")])
    return made


def _fated(*fates: Fate) -> Callable[[Bench], Iterator[None]]:
    def cause(bench: Bench) -> Iterator[None]:
        machines(bench, *fates)
        yield

    return cause


def _tricked(trick: Trick) -> Callable[[Bench], Iterator[None]]:
    def cause(bench: Bench) -> Iterator[None]:
        machines(bench, tricks=[trick])
        yield

    return cause


fault("a worker is killed under a job", Kind.LOST)(_fated("lost"))
fault("a worker is killed under a job, twice", Kind.LOST)(_fated("lost", "lost"))
fault("a worker says that it is done, and has nothing", Kind.RESULT)(_fated("silent"))
fault("results are of another order", Kind.RESULT)(_fated("foreign"))
fault("a worker sends what it has, before it is done", Kind.RESULT)(_fated("unfinished"))
fault("everything goes wrong once", Kind.RESULT)(_fated("silent", "torn"))


# --- what comes back --------------------------------------------------------------------------


def _torn(archive: Path) -> None:
    os.truncate(archive, archive.stat().st_size // 2)


def _empty(archive: Path) -> None:
    os.truncate(archive, 0)


def _flipped(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)


def _page(archive: Path) -> None:
    archive.write_text("<html>502 Bad Gateway</html>")


def _twice(archive: Path) -> None:
    """Each file stands in it two times."""
    inside = gzip.decompress(archive.read_bytes())
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(inside)) as old,
        tarfile.open(fileobj=out, mode="w") as new,
    ):
        for member in old.getmembers() * 2:
            new.addfile(member, old.extractfile(member))
    archive.write_bytes(gzip.compress(out.getvalue()))


def _changed(change: Callable[[Path], None]) -> Trick:
    """A trick on the folder that was packed."""

    def trick(archive: Path) -> None:
        folder = archive.parent / "bent"
        parcel.unpack(archive, folder)
        change(folder)
        parcel.pack(folder, archive)
        shutil.rmtree(folder)

    return trick


def _document(folder: Path, attempt: int = 1) -> Path:
    return folder / "results" / f"{PLANNED[1]}.{attempt}.json"


def _again(folder: Path) -> None:
    """A second verdict of the same cell."""
    document = json.loads(_document(folder).read_text())
    _document(folder, 2).write_text(json.dumps({**document, "attempt": 2}))


def _misnamed(folder: Path) -> None:
    shutil.copy(_document(folder), _document(folder, 2))


fault("results are cut short on their way", Kind.RESULT)(_tricked(_torn))
fault("a file of results is empty", Kind.RESULT)(_tricked(_empty))
fault("a bit of the results is flipped", Kind.RESULT)(_tricked(_flipped))
fault("a proxy's page comes instead of results", Kind.RESULT)(_tricked(_page))
fault("results come twice in one file", Kind.RESULT)(_tricked(_twice))
fault("a result is there under two numbers")(_tricked(_changed(_misnamed)))
fault("a cell has two verdicts")(_tricked(_changed(_again)))
fault("one result is missing", Kind.RESULT, resumes=True)(
    _tricked(_changed(lambda folder: _document(folder).unlink()))
)
fault("one result is cut short", Kind.RESULT, resumes=True)(
    _tricked(_changed(lambda folder: os.truncate(_document(folder), 50)))
)


@fault("a worker that was given up sends its results after all", Kind.LOST)
def late(bench: Bench) -> Iterator[None]:
    farm = machines(bench)
    sight, given_up = farm._sight, set[str]()

    def seen(submission: Any) -> Sight:
        found = sight(submission)
        if not given_up:
            given_up.update(go.id for go in found.goes)
            submission.ended = False  # it is given to another one
        goes = tuple(dataclasses.replace(g, lost=g.id in given_up) for g in found.goes)
        return Sight(goes=goes, ended=submission.ended)

    bench.patch.setattr(farm, "_sight", seen)
    yield


# --- signatures -------------------------------------------------------------------------------


def signed(bench: Bench, *who: str, trick: Trick | None = None) -> Machines:
    """Machines that are agents: these have the first goes."""
    farm = machines(bench)
    farm.who, farm.tricks = list(who), [trick]
    bench.patch.setattr(remote, "signing", lambda *args, **options: farm.lent.signing())
    return farm


@fault("results are signed with a key that nobody registered", Kind.RESULT, resumes=True)
def wrong_signature(bench: Bench) -> Iterator[None]:
    farm = signed(bench)
    signing = farm.lent.signing
    other = agent("lab-1", keys.make(bench.folder / "other", ONE))
    agents = {**farm.lent.agents, ONE: other}
    bench.patch.setattr(farm.lent, "signing", lambda: signing(agents=agents))
    yield
    bench.patch.setattr(farm.lent, "signing", signing)  # its file was sent


@fault("results are not signed", Kind.RESULT)
def no_signature(bench: Bench) -> Iterator[None]:
    signed(bench, "", TWO)
    yield


@fault("a result is changed after it was signed", Kind.RESULT)
def changed_after(bench: Bench) -> Iterator[None]:
    def trick(archive: Path) -> None:
        inside = gzip.decompress(archive.read_bytes())
        archive.write_bytes(gzip.compress(inside.replace(b'"status": "pass"', b'"status": "fail"')))

    signed(bench, ONE, TWO, trick=trick)
    yield


@fault("results of another run are sent again", Kind.RESULT)
def replayed(bench: Bench) -> Iterator[None]:
    farm = signed(bench)
    assert bench.start() == 0
    (old,) = farm.folder.glob("*/out.tar.gz")
    bench.codes.clear()
    shutil.rmtree(bench.state)
    sent = old.read_bytes()
    farm.who, farm.tricks = [ONE, TWO], [lambda archive: archive.write_bytes(sent)]
    farm.submissions.clear()
    yield


# --- what lies between ------------------------------------------------------------------------


def _silence() -> None:
    raise InfrastructureError("http://nowhere/ does not answer: connection refused")


@fault("the master is killed, and restarted later", resumes=True)
def master_killed(bench: Bench) -> Iterator[None]:
    machines(bench).blows = [lambda: None, _silence]
    bench.backend.idle = True
    yield
    bench.backend.idle = False


@fault("the master has lost all that it knew", Kind.UNCLAIMED)
def master_lost_all(bench: Bench) -> Iterator[None]:
    farm = machines(bench)
    farm.blows = [farm.submissions.clear]
    yield


@fault("no machine takes a job for hours", Kind.UNCLAIMED, resumes=True)
def unclaimed(bench: Bench) -> Iterator[None]:
    machines(bench).idle = True
    yield
    bench.backend.idle = False


@fault("the dispatcher's machine shuts down: SIGTERM", resumes=True)
def dispatcher_stopped(bench: Bench) -> Iterator[None]:
    machines(bench).blows = [lambda: os.kill(os.getpid(), signal.SIGTERM)]
    yield


@fault("the last line of the journal is cut short", resumes=True)
def cut_journal(bench: Bench) -> Iterator[None]:
    machines(bench).blows = [_silence]
    yield
    journal = bench.run.folder / "journal.jsonl"
    os.truncate(journal, journal.stat().st_size - 20)


@fault("the disk is full while results are taken in", resumes=True)
def disk_full(bench: Bench) -> Iterator[None]:
    machines(bench)
    collect = bench.backend.collect
    room: list[Callable[[], None]] = []

    def collected(*args: Any) -> None:
        collect(*args)
        if not room:
            room.append(full(bench, after=1))

    bench.patch.setattr(bench.backend, "collect", collected)
    yield
    room[0]()


class Shaky(LiveGitHub):
    """A service of which every second answer is an error, or cut short."""

    def answer(self, asked: Asked) -> Answer:
        """See `Live`."""
        number = len(self.asked)
        if asked.what.startswith("GET") and number % 2:
            self.asked.append(asked)
            if number % 4 == 1:
                return Answer(b"bad gateway", 502)
            return Answer(b'{"cut', cut=100)
        return super().answer(asked)


@fault("the service answers with errors, and cuts its answers short")
def shaky(bench: Bench) -> Iterator[None]:
    farm = Farm(bench.tree, bench.folder / "farm", bench.engine)
    bench.patch.setattr(socket, "getaddrinfo", _loopback)
    bench.patch.setenv("NO_PROXY", "*")
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(serve(Shaky(farm=farm)))
        assert isinstance(service, Shaky)
        bench.backend = client(service, farm)
        yield
        assert any(asked.what.endswith("/zip") for asked in service.asked)


def _loopback(host: str, port: int, *args: object, **kwargs: object) -> list[Any]:
    assert host == "127.0.0.1"
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
