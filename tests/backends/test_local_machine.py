"""One's own machine as a backend: what no other one has."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from orchestrator.backends.local_machine import LocalMachine
from orchestrator.backends.local_places import Place, ticket_of
from orchestrator.errors import InfrastructureError, UsageError
from tests.backends.conformance.local_bench import LocalBench
from tests.config.tree import make_tree

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> LocalBench:
    (tmp_path / "repo").mkdir()
    return LocalBench(make_tree(tmp_path / "repo"), tmp_path)


def place(bench: LocalBench, job: str) -> Place:
    return Place(folder=bench.folder / "machine" / job)


def test_one_job_at_a_time_the_most_urgent_first(bench: LocalBench) -> None:
    bench.hold()
    low, high = bench.parcel(), dataclasses.replace(bench.parcel(), priority=10)
    client = bench.client()
    client.submit(low)
    client.submit(high)
    assert [bench.sight(each.key).goes for each in (low, high)] == [(), ()]
    bench.free()
    bench.began(high.job)
    assert bench.sight(low.key).goes == ()
    bench.end(high.job)
    bench.end(low.job)
    assert bench.ended(low.key).goes[0].machine == "box"


def test_a_job_for_others_is_refused(bench: LocalBench) -> None:
    theirs = dataclasses.replace(bench.parcel(), agents=("lab-one", "lab-two"))
    mine = dataclasses.replace(bench.parcel(), agents=("lab-one", "box"))
    client = bench.client()
    with pytest.raises(UsageError, match="for lab-one, lab-two alone, and this machine is box"):
        client.submit(theirs)
    client.submit(mine)
    bench.end(mine.job)
    assert not bench.ended(mine.key).goes[0].lost


def test_what_was_killed_goes_on_in_its_folder(bench: LocalBench) -> None:
    given = bench.parcel()
    bench.client().submit(given)
    bench.began(given.job)
    (place(bench, given.job).folder / "out" / "before").touch()
    bench.lose(given.job)
    bench.end(given.job)
    lost, last = bench.ended(given.key).goes
    assert (lost.id, last.id) == (f"{given.key}.1", f"{given.key}.2")
    assert (place(bench, given.job).folder / "out" / "before").exists()


def test_what_does_not_end_is_killed_and_swept(bench: LocalBench, tmp_path: Path) -> None:
    given = bench.parcel()
    client = bench.client()
    assert isinstance(client, LocalMachine)
    client.submit(given)
    pid = bench.drop(given.job)
    os.kill(pid, signal.SIGSTOP)  # it hears no SIGTERM
    client._end_s = 0.2
    client.cancel(given.key, "enough")
    assert bench.swept == ["swept"]
    assert bench.ended(given.key).cancelled
    assert not place(bench, given.job).alive()


def test_who_was_killed_while_cancelling_cancels_again(bench: LocalBench) -> None:
    given = bench.parcel()
    client = bench.client()
    client.submit(given)
    bench.began(given.job)
    (place(bench, given.job).folder / "cancelled").write_text("and then the lights went out\n")
    assert not bench.sight(given.key).ended
    client.cancel(given.key, "enough")
    assert bench.sight(given.key).cancelled
    assert not place(bench, given.job).alive()


def test_forgetting_removes_everything(bench: LocalBench) -> None:
    given = bench.parcel()
    client = bench.client()
    client.submit(given)
    bench.began(given.job)
    client.forget(given.job)
    assert [path.name for path in (bench.folder / "machine").iterdir()] == [".lock"]
    assert bench.sight(given.key).ended


def test_output_is_kept_beside_the_job(bench: LocalBench) -> None:
    bench.client().submit(given := bench.parcel())
    bench.end(given.job)
    bench.ended(given.key)
    folder = place(bench, given.job).folder
    assert (folder / "log.txt").read_text() == ""
    assert (folder / "goes/1/exit").read_text() == "0\n"


def test_a_record_that_is_damaged_is_told(bench: LocalBench) -> None:
    bench.client().submit(given := bench.parcel())
    bench.end(given.job)
    bench.ended(given.key)
    (place(bench, given.job).folder / "submission.json").write_text("{}")
    with pytest.raises(InfrastructureError, match=r"submission.json cannot be used: .*missing key"):
        bench.client().forget("another")


def test_tickets_are_names_of_folders() -> None:
    assert ticket_of("r.pytorch.cpu~1") == "r.pytorch.cpu~1"
    for key in ("../x", ".hidden", "a b", "", "x" * 300):
        assert len(ticket_of(key)) == 64
