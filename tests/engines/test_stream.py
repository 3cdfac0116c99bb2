"""From bytes to events: whatever a job prints, nothing is lost, raised or hoarded."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import records
from orchestrator.engines.stream import Chunk, EventParser, EventStream, Tail, parse_event
from orchestrator.job import (
    Alive,
    Artifact,
    Broken,
    Done,
    Event,
    Hello,
    Outcome,
    OutputError,
    StageBegan,
    StageTime,
    Started,
)

CELL = "pytorch_cpu.mlp.f32@intel-cpu"
ERROR = OutputError(
    index=0,
    shape=(2, 3),
    dtype="f32",
    elements=6,
    mismatches=1,
    max_abs=float("inf"),
    max_rel=0.5,
    worst=(1, 2),
    worst_got=1.0,
    worst_golden=2.0,
    rtol=1e-5,
    atol=1e-6,
    reason="table",
)
EVENTS: list[Event] = [
    Hello(python="3.11.7", versions={"torch": "2"}, toolchain="release", hardware={}, seconds=1.5),
    Broken(message="no torch"),
    Started(cell=CELL),
    StageBegan(cell=CELL, stage="ingress"),
    Artifact(cell=CELL, name="ir/00.mlir", data="eJw="),
    Done(
        cell=CELL,
        outcome=Outcome(
            status="fail",
            phase="compare",
            stages=(StageTime(stage="ingress", seconds=0.25, exit="ok"),),
            errors=(ERROR,),
        ),
    ),
    Alive(running=(CELL,)),
]


def line(event: Event) -> bytes:
    return records.dumps(event).encode() + b"\n"


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: str(e.event))
def test_every_kind_of_event_is_read(event: Event) -> None:
    assert parse_event(line(event)) == event


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"warning: something",
        b'{"event": "begun", "cell": "a"}',
        b'{"event": "started"}',
        b'{"event": "started", "cell": 3}',
        b'{"event": "started", "cell": "a", "more": 1}',
        b'{"event": ["started"]}',
        b'["started"]',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_event_is_none(text: bytes) -> None:
    assert parse_event(text) is None


@given(cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_it_does_not_matter_where_chunks_are_cut(cuts: list[int]) -> None:
    data = b"noise\n" + b"".join(map(line, EVENTS)) + line(EVENTS[2]).rstrip()
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    tail = Tail()
    parser = EventParser(tail)
    got = [e for a, b in itertools.pairwise(edges) for e in parser.feed(data[a:b])]
    assert [*got, *parser.close()] == [*EVENTS, EVENTS[2]]
    assert tail.text() == "noise\n"


def test_a_line_too_long_is_dropped_and_said_so() -> None:
    tail = Tail()
    parser = EventParser(tail, max_line=100)
    chunks = [b"x" * 60, b"x" * 60, b"x" * 60 + b"\n" + line(EVENTS[2])]
    assert [e for chunk in chunks for e in parser.feed(chunk)] == [EVENTS[2]]
    assert tail.text() == "[a line of more than 100 bytes dropped]\n"


@given(parts=st.lists(st.binary(max_size=30), max_size=8))
def test_a_tail_keeps_the_end_and_counts_the_rest(parts: list[bytes]) -> None:
    tail = Tail(10)
    for part in parts:
        tail.feed(part)
    everything = b"".join(parts)
    text = tail.text()
    if len(everything) > 10:
        note = f"[{len(everything) - 10:,} bytes before this were dropped]\n"
        assert text == note + everything[-10:].decode("utf-8", "replace")
    else:
        assert text == everything.decode("utf-8", "replace")


def test_events_come_from_standard_output_and_text_from_both() -> None:
    out: list[Chunk] = [(line(EVENTS[2]) + b"print\n", None), (line(EVENTS[1])[:-1], None)]
    err: list[Chunk] = [(None, b"a warning\n")]
    stream = EventStream([out, err])
    assert list(filter(None, stream.events(60))) == [EVENTS[2], EVENTS[1]]
    assert sorted(stream.tail.splitlines()) == ["a warning", "print"]
    assert stream.failure is None
    stream.close()


def test_silence_ticks() -> None:
    go_on = threading.Event()

    def feed() -> Iterator[Chunk]:
        go_on.wait()
        yield line(EVENTS[2]), None

    stream = EventStream([feed()])
    events = stream.events(0.001)
    assert [next(events), next(events)] == [None, None]
    go_on.set()
    assert list(filter(None, events)) == [EVENTS[2]]
    stream.close()


def test_chatter_on_standard_error_does_not_hold_ticks_back() -> None:
    quiet = threading.Event()

    def feed() -> Iterator[Chunk]:
        while not quiet.is_set():
            yield None, b"warning\n"

    stream = EventStream([feed()])
    assert next(stream.events(0.001)) is None
    quiet.set()
    stream.close()


def test_events_may_be_left_and_taken_up_again() -> None:
    stream = EventStream([[(b"".join(map(line, EVENTS)), None)]])
    first = next(stream.events(60))
    assert [first, *filter(None, stream.events(60))] == EVENTS
    stream.close()


def test_a_feed_that_breaks_ends_the_stream_and_is_kept() -> None:
    def feed() -> Iterator[Chunk]:
        yield line(EVENTS[2]), None
        raise OSError("connection reset")

    stream = EventStream([feed()])
    assert list(filter(None, stream.events(60))) == [EVENTS[2]]
    assert str(stream.failure) == "connection reset"
    stream.close()


def test_close_stops_a_feed_that_never_ends() -> None:
    stream = EventStream([((b"x\n", None) for _ in itertools.count())])
    stream.close()
    assert not any(t.name.startswith("lh-feed") and t.is_alive() for t in threading.enumerate())


def test_an_artifact_of_many_megabytes_comes_through() -> None:
    artifact = Artifact(cell=CELL, name="outputs.npz", data="A" * (8 << 20))
    data = json.dumps(records.encode(artifact)).encode() + b"\n"
    chunks: list[Chunk] = [(data[i : i + 65536], None) for i in range(0, len(data), 65536)]
    stream = EventStream([chunks])
    assert list(filter(None, stream.events(60))) == [artifact]
    stream.close()
