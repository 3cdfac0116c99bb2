"""The journal of a run: what a kill leaves, and what is no journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends.journal import Entry, Event, Journal
from orchestrator.errors import InfrastructureError


def entry(event: Event, job: str = "a", **fields: Any) -> Entry:
    return Entry(event=event, job=job, at="2026-11-20T21:04:11Z", **fields)


def test_a_new_one_is_empty(tmp_path: Path) -> None:
    assert Journal(tmp_path / "journal.jsonl").open_jobs() == ()


def test_what_was_told_is_known_to_the_next_reader(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.add(entry("planned"))
    journal.add(entry("planned", "b"))
    journal.add(entry("submitted", ticket="7"))
    journal.add(entry("claimed", attempt="1", machine="epyc"))
    journal.add(Entry(event="lost", job="a", at="", attempt="1", message="gone", numbers={"c": 2}))
    journal.add(entry("submitted", ticket="8"))
    journal.add(entry("collected", "b"))
    (state,) = Journal(path).open_jobs()
    assert (state.job, state.ticket, state.submissions) == ("a", "8", 2)
    assert state.claimed == {"1": "epyc"}
    assert state.lost["1"].numbers == {"c": 2}
    assert Journal(path).jobs["b"].over


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_line_that_was_cut_short_was_not_written(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).add(entry("planned"))
    Journal(path).add(entry("submitted", ticket="7"))
    path.write_bytes(path.read_bytes()[:-cut])
    journal = Journal(path)
    assert journal.jobs["a"].ticket == ("7" if cut == 1 else "")
    journal.add(entry("submitted", ticket="8"))
    assert Journal(path).jobs["a"].ticket == "8"


def test_a_line_of_another_kind_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).add(entry("planned"))
    with path.open("a") as file:
        file.write('{"event": "exploded", "job": "a", "at": ""}\n')
    with pytest.raises(InfrastructureError, match=r"journal\.jsonl:2 is damaged: .*exploded"):
        Journal(path)
