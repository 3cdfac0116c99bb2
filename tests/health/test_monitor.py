"""Looks in threads that may hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from orchestrator.health.look import Look
from orchestrator.health.monitor import LOOK_EVERY_S, STUCK_S, ThreadMonitor
from tests.fakes import FakeTime


class Lookout:
    """Looks for as long as a test wants it to."""

    def __init__(self, time: FakeTime) -> None:
        self.time = time
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.thorough: list[bool] = []
        self.at_once = 0
        self.most = 0
        self.stopped = False
        self.closed = False

    def look(self, *, thorough: bool) -> Look:
        self.thorough.append(thorough)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        began = self.time.seconds
        self.begun.release()
        self.let_go.acquire()
        self.at_once -= 1
        return Look(began=began, ended=self.time.seconds)

    def stop(self) -> None:
        self.stopped = True
        self.let_go.release()

    def close(self) -> None:
        assert self.at_once == 0
        self.closed = True


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def lookout(time: FakeTime) -> Lookout:
    return Lookout(time)


@pytest.fixture
def monitor(lookout: Lookout, time: FakeTime) -> Iterator[ThreadMonitor]:
    monitor = ThreadMonitor(lookout, lambda: time.seconds)
    yield monitor
    monitor.close()
    assert lookout.closed
    assert lookout.most <= 1
    assert not [each for each in threading.enumerate() if each.name == "lh-health"]


def finish(monitor: ThreadMonitor, lookout: Lookout) -> None:
    lookout.let_go.release()
    assert monitor._thread is not None
    monitor._thread.join()


def test_polling_never_waits_and_starts_one_look_at_a_time(
    monitor: ThreadMonitor, lookout: Lookout, time: FakeTime
) -> None:
    for _ in range(4):
        assert monitor.poll() == ()
        time.advance(LOOK_EVERY_S)
    assert lookout.thorough == [False]
    finish(monitor, lookout)
    (look,) = monitor.poll()
    assert look.began == 1000.0
    assert look.ended == time.seconds
    lookout.begun.acquire()
    lookout.begun.acquire()  # the next one, since it was due
    assert lookout.thorough == [False, False]


def test_looks_keep_their_distance_unless_one_is_asked_for(
    monitor: ThreadMonitor, lookout: Lookout, time: FakeTime
) -> None:
    monitor.poll()
    finish(monitor, lookout)
    time.advance(LOOK_EVERY_S - 1.0)
    assert len(monitor.poll()) == 1
    assert len(lookout.thorough) == 1
    monitor.poll(thorough=True)
    lookout.begun.acquire()
    lookout.begun.acquire()
    assert lookout.thorough == [False, True]


def test_a_look_that_does_not_come_back_is_evidence_once(
    monitor: ThreadMonitor, lookout: Lookout, time: FakeTime
) -> None:
    monitor.poll()
    time.advance(STUCK_S - 1.0)
    assert monitor.poll() == ()
    time.advance(1.0)
    (look,) = monitor.poll()
    (piece,) = look.evidence
    assert (piece.kind, piece.blame, look.answered) == ("tool", "device", False)
    time.advance(100.0)
    assert monitor.poll() == ()
    assert len(lookout.thorough) == 1
    # when it comes back after all, it counts, and looking goes on
    finish(monitor, lookout)
    assert len(monitor.poll()) == 1


def test_waiting_gives_a_look_that_began_after_it_was_asked_for(
    monitor: ThreadMonitor, lookout: Lookout, time: FakeTime
) -> None:
    monitor.poll()
    time.advance(3.0)
    lookout.let_go.release()
    lookout.let_go.release()
    assert [look.began for look in monitor.wait(600.0)][-1] == 1003.0
    assert lookout.thorough == [False, True]


def test_waiting_comes_to_an_end(monitor: ThreadMonitor, lookout: Lookout) -> None:
    assert monitor.wait(0.0) == ()
    assert lookout.thorough == [True]


def test_closing_ends_what_runs_and_leaves_a_hopeless_look_behind(
    lookout: Lookout, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.health.monitor._CLOSE_S", 0.01)
    monkeypatch.setattr(lookout, "stop", lambda: None)
    monitor = ThreadMonitor(lookout, lambda: time.seconds)
    monitor.poll()
    lookout.begun.acquire()
    monitor.close()
    assert not lookout.closed  # its thread may still read from what would be closed
    assert monitor._thread is not None
    assert monitor._thread.daemon
    finish(monitor, lookout)
    monitor.close()
    assert lookout.closed
