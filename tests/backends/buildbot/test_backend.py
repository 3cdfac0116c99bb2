"""Dispatch by REST, against a recorded conversation with faults in it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends.base import NothingLeftError, Parcel
from orchestrator.backends.buildbot.backend import BuildbotBackend
from orchestrator.backends.buildbot.rest import Api, Patience
from orchestrator.errors import InfrastructureError, UsageError
from tests.backends.buildbot.server import Exchange, Fault, Script, recorded, serve
from tests.fakes import FakeTime

JOB = "try.pytorch.amd-cpu"
LOGIN = "GET /auth/login"
FORCE = "POST /api/v2/forceschedulers/dispatch"
BUILDSETS = f"/api/v2/buildsets?reason={JOB}"


@dataclass
class Lab:
    """A client, the server that it talks to, and the time that it waits."""

    script: Script
    backend: BuildbotBackend
    time: FakeTime
    said: list[str] = field(default_factory=list)

    def asked(self, start: str) -> int:
        return sum(question.startswith(start) for question in self.script.asked)


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, *args: object, **kwargs: object) -> list[Any]:
        assert host == "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def lab() -> Iterator[Lab]:
    script, time = Script(recorded()), FakeTime()
    with serve(script) as url:
        said: list[str] = []
        api = Api(
            url,
            "secret",
            say=said.append,
            clock=time.clock(),
            patience=Patience(connect_s=5.0, read_s=0.5, total_s=60.0),
        )
        yield Lab(script, BuildbotBackend(api, time.clock()), time, said)
        api.close()


@pytest.fixture
def parcel(tmp_path: Path) -> Parcel:
    archive = tmp_path / "job.tar.gz"
    archive.write_bytes(b"a job")
    return Parcel(
        key=JOB,
        job=JOB,
        pool="amd-cpu",
        archive=archive,
        sha256="00",
        priority=10,
        avoid=("old",),
        agents=("new", "newer"),
    )


def test_the_fleet_is_where_the_scheduler_says(lab: Lab) -> None:
    fleet = lab.backend.fleet()
    assert [worker.name for worker in fleet.serving("amd-cpu")] == ["one", "two"]
    assert lab.script.asked == ["GET /api/v2/forceschedulers/dispatch", "GET /fleet"]


def test_a_job_is_submitted_once(lab: Lab, parcel: Parcel) -> None:
    assert lab.backend.submit(parcel) == "1"
    assert lab.backend.submit(parcel) == "1"
    assert lab.asked(FORCE) == 1
    assert lab.asked(f"PUT /jobs/{JOB}.tar.gz") == 2
    (sent,) = [s for s in lab.script.sent if isinstance(s, dict)]
    assert sent["params"] == {
        "builderNames": ["amd-cpu"],
        "job": JOB,
        "parcel": JOB,
        "reason": JOB,
        "priority": 10,
        "avoid": "old",
        "agents": "new,newer",
    }


@pytest.mark.parametrize("fault", ["502", "503 later", "cut short", "hangs up", "silent"])
def test_a_submission_that_was_heard_without_an_answer_is_not_made_again(
    lab: Lab, parcel: Parcel, fault: Fault
) -> None:
    # the master took it: from then on it tells of a build set
    lab.script.faults = {FORCE: [fault]}
    assert lab.backend.submit(parcel) == "1"
    assert lab.asked(FORCE) == 1


@pytest.mark.parametrize("fault", ["502", "hangs up"])
def test_a_submission_that_was_not_heard_is_made_again(
    lab: Lab, parcel: Parcel, fault: Fault
) -> None:
    nothing = next(e for e in lab.script.exchanges if e.path == BUILDSETS)
    lab.script.exchanges.insert(0, Exchange("GET", BUILDSETS, 200, nothing.body))
    lab.script.faults = {FORCE: [fault]}
    assert lab.backend.submit(parcel) == "1"
    assert lab.asked(FORCE) == 2


def test_a_submission_that_is_never_heard_is_given_up(lab: Lab, parcel: Parcel) -> None:
    lab.script.exchanges = [e for e in lab.script.exchanges if e.path != BUILDSETS]
    lab.script.exchanges.append(Exchange("GET", BUILDSETS, 200, {"buildsets": [], "meta": {}}))
    lab.script.faults = {FORCE: ["502"] * 20}
    with pytest.raises(InfrastructureError, match=f"did not take job {JOB}: HTTP 502"):
        lab.backend.submit(parcel)


def test_what_was_submitted_twice_is_cancelled_but_once(lab: Lab, parcel: Parcel) -> None:
    sets = {"buildsets": [{"bsid": 1}, {"bsid": 2}], "meta": {}}
    lab.script.exchanges.insert(0, Exchange("GET", BUILDSETS, 200, sets))
    assert lab.backend.submit(parcel) == "1"
    assert lab.asked(FORCE) == 0
    assert lab.asked("POST /api/v2/buildrequests/2") == 1


def test_a_lost_worker_is_seen_and_then_its_peer(lab: Lab) -> None:
    waiting, running, lost, ended = (lab.backend.watch(["1"])["1"] for _ in range(4))
    assert waiting.goes == ()
    assert [(go.id, go.machine, go.ended) for go in running.goes] == [("1", "one", False)]
    assert [(go.machine, go.lost, go.ended) for go in lost.goes] == [
        ("one", True, True),
        ("two", False, False),
    ]
    assert lost.goes[0].why.startswith("one or its master went away")
    assert not lost.ended
    assert ended.ended
    assert ended.goes[1].ended


@pytest.mark.parametrize("taken", [True, False])
def test_somebody_cancels(lab: Lab, taken: bool) -> None:
    for _ in range(3):
        lab.backend.watch(["1"])
    for exchange in lab.script.exchanges[18:20]:
        kind = "builds" if "builds" in exchange.body else "buildrequests"
        exchange.body[kind] = exchange.body[kind][-1:]
        exchange.body[kind][0]["results"] = 6
    if not taken:
        lab.script.exchanges[19].body["builds"] = []
    sight = lab.backend.watch(["1"])["1"]
    assert (sight.ended, sight.cancelled) == (True, True)
    assert [(go.cancelled, go.lost) for go in sight.goes] == [(True, True)] * taken
    assert all(go.why.startswith("two: it was cancelled") for go in sight.goes)


@pytest.mark.parametrize(
    "fault", ["502", "503 later", "cut short", "no json", "hangs up", "silent"]
)
def test_what_can_be_asked_again_is(lab: Lab, fault: Fault) -> None:
    lab.script.faults = {"GET /api/v2/builds": [fault, fault]}
    assert lab.backend.watch(["1"])["1"].goes == ()
    assert lab.asked("GET /api/v2/builds?") == 3
    assert len(lab.said) == 1  # once, however often it is asked
    waited = lab.time.seconds - 1000.0
    assert waited == (14.0 if fault == "503 later" else 1.5)


def test_patience_ends(lab: Lab) -> None:
    lab.script.faults = {"GET /api/v2/buildrequests": ["502"] * 100}
    with pytest.raises(InfrastructureError, match="did not answer for 60 s: HTTP 502"):
        lab.backend.watch(["1"])
    assert lab.time.seconds - 1000.0 <= 60.0


def test_results_are_fetched(lab: Lab, tmp_path: Path) -> None:
    lab.script.faults = {f"GET /results/{JOB}/2.tar.gz": ["cut short", "502"]}
    lab.backend.collect("1", JOB, "2", tmp_path / "work" / "back.tar.gz")
    assert (tmp_path / "work" / "back.tar.gz").read_bytes() == b"(parcel)"


def test_a_go_that_left_nothing_is_told(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(NothingLeftError, match="no results"):
        lab.backend.collect("1", JOB, "77", tmp_path / "back.tar.gz")


def test_cancelling_and_forgetting(lab: Lab) -> None:
    lab.backend.cancel("2", "recorded")
    lab.backend.forget(JOB)
    assert lab.asked("POST /api/v2/buildrequests/2") == 1
    assert lab.asked(f"DELETE /jobs/{JOB}.tar.gz") == 1


# --- what no patience helps with --------------------------------------------------------------


def answered(lab: Lab, method: str, path: str, status: int, body: Any = "") -> None:
    lab.script.exchanges.insert(0, Exchange(method, path, status, body))
    lab.script.exchanges = [
        e
        for i, e in enumerate(lab.script.exchanges)
        if i == 0 or (e.method, e.path) != (method, path)
    ]


def test_a_wrong_password_is_told(lab: Lab) -> None:
    answered(lab, "GET", "/auth/login", 401)
    with pytest.raises(UsageError, match="refuses the password of dispatcher"):
        lab.backend.cancel("2", "why")


def test_the_depot_tells_of_a_wrong_password_too(lab: Lab) -> None:
    answered(lab, "GET", "/fleet", 401, "the dispatcher's password is needed")
    with pytest.raises(UsageError, match="the dispatcher's password is needed"):
        lab.backend.fleet()


def test_an_old_session_is_opened_again(lab: Lab) -> None:
    path = "/api/v2/buildrequests/2"
    denied = {"error": {"code": -32600, "message": "you need to have role 'dispatcher'"}}
    lab.script.exchanges.insert(0, Exchange("POST", path, 403, denied))
    lab.backend.cancel("2", "why")
    assert lab.asked(LOGIN) == 2


def test_a_refusal_that_stays_is_told(lab: Lab) -> None:
    denied = {"error": {"code": -32600, "message": "you need to have role 'dispatcher'"}}
    answered(lab, "POST", "/api/v2/buildrequests/2", 403, denied)
    with pytest.raises(UsageError, match="you need to have role 'dispatcher'"):
        lab.backend.cancel("2", "why")


def test_another_job_of_the_same_name_is_told(lab: Lab, parcel: Parcel) -> None:
    answered(lab, "PUT", f"/jobs/{JOB}.tar.gz", 409, "there is another job of that name")
    with pytest.raises(UsageError, match="HTTP 409, there is another job of that name"):
        lab.backend.submit(parcel)


def test_a_master_of_somebody_elses_is_told(lab: Lab) -> None:
    answered(lab, "GET", "/api/v2/forceschedulers/dispatch", 404, {"error": "no such thing"})
    with pytest.raises(UsageError, match="no master that `lh-ci buildbot master` set up"):
        lab.backend.fleet()


def test_a_depot_that_tells_something_else_is_told(lab: Lab) -> None:
    answered(lab, "GET", "/fleet", 200, {"pools": 7})
    with pytest.raises(InfrastructureError, match="tells of no fleet"):
        lab.backend.fleet()
