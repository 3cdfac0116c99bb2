"""From the bytes that a job prints to events: one reader for all engines.

A job's standard output is untrusted: a line of any length, anything between the events. What is
no event joins the tail of standard error, so that it is seen and does no harm.
"""

from __future__ import annotations

import collections
import json
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from orchestrator import records
from orchestrator.job import Event

MAX_LINE = 64 << 20
"""Bytes. An artifact's line is compressed IR: far less than this in practice."""
MAX_TAIL = 64 << 10
"""Bytes of standard error that are kept."""
_MAX_QUEUE = 256
_POLL_S = 0.2

Chunk = tuple[bytes | None, bytes | None]
"""What arrived on (standard output, standard error); None: nothing on that one."""

_KINDS = {cls.event: cls for cls in get_args(Event)}


def parse_event(line: bytes) -> Event | None:
    """The event that a line is, or None."""
    try:
        value = json.loads(line)
        kind = _KINDS.get(value.get("event")) if isinstance(value, dict) else None
        return None if kind is None else records.decode(kind, value)
    except (ValueError, RecursionError, TypeError):  # TypeError: an `event` that cannot be a key
        return None


class Tail:
    """The last bytes of what was fed."""

    def __init__(self, limit: int = MAX_TAIL) -> None:
        """Keeps at most `limit` bytes."""
        self._limit = limit
        self._bytes = b""
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Appends, and forgets the oldest."""
        joined = self._bytes + data[-self._limit :]
        self._dropped += len(self._bytes) + len(data) - min(len(joined), self._limit)
        self._bytes = joined[-self._limit :]

    def text(self) -> str:
        """What was kept; says how much was not."""
        note = f"[{self._dropped:,} bytes before this were dropped]\n" if self._dropped else ""
        return note + self._bytes.decode("utf-8", "replace")


class EventParser:
    """Splits standard output into lines, lines into events; bounded in memory."""

    def __init__(self, tail: Tail, max_line: int = MAX_LINE) -> None:
        """What is no event goes to `tail`; longer lines than `max_line` bytes are dropped."""
        self._tail = tail
        self._max_line = max_line
        self._pending = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Event]:
        """The events whose lines end in `data`."""
        events = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._grow(line)
            if (event := self._end_line()) is not None:
                events.append(event)
        self._grow(rest)
        return events

    def close(self) -> list[Event]:
        """The event of a last line without a newline, if it is one."""
        event = self._end_line() if self._pending else None
        return [] if event is None else [event]

    def _grow(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._pending) + len(part) > self._max_line:
            self._pending.clear()
            self._skipping = True
            self._tail.feed(f"[a line of more than {self._max_line:,} bytes dropped]\n".encode())
        else:
            self._pending += part

    def _end_line(self) -> Event | None:
        line = bytes(self._pending)
        self._pending.clear()
        if self._skipping:
            self._skipping = False
            return None
        event = parse_event(line)
        if event is None and line.strip():
            self._tail.feed(line + b"\n")
        return event


class EventStream:
    """Reads feeds of chunks in threads, and gives events as they come.

    A feed is any iterator of chunks that ends when its pipe or socket does. An `OSError` (or any
    other exception) of a feed ends that feed and is kept in `failure`.
    """

    def __init__(self, feeds: Sequence[Iterable[Chunk]], *, max_line: int = MAX_LINE) -> None:
        """Starts to read at once."""
        self._tail = Tail()
        self._parser = EventParser(self._tail, max_line)
        self._queue: queue.Queue[Chunk | None] = queue.Queue(_MAX_QUEUE)
        self._stop = threading.Event()
        self._ready: collections.deque[Event] = collections.deque()
        self._open = len(feeds)
        self._threads = [
            threading.Thread(target=self._pump, args=(feed,), daemon=True, name=f"lh-feed-{i}")
            for i, feed in enumerate(feeds)
        ]
        self.failure: BaseException | None = None
        """Why a feed ended early."""
        for thread in self._threads:
            thread.start()

    @property
    def tail(self) -> str:
        """The end of standard error, and of what was no event on standard output."""
        return self._tail.text()

    def events(self, tick_s: float) -> Iterator[Event | None]:
        """Events in order; None whenever `tick_s` seconds went by without one. Ends with the feeds.

        It may be left and called again: nothing is lost.
        """
        deadline = time.monotonic() + tick_s
        while self._open or self._ready:
            if not self._ready:
                self._ready += self._receive(max(0.0, deadline - time.monotonic()))
            if self._ready:
                yield self._ready.popleft()
                deadline = time.monotonic() + tick_s
            elif time.monotonic() >= deadline and self._open:
                yield None
                deadline = time.monotonic() + tick_s

    def close(self, wait_s: float = 5.0) -> None:
        """Stops reading. Call it when the pipes are at their end or nobody cares any more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(wait_s)

    def _receive(self, wait_s: float) -> list[Event]:
        try:
            chunk = self._queue.get(timeout=wait_s)
        except queue.Empty:
            return []
        if chunk is None:
            self._open -= 1
            return [] if self._open else self._parser.close()
        out, err = chunk
        if err:
            self._tail.feed(err)
        return self._parser.feed(out) if out else []

    def _pump(self, feed: Iterable[Chunk]) -> None:
        try:
            for chunk in feed:
                if not self._put(chunk):
                    return
        except BaseException as error:  # noqa: BLE001  a thread has nobody to raise to
            self.failure = error
        finally:
            self._put(None)

    def _put(self, item: Chunk | None) -> bool:
        """Waits for room, so that a job that prints without end is slowed down, not hoarded."""
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False
