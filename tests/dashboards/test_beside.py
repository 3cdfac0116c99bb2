"""Work in a copy of the process: its outcome comes back, or the work is done here."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dashboards.beside import _fork, beside
from dashboards.site import Site
from orchestrator.errors import InfrastructureError

HERE = os.getpid()


def test_the_outcome_of_a_copy_comes_back() -> None:
    size = 1 << 20
    with beside(lambda: (os.getpid(), "x" * size)) as outcome:
        process, text = outcome()
    assert process != HERE
    assert len(text) == size


@pytest.mark.parametrize("end", [lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_what_a_copy_did_not_do_is_done_here(end: object) -> None:
    def work() -> int:
        if os.getpid() != HERE:
            end()  # type: ignore[operator]
        return os.getpid()

    with beside(work) as outcome:
        assert outcome() == HERE


def test_what_cannot_be_done_at_all_is_told() -> None:
    def work() -> None:
        raise InfrastructureError("the disk is full")

    with beside(work) as outcome, pytest.raises(InfrastructureError, match="full"):
        outcome()


def test_an_outcome_that_cannot_travel_is_made_here() -> None:
    with beside(lambda: lambda: 7) as outcome:
        assert outcome()() == 7


def test_nothing_is_left_of_a_copy_that_nobody_waits_for(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    def work() -> None:
        os.write(writer, str(os.getpid()).encode())
        signal.pause()

    with beside(work):
        process = int(os.read(reader, 20))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_where_processes_cannot_be_copied_the_work_is_done_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with beside(os.getpid) as outcome:
        assert outcome() == HERE


def test_a_copy_ends_with_the_process_that_it_is_a_copy_of() -> None:
    reader, writer = os.pipe()

    def work() -> None:
        os.write(writer, b"x")
        signal.pause()

    parent = _fork()
    if not parent:
        with beside(work):
            os.read(reader, 1)
            os._exit(0)
    os.waitpid(parent, 0)
    os.close(writer)
    # the end of what can be read comes when the last process that could write is gone
    assert os.read(reader, 1) == b""


def test_two_parts_of_a_site_with_one_file_are_an_error(tmp_path: Path) -> None:
    site = Site(tmp_path, "1")
    part = site.part(lambda: site.add("a.html", b"1"))
    assert part.written == 1
    site.add("a.html", b"2")
    with pytest.raises(InfrastructureError, match="two pages"):
        site.take(part)
