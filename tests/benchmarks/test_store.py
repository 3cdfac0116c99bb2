"""What the benchmark of the store asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.store import QUESTIONS
from orchestrator.results.archives.objects import Folder
from orchestrator.results.archives.query import Limits, ask
from orchestrator.results.archives.store import Store
from orchestrator.results.archives.verify import verify
from tests.benchmarks.year import Year
from tests.results.archives.samples import quiet


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_made_up_year_is_a_store_that_answers(year: Year, tmp_path: Path, name: str) -> None:
    store = Store(Folder(year.folder), tmp_path)
    with ask(store, QUESTIONS[name], Limits(), quiet) as answer:
        rows = list(answer.rows)
    assert len(rows) >= 5
    assert answer.problems == ()
    assert all(row[0] is not None for row in rows)


def test_a_made_up_year_is_whole(year: Year, tmp_path: Path) -> None:
    seen = verify(Store(Folder(year.folder), tmp_path), quiet)
    assert seen.problems == ()
    assert seen.runs == len({row.run for row in year.rows})
