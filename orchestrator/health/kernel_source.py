"""Where the kernel log can be read from, from the moment on at which a job starts.

`/dev/kmsg` if it may be read, else what `journalctl -k` or `dmesg` give. Formats:
https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg, journalctl(1), dmesg(1).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path
from typing import Protocol

from orchestrator.health.programs import Programs, Said

KMSG = Path("/dev/kmsg")
_ASK_S = 5.0
_RECORD = 8192
"""Bytes: the kernel never gives more at once, and fails for less."""
_MOST_RECORDS = 20_000
"""Read at one time: more than the kernel's buffer holds, less than forever."""
_HEAD = re.compile(r"(?P<priority>\d+),\d+,\d+,[^;]*;")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_CURSOR = "-- cursor: "


class Source(Protocol):
    """One way to read the kernel log."""

    problem: str
    """Why it cannot be read; empty when it can."""

    def records(self) -> list[str]:
        """What was logged since the last call, or since the source was opened."""

    def close(self) -> None:
        """Lets go of it."""


class Kmsg:
    """The kernel's own device. Reading it never blocks."""

    def __init__(self, path: Path = KMSG) -> None:
        """Starts at the end of what is there. Raises OSError when it may not be read."""
        self.problem = ""
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = ""
        with contextlib.suppress(OSError):  # a pipe has no end to go to
            os.lseek(self._file, 0, os.SEEK_END)

    def records(self) -> list[str]:
        """See `Source`."""
        text = [self._rest]
        for _ in range(_MOST_RECORDS):
            try:
                part = os.read(self._file, _RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten before it was read: go on after it
                    continue
                break
            if not part:
                break
            text.append(part.decode(errors="replace"))
        whole, _, self._rest = "".join(text).rpartition("\n")
        return [record for line in whole.split("\n") if (record := _record(line))]

    def close(self) -> None:
        """See `Source`."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _record(line: str) -> str:
    """What the kernel said on a line; empty for what a program wrote there, and for properties."""
    head = _HEAD.match(line)
    if head is None or int(head["priority"]) >> 3:
        return ""
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), line[head.end() :])


class Journal:
    """The journal of systemd, where its readers may see the kernel's log."""

    def __init__(self, programs: Programs) -> None:
        """Starts at its end."""
        self._programs = programs
        said = self._ask("-n", "1")
        self._cursor, _ = _split(said.text)
        self.problem = "" if self._cursor else _why("journalctl", said)

    def records(self) -> list[str]:
        """See `Source`."""
        cursor, lines = _split(self._ask(f"--after-cursor={self._cursor}").text)
        self._cursor = cursor or self._cursor
        return lines if cursor else []

    def close(self) -> None:
        """See `Source`."""

    def _ask(self, *more: str) -> Said:
        words = ["journalctl", "-k", "-q", "--no-pager", "-o", "cat", "--show-cursor", *more]
        return self._programs.ask(words, _ASK_S)


def _split(text: str) -> tuple[str, list[str]]:
    """The cursor and the lines before it."""
    lines = text.splitlines()
    if lines and lines[-1].startswith(_CURSOR):
        return lines[-1].removeprefix(_CURSOR), lines[:-1]
    return "", lines


class Dmesg:
    """All of the log again each time; what was there before is known by its last line."""

    def __init__(self, programs: Programs) -> None:
        """Starts at its end."""
        self._programs = programs
        said = programs.ask(["dmesg", "-k"], _ASK_S)
        self.problem = "" if said.end == "exit" and not said.code else _why("dmesg", said)
        self._last = said.text.splitlines()[-1:]

    def records(self) -> list[str]:
        """See `Source`."""
        said = self._programs.ask(["dmesg", "-k"], _ASK_S)
        if said.end != "exit" or said.code:
            return []
        lines = said.text.splitlines()
        start = 0
        if self._last and self._last[0] in lines:
            start = len(lines) - lines[::-1].index(self._last[0])
        self._last = lines[-1:] or self._last
        return lines[start:]

    def close(self) -> None:
        """See `Source`."""


class Unreadable:
    """None of them."""

    def __init__(self, problem: str) -> None:
        """Takes what was tried, and why it failed."""
        self.problem = problem

    def records(self) -> list[str]:
        """See `Source`."""
        return []

    def close(self) -> None:
        """See `Source`."""


def open_other(programs: Programs, problem: str) -> Source:
    """The first way that works where the kernel's device may not be read, because of `problem`."""
    problems = [problem]
    for way in (Journal, Dmesg):
        source = way(programs)
        if not source.problem:
            return source
        problems.append(source.problem)
    return Unreadable("; ".join(problems))


def _why(program: str, said: Said) -> str:
    if said.end == "missing":
        return f"{program}: not installed"
    if said.end != "exit":
        return f"{program}: no answer"
    lines = said.text.strip().splitlines()
    return f"{program}: {lines[-1][:120] if lines else f'exit {said.code}'}"
