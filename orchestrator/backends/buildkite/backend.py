"""Dispatch by Buildkite: see `backends.base.Backend`. A submission is a build of one job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.backends import slip
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.buildkite.steps import key, step
from orchestrator.backends.clock import Clock
from orchestrator.backends.parcel import SUFFIX
from orchestrator.backends.placing import place_parcel
from orchestrator.backends.service import AbsentError, ConflictError, Service, UnclearError
from orchestrator.backends.web import Web
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet.serving import RegisteredMachines

MOST_META_DATA = 100_000
"""Bytes of one value (https://buildkite.com/docs/pipelines/configure/build-meta-data)."""
MOST_RESULT_BYTES = 1 << 30
KEY, SLIP, STEPS = "lighthouse-key", "lighthouse-slip", "lighthouse-steps"
"""Names of what a build is given; the last two are read by the scripts in `.buildkite/`."""
_TRIES = 6
_PAUSE_S = 3.0
_OVER = ("passed", "failed", "canceled", "skipped", "not_run", "waiting_failed")
_JOB_OVER = ("passed", "failed", "canceled", "timed_out", "expired", "broken", "skipped")
_CANCELLED = "canceled"
"""State of what somebody stopped; time limits and lost agents have other ones."""
_LOST = {
    _CANCELLED: "it was cancelled",
    "timed_out": "it took longer than it may",
    "expired": "no agent took it in time",
    "broken": "Buildkite could not run it",
}
_SIGNALS = {
    "agent_stop": "its agent stopped",
    "agent_refused": "its agent refused it",
    "process_run_error": "its agent could not start it",
}


def service(api: str) -> Service:
    """Buildkite."""
    return Service(
        name="Buildkite",
        api=api.rstrip("/"),
        headers={"Accept": "application/json"},
        renew="LH_BUILDKITE_TOKEN should hold an API access token of the organization that may "
        "read and write builds and read artifacts: buildkite.com/user/api-access-tokens",
    )


class BuildkiteBackend:
    """Agents of an organization."""

    name = "buildkite"

    def __init__(
        self,
        web: Web,
        pipeline: str,
        machines: RegisteredMachines,
        *,
        root: Path,
        commit: str,
        branch: str,
        clock: Clock | None = None,
    ) -> None:
        """Asks nothing yet.

        Args:
            web: how Buildkite is reached.
            pipeline: `organization/pipeline`.
            machines: the agents with backend `buildkite`.
            root: the checkout that jobs were planned in.
            commit: of that checkout.
            branch: that has it.
            clock: what waiting goes by.
        """
        organization, _, name = pipeline.partition("/")
        self._builds = f"organizations/{organization}/pipelines/{name}/builds"
        self._web = web
        self._machines = machines
        self._root = root
        self._commit, self._branch = commit, branch
        self._clock = clock or Clock()
        self._over: dict[str, Sight] = {}
        self.where = pipeline

    def fleet(self) -> RegisteredMachines:
        """The registered agents."""
        return self._machines

    def online(self) -> None:
        """See `Backend.online`."""

    def submit(self, parcel: Parcel) -> str:
        """See `Backend.submit`."""
        text, job = slip.of_parcel(parcel.archive, self._root)
        placed = place_parcel(job, parcel, self._machines, hosted=False)
        body = {
            "commit": self._commit,
            "branch": self._branch,
            "message": f"lh-ci {parcel.key}",
            "ignore_pipeline_branch_filters": True,
            "meta_data": {
                KEY: parcel.key,
                SLIP: text,
                STEPS: json.dumps({"steps": [step(placed)]}),
            },
        }
        if len(text) > MOST_META_DATA:
            raise UsageError(
                f"job {job.id} has {len(job.cells)} cells, which is too much for the meta-data of "
                "a build. Run fewer at a time, by --pipeline or --workload"
            )
        why = ""
        for _ in range(_TRIES):
            if (found := self._find(parcel.key)) is not None:
                return found
            try:
                return str(int(self._web.post(self._builds, body)["number"]))
            except UnclearError as error:
                why = str(error)
                self._clock.sleep(_PAUSE_S)
            except AbsentError:
                raise UsageError(
                    f"there is no pipeline {self.where}, or the token may not see it. "
                    f"{self._web.service.renew}"
                ) from None
            except ConflictError as error:
                raise UsageError(f"{self.where} refuses a build: {error}") from None
        raise InfrastructureError(f"Buildkite did not take job {job.id}: {why}")

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend.watch`."""
        return {ticket: self._sight(ticket) for ticket in tickets}

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:
        """See `Backend.collect`."""
        found = [
            artifact
            for artifact in self._web.pages(f"{self._builds}/{ticket}/artifacts")
            if artifact.get("filename") == f"{job}{SUFFIX}"
            and artifact.get("job_id") == go
            and artifact.get("state") == "finished"
        ]
        # a job that uploaded twice: the last one is complete
        for artifact in reversed(found):
            try:
                self._web.fetch(str(artifact["download_url"]), archive, MOST_RESULT_BYTES)
            except AbsentError:
                continue
            return
        raise NothingLeftError("it brought back no results")

    def cancel(self, ticket: str, why: str) -> None:  # noqa: ARG002  Buildkite takes no reason
        """See `Backend.cancel`."""
        for _ in range(_TRIES):
            try:
                self._web.post(f"{self._builds}/{ticket}/cancel", {}, "PUT")
            except UnclearError:
                self._clock.sleep(_PAUSE_S)
                continue
            except (ConflictError, AbsentError):
                pass  # it is over
            return
        raise InfrastructureError(f"Buildkite does not say whether it cancelled build {ticket}")

    def forget(self, job: str) -> None:
        """See `Backend.forget`: artifacts go by themselves."""

    # --- how --------------------------------------------------------------------------------

    def _find(self, submission: str) -> str | None:
        """The build of a key; what was started twice is cancelled but once."""
        try:
            builds = list(
                self._web.pages(
                    self._builds, {f"meta_data[{KEY}]": submission, "exclude_jobs": "true"}
                )
            )
        except AbsentError:
            return None  # no such pipeline: to start a build says so
        found = sorted(
            int(build["number"])
            for build in builds
            if (build.get("meta_data") or {}).get(KEY) == submission
        )
        for double in found[1:]:
            self.cancel(str(double), "submitted twice")
        return str(found[0]) if found else None

    def _sight(self, ticket: str) -> Sight:
        if ticket in self._over:
            return self._over[ticket]
        try:
            build = self._web.get(f"{self._builds}/{ticket}", {"include_retried_jobs": "true"})
        except AbsentError:
            return Sight(goes=(), ended=True)
        prefix = key("")
        jobs = [job for job in build.get("jobs", []) if str(job.get("step_key")).startswith(prefix)]
        goes = tuple(
            _go(job)
            for job in sorted(jobs, key=lambda each: str(each["created_at"]))
            if _taken(job)
        )
        state = build["state"]
        sight = Sight(goes=goes, ended=state in _OVER, cancelled=state == _CANCELLED)
        if sight.ended:
            self._over[ticket] = sight
        return sight


def _taken(job: Mapping[str, Any]) -> bool:
    return bool((job.get("agent") or {}).get("name"))


def _go(job: Mapping[str, Any]) -> Go:
    machine, why = str(job["agent"]["name"]), ""
    ended = job.get("state") in _JOB_OVER
    if ended:
        why = _LOST.get(str(job["state"]), "") or _SIGNALS.get(str(job.get("signal_reason")), "")
        if not why and job.get("exit_status") == -1:
            why = "its agent was lost"
        if not why and job.get("retried"):
            why = f"it ended with exit code {job.get('exit_status')} and was given out again"
    return Go(
        id=str(job["id"]),
        machine=machine,
        ended=ended,
        lost=bool(why),
        cancelled=job.get("state") == _CANCELLED,
        why=f"{machine}: {why}" if why else "",
    )
