"""Dispatch by GitHub, in conversations as its documentation has them, with faults."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import ordering
from orchestrator.backends.base import NothingLeftError, Parcel
from orchestrator.backends.dispatch import Dispatcher, Pace
from orchestrator.backends.github.backend import MOST_INPUT, GitHubBackend, service
from orchestrator.errors import UsageError
from orchestrator.results.store import Run
from tests.backends.farm import jobs, quiet, start_run, terms
from tests.backends.services.conftest import COMMIT, TOKEN, Place, machines
from tests.backends.services.conversation import Answer
from tests.config.tree import Tree

REPOSITORY = "/repos/o/r"
RUNS = f"GET {REPOSITORY}/actions/workflows/job.yml/runs"
DISPATCH = f"POST {REPOSITORY}/actions/workflows/job.yml/dispatches"
RUN = f"GET {REPOSITORY}/actions/runs/7"
JOBS = f"{RUN}/jobs"
ARTIFACTS = f"{RUN}/artifacts"


def known(place: Place) -> None:
    """The repository and our commit are there; no run is."""
    place.api.answers[f"GET {REPOSITORY}"] = [Answer({"default_branch": "trunk"})]
    place.api.answers[f"GET {REPOSITORY}/git/commits/{COMMIT}"] = [Answer({"sha": COMMIT})]
    place.api.answers[RUNS] = [Answer({"workflow_runs": []})]


def backend(place: Place, tree: Tree, *agents: str) -> GitHubBackend:
    """A client with those agents."""
    return GitHubBackend(
        place.web(service),
        "o/r",
        machines(*(agents or ("one",))),
        root=tree.root,
        commit=COMMIT,
        clock=place.time.clock(),
    )


def job(number: int = 70, **changes: Any) -> dict[str, Any]:
    """A job as the API tells of it."""
    return {
        "id": number,
        "run_attempt": 1,
        "status": "completed",
        "conclusion": "success",
        "runner_name": "lab-one",
        **changes,
    }


def zipped(name: str, data: bytes) -> bytes:
    """An artifact."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as whole:
        whole.writestr(name, data)
    return file.getvalue()


class TestSubmit:
    """A workflow is started, once."""

    def test_the_job_is_an_input(self, place: Place, tree: Tree, packed: Parcel) -> None:
        known(place)
        place.api.answers[DISPATCH] = [Answer({"workflow_run_id": 7})]
        assert backend(place, tree).submit(packed) == "7"
        (sent,) = [asked for asked in place.api.asked if asked.what == DISPATCH]
        inputs = sent.body["inputs"]
        assert (sent.body["ref"], sent.body["return_run_details"]) == ("trunk", True)
        assert (inputs["key"], inputs["job"], inputs["commit"]) == (packed.key, packed.job, COMMIT)
        labels = ["self-hosted", "lighthouse", "pool-intel-cpu"]
        assert json.loads(inputs["runner"]) == labels
        assert sum(map(len, inputs.values())) < MOST_INPUT
        assert sent.headers["X-GitHub-Api-Version"] == "2022-11-28"

    def test_a_machine_that_failed_it_is_avoided(
        self, place: Place, tree: Tree, packed: Parcel
    ) -> None:
        known(place)
        place.api.answers[DISPATCH] = [Answer({"workflow_run_id": 7})]
        again = dataclasses.replace(packed, avoid=("lab-one",))
        backend(place, tree, "one", "two").submit(again)
        inputs = place.api.asked[-1].body["inputs"]
        assert json.loads(inputs["runner"])[-1] == "agent-lab-two"

    def test_only_who_may_take_it_gets_it(self, place: Place, tree: Tree, packed: Parcel) -> None:
        known(place)
        place.api.answers[DISPATCH] = [Answer({"workflow_run_id": 7})]
        only = dataclasses.replace(packed, agents=("lab-two",))
        backend(place, tree, "one", "two").submit(only)
        inputs = place.api.asked[-1].body["inputs"]
        assert json.loads(inputs["runner"])[-1] == "agent-lab-two"
        nobody = dataclasses.replace(packed, agents=("lab-gone",))
        with pytest.raises(UsageError, match="none of these takes its jobs: lab-gone"):
            backend(place, tree, "one").submit(nobody)

    def test_what_was_submitted_is_found(self, place: Place, tree: Tree, packed: Parcel) -> None:
        known(place)
        runs = [{"id": 9, "display_title": packed.key}, {"id": 5, "display_title": "another"}]
        link = {"Link": '<{url}/more>; rel="next"'}
        place.api.answers[RUNS] = [Answer({"workflow_runs": runs}, headers=link)]
        place.api.answers["GET /more"] = [
            Answer({"workflow_runs": [{"id": 7, "display_title": packed.key}]})
        ]
        cancel = f"POST {REPOSITORY}/actions/runs/9/cancel"
        place.api.answers[cancel] = [Answer({}, 202)]
        assert backend(place, tree).submit(packed) == "7"
        assert place.api.count(DISPATCH) == 0
        assert place.api.count(cancel) == 1

    def test_an_answer_that_was_lost_is_looked_for(
        self, place: Place, tree: Tree, packed: Parcel
    ) -> None:
        known(place)
        found = Answer({"workflow_runs": [{"id": 7, "display_title": packed.key}]})
        nothing = Answer({"workflow_runs": []})
        place.api.answers[RUNS] = [nothing, nothing, nothing, found]
        place.api.answers[DISPATCH] = [Answer(hangs_up=True)]
        assert backend(place, tree).submit(packed) == "7"
        assert place.api.count(DISPATCH) == 1

    def test_what_was_not_heard_is_said_again(
        self, place: Place, tree: Tree, packed: Parcel
    ) -> None:
        known(place)
        place.api.answers[DISPATCH] = [Answer(status=502), Answer({"workflow_run_id": 7})]
        assert backend(place, tree).submit(packed) == "7"

    def test_an_expired_token_is_told(self, place: Place, tree: Tree, packed: Parcel) -> None:
        place.api.answers[RUNS] = [Answer({"message": "Bad credentials"}, 401)]
        with pytest.raises(UsageError, match="expired") as caught:
            backend(place, tree).submit(packed)
        assert "LH_GITHUB_TOKEN should hold" in str(caught.value)
        assert TOKEN not in str(caught.value)

    def test_a_commit_that_was_not_pushed(self, place: Place, tree: Tree, packed: Parcel) -> None:
        known(place)
        del place.api.answers[f"GET {REPOSITORY}/git/commits/{COMMIT}"]
        with pytest.raises(UsageError, match="push it first"):
            backend(place, tree).submit(packed)

    def test_no_such_repository(self, place: Place, tree: Tree, packed: Parcel) -> None:
        with pytest.raises(UsageError, match="no repository o/r"):
            backend(place, tree).submit(packed)

    def test_no_such_workflow(self, place: Place, tree: Tree, packed: Parcel) -> None:
        known(place)
        with pytest.raises(UsageError, match=r"no workflow job\.yml on branch trunk"):
            backend(place, tree).submit(packed)

    def test_a_program_from_elsewhere_is_not_submitted(
        self, place: Place, tree: Tree, packed: Parcel
    ) -> None:
        tree.edit("recipes/workloads/sum.py", "class Model", "class  Model")
        with pytest.raises(UsageError, match=r"workloads/sum\.py of this job is not in the"):
            backend(place, tree).submit(packed)
        assert place.api.asked == []


class TestWatch:
    """What has become of a run."""

    def sight(self, place: Place, tree: Tree, *made: Any, **run: str) -> Any:
        place.api.answers[RUN] = [Answer({"id": 7, **run})]
        place.api.answers[JOBS] = [Answer({"jobs": list(made)})]
        return backend(place, tree).watch(["7"])["7"]

    def test_waiting_is_no_go(self, place: Place, tree: Tree) -> None:
        waiting = job(status="queued", conclusion=None, runner_name="")
        sight = self.sight(place, tree, waiting, status="queued")
        assert (sight.goes, sight.ended) == ((), False)

    def test_running_and_ended(self, place: Place, tree: Tree) -> None:
        running = job(status="in_progress", conclusion=None)
        (go,) = self.sight(place, tree, running, status="in_progress").goes
        assert (go.id, go.machine, go.ended, go.lost) == ("70", "lab-one", False, False)
        sight = self.sight(place, tree, job(conclusion="failure"), status="completed")
        assert [(go.ended, go.lost) for go in sight.goes] == [(True, False)]
        assert sight.ended

    @pytest.mark.parametrize("conclusion", ["cancelled", "timed_out", "stale", "startup_failure"])
    def test_what_leaves_nothing_is_lost(self, place: Place, tree: Tree, conclusion: str) -> None:
        sight = self.sight(place, tree, job(conclusion=conclusion), status="completed")
        assert [go.lost for go in sight.goes] == [True]
        assert sight.goes[0].why.startswith("lab-one: ")
        assert sight.goes[0].cancelled == (conclusion == "cancelled")

    @pytest.mark.parametrize(
        ("name", "ended", "cancelled"),
        [
            ("job of at most 30 min", "10:29:59", True),
            ("job of at most 30 min", "10:30:00", False),
            ("another", "10:30:00", True),
            ("job of at most 30 min", "soon", True),
        ],
    )
    def test_a_job_that_took_all_its_time_was_not_cancelled_by_somebody(
        self, place: Place, tree: Tree, name: str, ended: str, cancelled: bool
    ) -> None:
        made = job(conclusion="cancelled", name=name, started_at="2026-11-21T10:00:00Z")
        made["completed_at"] = f"2026-11-21T{ended}Z"
        sight = self.sight(place, tree, made, status="completed", conclusion="cancelled")
        assert (sight.goes[0].cancelled, sight.cancelled) == (cancelled, cancelled)
        assert sight.goes[0].lost
        assert ("longer than it may" in sight.goes[0].why) == (not cancelled)

    def test_somebody_cancels_what_waits(self, place: Place, tree: Tree) -> None:
        waited = job(conclusion="cancelled", runner_name="")
        sight = self.sight(place, tree, waited, status="completed", conclusion="cancelled")
        assert (sight.goes, sight.ended, sight.cancelled) == ((), True, True)

    def test_attempts_are_in_order(self, place: Place, tree: Tree) -> None:
        later, first = job(60, run_attempt=2), job(70)
        sight = self.sight(place, tree, later, first, status="completed")
        assert [go.id for go in sight.goes] == ["70", "60"]
        assert place.api.asked[-1].query["filter"] == ["all"]

    def test_what_is_over_is_not_asked_again(self, place: Place, tree: Tree) -> None:
        place.api.answers[RUN] = [Answer({"id": 7, "status": "completed"})]
        place.api.answers[JOBS] = [Answer({"jobs": [job()]})]
        client = backend(place, tree)
        assert client.watch(["7"]) == client.watch(["7"])
        assert place.api.count(RUN) == 1

    def test_a_run_that_was_deleted_has_ended(self, place: Place, tree: Tree) -> None:
        sight = backend(place, tree).watch(["7"])["7"]
        assert (sight.goes, sight.ended) == ((), True)


class TestCollect:
    """Artifacts."""

    NAME = "results-r.job"

    def fetch(self, place: Place, tree: Tree, tmp_path: Path) -> bytes:
        archive = tmp_path / "back.tar.gz"
        backend(place, tree).collect("7", "r.job", "70", archive)
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
        return archive.read_bytes()

    def artifact(self, place: Place, number: int, *answers: Answer, **changes: Any) -> Any:
        path = f"/actions/artifacts/{number}/zip"
        where = {"Location": f"{place.store.url}/{number}"}
        place.api.answers[f"GET {REPOSITORY}{path}"] = [Answer(status=302, headers=where)]
        place.store.answers[f"GET /{number}"] = list(answers)
        return {"id": number, "name": self.NAME, "expired": False, **changes}

    def test_of_doubles_the_latest_whole_one(
        self, place: Place, tree: Tree, tmp_path: Path
    ) -> None:
        whole = zipped("r.job.tar.gz", b"second")
        listed = [
            self.artifact(place, 1, Answer(zipped("r.job.tar.gz", b"first"))),
            self.artifact(place, 2, Answer(whole, cut=9), Answer(whole)),
            self.artifact(place, 3, Answer(b"no archive")),
            self.artifact(place, 4, Answer(whole), expired=True),
            self.artifact(place, 5, Answer(zipped("../r.job.tar.gz", b"odd"))),
        ]
        place.api.answers[ARTIFACTS] = [Answer({"artifacts": listed})]
        assert self.fetch(place, tree, tmp_path) == b"second"
        assert place.api.asked[0].query["name"] == [self.NAME]
        assert all("Authorization" not in asked.headers for asked in place.store.asked)

    def test_none(self, place: Place, tree: Tree, tmp_path: Path) -> None:
        place.api.answers[ARTIFACTS] = [Answer({"artifacts": []})]
        with pytest.raises(NothingLeftError):
            self.fetch(place, tree, tmp_path)


def test_what_is_over_can_be_cancelled(place: Place, tree: Tree) -> None:
    cancel = f"POST {REPOSITORY}/actions/runs/7/cancel"
    place.api.answers[cancel] = [Answer(status=502), Answer({"message": "completed"}, 409)]
    backend(place, tree).cancel("7", "enough")
    assert place.api.count(cancel) == 2


def test_a_run_that_never_starts_is_a_miss(
    place: Place, tree: Tree, tmp_path: Path, packed: Parcel
) -> None:
    known(place)
    place.api.answers[DISPATCH] = [Answer({"workflow_run_id": 7})]
    place.api.answers[RUN] = [Answer({"id": 7, "status": "queued"})]
    place.api.answers[JOBS] = [Answer({"jobs": [job(status="queued", runner_name=None)]})]
    cancel = f"POST {REPOSITORY}/actions/runs/7/cancel"
    place.api.answers[cancel] = [Answer({}, 202)]
    run = start_run(tmp_path / "run", place.time)
    pace = Pace(unclaimed_s=600.0)
    clock = place.time.clock()
    client = backend(place, tree)
    dispatcher = Dispatcher(run, client, quiet(), retries=2, clock=clock, pace=pace)
    (made,) = jobs(tree, run.name)
    common = terms(tree, run.name, place.time)
    dispatcher.plan(ordering.write(run.job_folder(made.id), made, common).id)
    dispatcher.go({"core": 10})
    latest = Run(run.folder).latest()
    assert {result.status for result in latest.values()} == {"miss"}
    assert all("no machine of pool intel-cpu took" in r.message for r in latest.values())
    assert place.api.count(cancel) == 1
