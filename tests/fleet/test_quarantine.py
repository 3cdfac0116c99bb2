"""Quarantine, what ends it, and what owners are told."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import InfrastructureError
from orchestrator.fleet.misses import Kind, kind_of
from orchestrator.fleet.notices import Notice, notice
from orchestrator.fleet.quarantine import (
    FIRST_S,
    MOST_S,
    NEW,
    Event,
    Seen,
    Standing,
    after,
    delay_s,
    quarantined,
    standings,
)
from orchestrator.health.evidence import Evidence
from orchestrator.results.lines import Lines
from tests.fleet.samples import agent
from tests.property import examples

START = dt.datetime(2026, 11, 20, 22, 0, tzinfo=dt.UTC)
LAB = agent()


def seen(event: Event, minutes: float = 0, kind: str = "", **fields: Any) -> Seen:
    at = (START + dt.timedelta(minutes=minutes)).isoformat()
    if event == "missed":
        kind = kind or "lost"
    return Seen(agent="intel-lab-1", event=event, at=at, kind=kind, **fields)


def stand(*events: Seen) -> Standing:
    return standings(events).get("intel-lab-1", NEW)


def test_delays_double_up_to_an_hour() -> None:
    assert [delay_s(n) for n in range(9)] == [0, 0, 60, 120, 240, 480, 960, 1920, 3600]
    assert delay_s(10_000) == MOST_S
    assert delay_s(2) == FIRST_S


def test_a_new_agent_owes_a_health_job_and_is_in_no_quarantine() -> None:
    assert stand().owes == "it has not run anything yet"
    assert not stand().quarantined
    assert stand(seen("healthy")) == Standing(passed=START)


def test_a_lost_job_is_a_strike_and_a_health_job_may_follow_at_once() -> None:
    now = stand(seen("healthy"), seen("missed", 5, message="it was lost"))
    assert (now.strikes, now.owes, now.quarantined) == (1, "a job was missed (lost)", True)
    assert not now.rests(START + dt.timedelta(minutes=5))
    assert now.passed == START


def test_health_jobs_that_fail_rest_longer_and_longer() -> None:
    events = [seen("sick", minutes) for minutes in (0, 1, 3)]
    now = stand(*events)
    assert now.since == START
    assert now.rests(START + dt.timedelta(minutes=4, seconds=59))
    assert not now.rests(START + dt.timedelta(minutes=5))


def test_a_health_job_that_passes_ends_it_and_keeps_the_strikes() -> None:
    now = stand(seen("sick"), seen("sick", 1), seen("healthy", 9))
    assert (now.quarantined, now.owes, now.until, now.strikes) == (False, "", None, 2)


def test_only_real_work_takes_strikes_away() -> None:
    flapping: list[Seen] = []
    for minutes in range(0, 30, 10):
        flapping += [seen("healthy", minutes), seen("missed", minutes + 1)]
    assert stand(*flapping).until == START + dt.timedelta(minutes=21, seconds=120)
    assert stand(*flapping, seen("healthy", 40), seen("worked", 50)).strikes == 0


def test_what_it_cannot_help_is_no_strike_but_nothing_spins() -> None:
    now = stand(seen("healthy"), seen("missed", 1, "pull"), seen("missed", 2, "pull"))
    assert (now.strikes, now.quarantined, now.owes) == (0, False, "a job was missed (pull)")
    assert now.until == START + dt.timedelta(minutes=3)
    assert stand(seen("missed", 1, "something of tomorrow")).strikes == 1
    resting = stand(*(seen("sick", 0) for _ in range(4)), seen("missed", 1, "pull"))
    assert resting.until == START + dt.timedelta(minutes=4)


def test_who_is_in_quarantine() -> None:
    other = Seen(agent="b", event="healthy", at=START.isoformat())
    by_agent = standings([seen("sick"), other])
    assert quarantined(by_agent) == {"intel-lab-1"}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["healthy", "sick", "missed", "worked"]),
        st.sampled_from(["", *map(str, Kind)]),
    ),
    max_size=30,
)


@examples(200)
@given(EVENTS)
def test_whatever_happens(events: list[tuple[Event, str]]) -> None:
    """In quarantine since the last failure of its own, and never resting for more than an hour."""
    now = NEW
    for minutes, (event, kind) in enumerate(events):
        line = seen(event, minutes, kind)
        before, now = now, after(now, line)
        own = event == "sick" or (event == "missed" and Kind(line.kind).own)
        assert now.quarantined == (own or (before.quarantined and event != "healthy"))
        assert bool(now.owes) or event in ("healthy", "worked")
        at = START + dt.timedelta(minutes=minutes)
        assert now.until is None or now.until <= at + dt.timedelta(seconds=MOST_S)


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_the_state_is_that_of_the_journal(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "fleet" / "agents.jsonl"
    assert list(Lines(path, Seen).read()) == []
    lines = [seen("healthy"), seen("missed", 3, message="lost"), seen("sick", 4)]
    for line in lines:
        Lines(path, Seen).add(line)
    assert standings(Lines(path, Seen).read()) == standings(lines)
    path.write_bytes(path.read_bytes()[:-cut])
    left = list(Lines(path, Seen).read())
    assert left == (lines if cut == 1 else lines[:-1])
    Lines(path, Seen).add(seen("worked", 9))
    assert list(Lines(path, Seen).read()) == [*left, seen("worked", 9)]


def test_a_line_that_is_none_of_ours_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "agents.jsonl"
    path.write_text('{"agent": "a"}\n', encoding="utf-8")
    with pytest.raises(InfrastructureError, match=r"agents\.jsonl:1 is damaged: .*event"):
        list(Lines(path, Seen).read())


class TestNotices:
    """What owners are told."""

    def tell(self, *events: Seen) -> list[Notice | None]:
        now, told = NEW, []
        for line in events:
            before, now = now, after(now, line)
            told.append(notice(LAB, before, now, line))
        return told

    def test_the_first_health_job_that_fails(self) -> None:
        wrong = seen("sick", 1, message="torch_cpu.mlp: fail at compare: wrong", job="h1")
        silent, first, second = self.tell(seen("healthy"), wrong, seen("sick", 2))
        assert silent is None
        assert second is None
        assert first is not None
        assert (first.to, first.agent) == ("ci@example.org", "intel-lab-1")
        assert first.subject == "intel-lab-1 is in quarantine"
        assert "what happened   torch_cpu.mlp: fail at compare: wrong" in first.text
        assert "next            a health job, at once" in first.text
        assert "look at memory, at the GPU" in first.text

    def test_what_to_look_at_follows_from_what_happened(self) -> None:
        for kind in Kind:
            told = self.tell(seen("sick", kind=str(kind)))[0]
            assert told is not None
            assert kind.look in told.text

    def test_a_job_that_was_lost_is_no_news_and_many_are(self) -> None:
        lost = [e for n in range(3) for e in (seen("missed", 2 * n), seen("healthy", 2 * n + 1))]
        told = self.tell(*lost)
        assert [each is not None for each in told] == [False, False, False, False, True, True]

    def test_that_it_needs_somebody_and_that_it_is_well(self) -> None:
        told = self.tell(*(seen("sick", n) for n in range(12)), seen("healthy", 90))
        subjects = [each.subject for each in told if each]
        assert subjects == [
            "intel-lab-1 is in quarantine",
            "intel-lab-1 is still in quarantine, and needs somebody",
            "intel-lab-1 is well again",
        ]

    def test_what_a_job_said_cannot_act_on_a_terminal(self) -> None:
        (told,) = self.tell(seen("sick", message="\x1b[31mred\nand more\u202e"))
        assert told is not None
        assert "what happened   red\n" in told.text


DEVICE = Evidence(kind="xid", blame="device", text="Xid 79")
UNCLEAR = Evidence(kind="reset", blame="unclear", text="ring reset")


@pytest.mark.parametrize(
    ("phase", "message", "kind"),
    [
        ("build", "image lh/x is no longer there: it was removed after it was", "daemon"),
        ("build", "starting the job: the engine's disk is full. `docker system df` …", "disk"),
        ("execute", "no space left on the device", "disk"),
        ("execute", "the job ended under this cell: killed from outside (SIGKILL)", "memory"),
        ("execute", "the job ended under this cell: killed: out of memory (limit 4 GiB)", "memory"),
        ("build", "never started: the job ended: the engine stopped answering", "daemon"),
        ("build", "no engine answers at unix:///run/docker.sock: refused.", "daemon"),
        ("build", "The build could not reach where packages come from. Name mirrors", "pull"),
        ("build", "pull access denied for lh/x", "pull"),
        ("", "lab-1 was lost", "lost"),
        ("", "lab-1 or its master went away (retry)", "lost"),
        ("", "lab-1: parcel refused: it does not end", "result"),
        ("", "lab-1: it brought back no results", "result"),
        ("build", "the job ended without a result of this cell", "result"),
        ("execute", "the harness stopped answering: not a word for 60 s", "stall"),
        ("build", "the harness did not answer within 180 s of its start", "stall"),
        ("execute", "the cell was killed from outside (SIGKILL), most likely because", "memory"),
        ("build", "the job ended: the process that guards the job died", "daemon"),
        ("", "no machine of pool amd-gpu took the job within 6 h", "unclaimed"),
        ("build", "the clock jumped by 3600 s while the cell ran", "clock"),
        ("build", "never started: the device did not come back: the NVIDIA GPU", "device"),
        ("execute", "something that nobody has seen before", "other"),
    ],
)
def test_kinds_of_misses(phase: str, message: str, kind: str) -> None:
    assert kind_of(phase, message) == kind


def test_evidence_tells_devices_and_hangs() -> None:
    assert kind_of("execute", "killed from outside (SIGKILL)", [DEVICE]) == Kind.DEVICE
    assert kind_of("execute", "GPU fault seen from outside: ring reset", [UNCLEAR]) == Kind.HANG
    assert kind_of("execute", "no space left", [UNCLEAR]) == Kind.DISK
    assert kind_of("build", "", [UNCLEAR]) == Kind.OTHER
