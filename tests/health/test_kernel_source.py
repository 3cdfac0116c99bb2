"""Ways to read the kernel log from a moment on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orchestrator.health.kernel_source import Dmesg, Journal, Kmsg, Unreadable, open_other
from orchestrator.health.programs import Said
from tests.health.stubs import StubPrograms, said


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    path.write_text("6,1,10,-;from before\n")
    return path


def log(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def source(kmsg: Path) -> Iterator[Kmsg]:
    source = Kmsg(kmsg)
    yield source
    source.close()


def test_what_was_logged_before_does_not_count(kmsg: Path, source: Kmsg) -> None:
    assert source.records() == []
    log(kmsg, "3,2,20,-;NVRM: Xid 79\n")
    assert source.records() == ["NVRM: Xid 79"]
    assert source.records() == []


def test_properties_and_other_writers_are_left_out(kmsg: Path, source: Kmsg) -> None:
    log(
        kmsg,
        "3,2,20,-,caller=T1;amdgpu 0000:03:00.0: ring gfx timeout\n"
        " SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n"
        "12,3,21,-;NVRM: Xid (PCI:0000:65:00): 79, written by a user\n"
        "4,4,22,c;two\\x0alines \\xe2\n",
    )
    assert source.records() == ["amdgpu 0000:03:00.0: ring gfx timeout", "two\nlines â"]


def test_a_line_that_is_not_whole_yet_waits(kmsg: Path, source: Kmsg) -> None:
    log(kmsg, "3,2,20,-;half ")
    assert source.records() == []
    log(kmsg, "done\n")
    assert source.records() == ["half done"]


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    source = Kmsg(tmp_path / "pipe")
    assert source.records() == []
    os.write(writer, b"3,2,20,-;one\n3,3,21,-;two\n")
    assert source.records() == ["one", "two"]
    source.close()
    os.close(writer)


def test_records_that_were_overwritten_cost_no_others(
    source: Kmsg, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes | int] = [errno.EPIPE, b"3,9,20,-;after\n", errno.EAGAIN]

    def read(descriptor: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    monkeypatch.setattr(os, "read", read)
    assert source.records() == ["after"]


def test_a_device_that_may_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Kmsg(tmp_path / "none")


class Journald:
    """A journal that grows."""

    def __init__(self) -> None:
        self.lines = ["boot"]

    def __call__(self, argv: Sequence[str]) -> Said:
        after = [word.partition("=")[2] for word in argv if word.startswith("--after-cursor")]
        start = int(after[0]) if after else len(self.lines) - 1
        shown = self.lines[start:]
        return said("".join(f"{line}\n" for line in [*shown, f"-- cursor: {len(self.lines)}"]))


def test_the_journal_from_its_end_on() -> None:
    journal = Journald()
    source = Journal(StubPrograms({"journalctl": journal}))
    assert source.problem == ""
    assert source.records() == []
    journal.lines += ["one", "two"]
    assert source.records() == ["one", "two"]
    assert source.records() == []


def test_a_journal_that_stops_answering_repeats_nothing() -> None:
    journal = Journald()
    programs = StubPrograms({"journalctl": journal})
    source = Journal(programs)
    journal.lines.append("one")
    programs.answers["journalctl"] = Said(end="slow")
    assert source.records() == []
    programs.answers["journalctl"] = journal
    assert source.records() == ["one"]


def test_dmesg_from_its_end_on() -> None:
    programs = StubPrograms({"dmesg": said("[1.0] a\n[2.0] b\n")})
    source = Dmesg(programs)
    assert source.records() == []
    programs.answers["dmesg"] = said("[2.0] b\n[3.0] c\n[4.0] d\n")
    assert source.records() == ["[3.0] c", "[4.0] d"]
    programs.answers["dmesg"] = Said(end="stuck")
    assert source.records() == []
    # the buffer went round: all of it is new
    programs.answers["dmesg"] = said("[9.0] x\n")
    assert source.records() == ["[9.0] x"]


def test_the_first_way_that_works_is_taken() -> None:
    programs = StubPrograms({"journalctl": said("", 1), "dmesg": said("[1.0] a\n")})
    assert isinstance(open_other(programs, "/dev/kmsg: Permission denied"), Dmesg)
    programs.answers["journalctl"] = Journald()
    assert isinstance(open_other(programs, "/dev/kmsg: Permission denied"), Journal)


def test_all_that_was_tried_is_told_when_nothing_works() -> None:
    programs = StubPrograms(
        {"dmesg": said("dmesg: read kernel buffer failed: Operation not permitted\n", 1)}
    )
    source = open_other(programs, "/dev/kmsg: Permission denied")
    assert isinstance(source, Unreadable)
    assert source.problem == (
        "/dev/kmsg: Permission denied; journalctl: not installed; "
        "dmesg: dmesg: read kernel buffer failed: Operation not permitted"
    )
    assert source.records() == []
