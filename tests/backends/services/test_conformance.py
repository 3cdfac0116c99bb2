"""Every backend carries the same job to machines, and the same record back, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrator.backends import intake, ordering
from orchestrator.backends.base import Backend
from orchestrator.backends.buildkite import backend as buildkite
from orchestrator.backends.dispatch import Dispatcher
from orchestrator.backends.github import backend as github
from orchestrator.backends.journal import Journal
from orchestrator.results.store import Run
from tests.backends.farm import Bomb, Farm, Fate, KilledError, jobs, quiet, start_run, terms
from tests.backends.services.conftest import COMMIT, Place, machines
from tests.backends.services.conversation import Conversation, serve
from tests.backends.services.live import Live, LiveBuildkite, LiveGitHub
from tests.backends.test_dispatch import MLP, MLP_F16, SUM, after, record
from tests.config.tree import Tree
from tests.fakes import FakeEngine, Play, fail

NAMES = ("farm", "github", "buildkite")


@pytest.fixture
def farm(tree: Tree, tmp_path: Path) -> Farm:
    """Machines; one cell is wrong."""
    engine = FakeEngine(Play({SUM: [fail("wrong")]}, files={"ir/00.mlir": b"module {}"}))
    return Farm(tree, tmp_path / "farm", engine)


@pytest.fixture
def live(request: pytest.FixtureRequest, farm: Farm) -> Iterator[Live | None]:
    """The service that is asked for, in front of the farm; None: none."""
    kinds = {"github": LiveGitHub, "buildkite": LiveBuildkite}
    kind = kinds.get(request.param)
    if kind is None:
        yield None
        return
    with serve(kind(farm=farm)) as service:
        assert isinstance(service, Live)
        yield service


def client(live: Live | None, farm: Farm) -> Backend:
    """What the dispatcher talks to."""
    if live is None:
        return farm
    place = Place(live, Conversation(), farm.engine.time)
    common: dict[str, Any] = {
        "root": farm.tree.root,
        "commit": COMMIT,
        "clock": farm.engine.time.clock(),
    }
    if isinstance(live, LiveGitHub):
        return github.GitHubBackend(place.web(github.service), "o/r", machines("one"), **common)
    web = place.web(buildkite.service)
    return buildkite.BuildkiteBackend(web, "o/p", machines("one"), branch="main", **common)


def dispatcher(farm: Farm, backend: Backend, run: Run) -> Dispatcher:
    """One that retries twice."""
    return Dispatcher(run, backend, quiet(), retries=2, clock=farm.engine.time.clock())


def planned(farm: Farm, run: Run) -> list[str]:
    """The folders of all jobs."""
    common = terms(farm.tree, run.name, farm.engine.time)
    return [ordering.write(run.job_folder(j.id), j, common).id for j in jobs(farm.tree, run.name)]


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("live", NAMES, indirect=True)
def test_the_job_folder_is_the_same_byte_for_byte(
    farm: Farm, live: Live | None, tmp_path: Path
) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    done = dispatcher(farm, client(live, farm), run)
    (job,) = planned(farm, run)
    done.plan(job)
    done.go({"core": 10})
    given = files(run.folder / "jobs" / job)
    assert {"job.json", "order.json", "workloads/sum.py", "orchestrator/job.py"} <= set(given)
    if live is not None:
        assert [files(folder) for folder in live.folders] == [given]
    assert files(farm.folder / "go-1" / "job") == given
    assert record(run) == after()
    assert (run.artifacts(SUM) / "ir/00.mlir").read_bytes() == b"module {}"


FINAL: tuple[Fate, ...] = ("cancelled", "refused")
"""What is not tried again: somebody's wish, and a machine's own word that it cannot."""
AGAIN = [fate for fate in get_args(Fate) if fate not in ("well", *FINAL)]


@pytest.mark.parametrize("fate", FINAL)
@pytest.mark.parametrize("live", NAMES, indirect=True)
def test_what_is_final_is_one_miss(
    farm: Farm, live: Live | None, tmp_path: Path, fate: Fate
) -> None:
    farm.fates = [fate]
    run = start_run(tmp_path / "run", farm.engine.time)
    done = dispatcher(farm, client(live, farm), run)
    _all(done, planned(farm, run))
    assert record(run) == {cell: [(1, "miss")] for cell in (MLP, MLP_F16, SUM)}
    assert len(farm.submissions) == 1
    told = {result.message for result in run.latest().values()}
    assert len(told) == 1
    assert ("cancelled" in told.pop()) == (fate == "cancelled")


@pytest.mark.parametrize("fate", AGAIN)
@pytest.mark.parametrize("live", NAMES, indirect=True)
def test_what_goes_wrong_once_is_a_miss_and_is_tried_again(
    farm: Farm, live: Live | None, tmp_path: Path, fate: Fate
) -> None:
    farm.fates = [fate]
    run = start_run(tmp_path / "run", farm.engine.time)
    done = dispatcher(farm, client(live, farm), run)
    _all(done, planned(farm, run))
    assert record(run) == after(1)


def _all(done: Dispatcher, made: list[str]) -> None:
    for job in made:
        done.plan(job)
    done.go({})


@pytest.mark.parametrize("moment", [3, 6, 9, 12, 15, 18])
@pytest.mark.parametrize("live", NAMES[1:], indirect=True)
def test_killed_and_resumed_gives_the_same_record(
    farm: Farm, live: Live, tmp_path: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_run(tmp_path / "run", farm.engine.time)
    made = planned(farm, run)
    bomb = Bomb(moment)
    with monkeypatch.context() as patch:
        backend = client(live, farm)
        for name in ("submit", "watch", "collect", "forget"):
            patch.setattr(backend, name, bomb.wrap(getattr(backend, name)))
        patch.setattr(Journal, "add", bomb.wrap(Journal.add))
        patch.setattr(intake, "add", bomb.wrap(intake.add))
        first = dispatcher(farm, backend, run)
        with pytest.raises(KilledError):
            _all(first, made)
    again = dispatcher(farm, client(live, farm), run)
    for job in made:
        if job not in Journal(run.folder / "journal.jsonl").jobs:
            again.plan(job)
    again.go({})
    assert record(run) == after()
    assert len(live.keys) == 1
    assert {MLP, MLP_F16, SUM} == set(run.latest())
