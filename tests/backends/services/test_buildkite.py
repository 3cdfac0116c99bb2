"""Dispatch by Buildkite, in conversations as its documentation has them, with faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import slip
from orchestrator.backends.base import NothingLeftError, Parcel
from orchestrator.backends.buildkite.backend import KEY, SLIP, STEPS, BuildkiteBackend, service
from orchestrator.errors import UsageError
from tests.backends.services.conftest import COMMIT, TOKEN, Place, machines
from tests.backends.services.conversation import Answer
from tests.config.tree import Tree

BUILDS = "/organizations/o/pipelines/p/builds"
LIST, CREATE, BUILD = f"GET {BUILDS}", f"POST {BUILDS}", f"GET {BUILDS}/7"
ARTIFACTS = f"{BUILD}/artifacts"


def backend(place: Place, tree: Tree) -> BuildkiteBackend:
    """A client with two agents."""
    return BuildkiteBackend(
        place.web(service),
        "o/p",
        machines("one", "two"),
        root=tree.root,
        commit=COMMIT,
        branch="main",
        clock=place.time.clock(),
    )


def job(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A job as the API tells of it."""
    return {
        "id": f"job-{number}",
        "type": "script",
        "step_key": "job-r:pytorch:intel-cpu",
        "state": "passed",
        "exit_status": 0,
        "signal_reason": None,
        "retried": False,
        "created_at": f"2026-11-21T0{number}:00:00Z",
        "agent": {"name": "lab-one"},
        **changes,
    }


class TestSubmit:
    """A build is started, once."""

    def test_the_job_and_its_step_are_meta_data(
        self, place: Place, tree: Tree, packed: Parcel, tmp_path: Path
    ) -> None:
        place.api.answers[LIST] = [Answer([])]
        place.api.answers[CREATE] = [Answer({"number": 7}, 201)]
        assert backend(place, tree).submit(packed) == "7"
        sent = place.api.asked[-1].body
        assert (sent["commit"], sent["branch"]) == (COMMIT, "main")
        assert sent["meta_data"][KEY] == packed.key
        (step,) = json.loads(sent["meta_data"][STEPS])["steps"]
        assert step["env"] == {"LIGHTHOUSE_JOB": packed.job}
        assert (step["agents"]["pool"], step["priority"]) == ("intel-cpu", 10)
        (tmp_path / "again").mkdir()
        again = slip.restore(sent["meta_data"][SLIP], tmp_path / "again", tree.root)
        assert again.id == packed.job
        assert place.api.asked[0].query[f"meta_data[{KEY}]"] == [packed.key]

    def test_an_answer_that_was_lost_is_looked_for(
        self, place: Place, tree: Tree, packed: Parcel
    ) -> None:
        found = [{"number": n, "meta_data": {KEY: packed.key}} for n in (8, 7)]
        place.api.answers[LIST] = [Answer([]), Answer(status=503), Answer(found)]
        place.api.answers[CREATE] = [Answer({"number": 7}, 201, cut=4, hangs_up=True)]
        cancel = f"PUT {BUILDS}/8/cancel"
        place.api.answers[cancel] = [Answer({})]
        assert backend(place, tree).submit(packed) == "7"
        assert (place.api.count(CREATE), place.api.count(cancel)) == (1, 1)

    def test_limits_are_kept(self, place: Place, tree: Tree, packed: Parcel) -> None:
        limit = Answer({"message": "too many"}, 429, {"RateLimit-Reset": "30"})
        place.api.answers[LIST] = [limit, Answer([])]
        place.api.answers[CREATE] = [limit, Answer({"number": 7}, 201)]
        assert backend(place, tree).submit(packed) == "7"
        assert place.time.seconds - 1000.0 == pytest.approx(61.0)

    @pytest.mark.parametrize(
        ("answer", "says"),
        [
            (Answer({"message": "Authentication required"}, 401), "wrong, expired or revoked"),
            (Answer({"message": "Forbidden"}, 403), "may not do that"),
            (Answer({"message": "No pipeline found"}, 404), "no pipeline o/p"),
            (Answer({"message": "branch filtered"}, 422), "refuses a build: branch filtered"),
        ],
    )
    def test_refusals_say_what_to_do(
        self, place: Place, tree: Tree, packed: Parcel, answer: Answer, says: str
    ) -> None:
        place.api.answers[LIST] = [Answer([])]
        place.api.answers[CREATE] = [answer]
        with pytest.raises(UsageError, match=says) as caught:
            backend(place, tree).submit(packed)
        assert TOKEN not in str(caught.value)


class TestWatch:
    """What has become of a build."""

    def sight(self, place: Place, tree: Tree, *made: dict[str, Any], state: str = "passed") -> Any:
        place.api.answers[BUILD] = [Answer({"number": 7, "state": state, "jobs": list(made)})]
        return backend(place, tree).watch(["7"])["7"]

    def test_planning_and_waiting_are_no_goes(self, place: Place, tree: Tree) -> None:
        plan = job(step_key="plan")
        waiting = job(state="scheduled", agent=None)
        sight = self.sight(place, tree, plan, waiting, state="running")
        assert (sight.goes, sight.ended) == ((), False)

    def test_what_was_retried_comes_first_and_is_lost(self, place: Place, tree: Tree) -> None:
        again = job(2, state="failed", exit_status=1)
        lost = job(1, state="failed", exit_status=-1, retried=True)
        sight = self.sight(place, tree, again, lost, state="failed")
        assert [(go.id, go.lost) for go in sight.goes] == [("job-1", True), ("job-2", False)]
        assert "its agent was lost" in sight.goes[0].why
        assert sight.ended
        assert place.api.asked[0].query["include_retried_jobs"] == ["true"]

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"state": "canceled"}, "cancelled"),
            ({"state": "timed_out"}, "longer than it may"),
            ({"state": "failed", "signal_reason": "agent_stop"}, "agent stopped"),
            ({"state": "failed", "signal_reason": "process_run_error"}, "could not start"),
            ({"state": "failed", "exit_status": 4, "retried": True}, "exit code 4"),
        ],
    )
    def test_signals_of_infrastructure(
        self, place: Place, tree: Tree, changes: dict[str, Any], why: str
    ) -> None:
        (go,) = self.sight(place, tree, job(**changes), state="failed").goes
        assert go.lost
        assert why in go.why
        assert go.cancelled == (changes.get("state") == "canceled")

    @pytest.mark.parametrize("taken", [True, False])
    def test_somebody_cancels(self, place: Place, tree: Tree, taken: bool) -> None:
        agent = {"name": "lab-one"} if taken else None
        sight = self.sight(place, tree, job(state="canceled", agent=agent), state="canceled")
        assert (sight.ended, sight.cancelled) == (True, True)
        assert [go.cancelled for go in sight.goes] == [True] * taken

    def test_a_failure_is_no_loss(self, place: Place, tree: Tree) -> None:
        for status in (1, 3, 4):
            failed = job(state="failed", exit_status=status)
            (go,) = self.sight(place, tree, failed, state="failed").goes
            assert (go.ended, go.lost) == (True, False)

    def test_a_build_that_was_deleted_has_ended(self, place: Place, tree: Tree) -> None:
        assert backend(place, tree).watch(["7"])["7"].ended


class TestCollect:
    """Artifacts."""

    def listed(self, place: Place, *names: str, **changes: Any) -> list[dict[str, Any]]:
        for name in names:
            where = {"Location": f"{place.store.url}/{name}?X-Amz-Signature=abc"}
            place.api.answers[f"GET /{name}"] = [Answer(status=302, headers=where)]
            place.store.answers[f"GET /{name}"] = [Answer(name.encode())]
        return [
            {
                "filename": "r.tar.gz",
                "job_id": "job-1",
                "state": "finished",
                "download_url": f"{place.api.url}/{name}",
                **changes,
            }
            for name in names
        ]

    def test_of_doubles_the_last(self, place: Place, tree: Tree, tmp_path: Path) -> None:
        place.api.answers[ARTIFACTS] = [
            Answer(
                [
                    *self.listed(place, "first", "second"),
                    *self.listed(place, "new", state="new"),
                    *self.listed(place, "theirs", job_id="job-2"),
                    *self.listed(place, "log", filename="log.txt"),
                ]
            )
        ]
        backend(place, tree).collect("7", "r", "job-1", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b"second"
        assert all("Authorization" not in asked.headers for asked in place.store.asked)

    def test_none(self, place: Place, tree: Tree, tmp_path: Path) -> None:
        place.api.answers[ARTIFACTS] = [Answer([])]
        with pytest.raises(NothingLeftError):
            backend(place, tree).collect("7", "r", "job-1", tmp_path / "back")


def test_what_is_over_can_be_cancelled(place: Place, tree: Tree) -> None:
    place.api.answers[f"PUT {BUILDS}/7/cancel"] = [Answer({"message": "finished"}, 422)]
    backend(place, tree).cancel("7", "enough")
