"""Dispatch by GitHub Actions: see `backends.base.Backend`. A submission is a run of `job.yml`."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.backends import slip
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.clock import Clock
from orchestrator.backends.github.matrix import labels
from orchestrator.backends.parcel import SUFFIX, Bounds
from orchestrator.backends.placing import place_parcel
from orchestrator.backends.service import AbsentError, ConflictError, Service, UnclearError
from orchestrator.backends.web import Web
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.fleet.serving import BothMachines, RegisteredMachines

WORKFLOW = "job.yml"
MOST_INPUT = 65_535
"""Characters of all inputs of a workflow together."""
MOST_RESULT_BYTES = 1 << 30
_TRIES = 6
"""To be heard with certainty."""
_PAUSE_S = 5.0
"""A run is listed a moment after it was made."""
_LOOK_BACK = 300
"""Runs that are looked through for one that was made before: more than a day of a busy fleet."""
_CANCELLED = "cancelled"
_TIMED_OUT = "timed_out"
_LOST = {
    _CANCELLED: "it was cancelled",
    _TIMED_OUT: "it took longer than it may",
    "stale": "GitHub heard nothing from it for long",
    "startup_failure": "GitHub could not start it",
}
"""Conclusions of a job that leave nothing."""
_MINUTES = re.compile(r"(\d{1,5}) min")
"""In the name of a job of `job.yml`: the time that it may take."""


def service(api: str) -> Service:
    """GitHub, with what it wants to be asked with."""
    return Service(
        name="GitHub",
        api=api.rstrip("/"),
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
        renew="LH_GITHUB_TOKEN should hold a fine-grained token for the repository that may read "
        "and write actions and read contents: github.com/settings/personal-access-tokens",
    )


class GitHubBackend:
    """Runners of a repository."""

    name = "github"

    def __init__(
        self,
        web: Web,
        repository: str,
        machines: RegisteredMachines,
        *,
        root: Path,
        commit: str,
        clock: Clock | None = None,
    ) -> None:
        """Asks nothing yet.

        Args:
            web: how GitHub is reached.
            repository: `owner/name`.
            machines: the agents with backend `github`; other pools go to hosted runners.
            root: the checkout that jobs were planned in.
            commit: of that checkout.
            clock: what waiting goes by.
        """
        self._web = web
        self._base = f"repos/{repository}"
        self._machines = machines
        self._root = root
        self._commit = commit
        self._clock = clock or Clock()
        self._over: dict[str, Sight] = {}
        self.where = repository

    def fleet(self) -> BothMachines:
        """The registered agents, and hosted runners for pools without one."""
        return BothMachines(self._machines)

    def online(self) -> None:
        """See `Backend.online`."""

    def submit(self, parcel: Parcel) -> str:
        """See `Backend.submit`."""
        text, job = slip.of_parcel(parcel.archive, self._root)
        hosted = not self._machines.serving(job.pool)
        placed = place_parcel(job, parcel, self._machines, hosted=hosted)
        inputs = {
            "key": parcel.key,
            "job": job.id,
            "commit": self._commit,
            "runner": json.dumps(labels(placed)),
            "minutes": str(math.ceil(placed.timeout_s / 60)),
            "slip": text,
        }
        if sum(map(len, inputs.values())) > MOST_INPUT:
            raise UsageError(
                f"job {job.id} has {len(job.cells)} cells, which is too much for the inputs of a "
                "workflow. Run fewer at a time, by --pipeline or --workload"
            )
        if (found := self._find(parcel.key)) is not None:
            return found
        return self._dispatch(parcel.key, inputs)

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend.watch`."""
        return {ticket: self._sight(ticket) for ticket in tickets}

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:  # noqa: ARG002
        """See `Backend.collect`."""
        name = f"results-{job}"
        path = f"{self._base}/actions/runs/{ticket}/artifacts"
        found = [
            artifact
            for artifact in self._web.pages(path, {"name": name}, "artifacts")
            if artifact.get("name") == name and not artifact.get("expired")
        ]
        zipped = archive.with_name(f".{archive.name}.zip")
        # of several, those of later attempts come first
        for artifact in sorted(found, key=lambda each: int(each["id"]), reverse=True):
            url = f"{self._base}/actions/artifacts/{int(artifact['id'])}/zip"
            try:
                self._web.fetch(url, zipped, MOST_RESULT_BYTES)
                if _take(zipped, f"{job}{SUFFIX}", archive):
                    return
            except AbsentError:
                continue
            finally:
                zipped.unlink(missing_ok=True)
        raise NothingLeftError("it brought back no results")

    def cancel(self, ticket: str, why: str) -> None:  # noqa: ARG002  GitHub takes no reason
        """See `Backend.cancel`."""
        for _ in range(_TRIES):
            try:
                self._web.post(f"{self._base}/actions/runs/{ticket}/cancel", {})
            except UnclearError:
                self._clock.sleep(_PAUSE_S)
                continue
            except (ConflictError, AbsentError):
                pass  # it is over
            return
        raise InfrastructureError(f"GitHub does not say whether it cancelled run {ticket}")

    def forget(self, job: str) -> None:
        """See `Backend.forget`: artifacts go by themselves, after some days."""

    # --- how --------------------------------------------------------------------------------

    @cached_property
    def _ref(self) -> str:
        """The branch whose `job.yml` is run; our commit is on GitHub."""
        try:
            repository = self._web.get(self._base)
        except AbsentError:
            raise UsageError(
                f"there is no repository {self.where}, or the token may not see it. "
                f"{self._web.service.renew}"
            ) from None
        try:
            self._web.get(f"{self._base}/git/commits/{self._commit}")
        except AbsentError:
            raise UsageError(
                f"commit {self._commit:.12} is not in {self.where}: push it first, its machines "
                "work in a checkout of it"
            ) from None
        return str(repository["default_branch"])

    def _dispatch(self, key: str, inputs: Mapping[str, str]) -> str:
        path = f"{self._base}/actions/workflows/{WORKFLOW}/dispatches"
        body = {"ref": self._ref, "inputs": dict(inputs), "return_run_details": True}
        why = ""
        for _ in range(_TRIES):
            try:
                answer = self._web.post(path, body)
                if isinstance(answer, dict) and "workflow_run_id" in answer:
                    return str(int(answer["workflow_run_id"]))
                why = "it does not say which run it made"
            except UnclearError as error:
                why = str(error)
            except AbsentError:
                raise UsageError(
                    f"{self.where} has no workflow {WORKFLOW} on branch {self._ref}: "
                    "lh-ci workflows --write, and push"
                ) from None
            except ConflictError as error:
                raise UsageError(f"{self.where} refuses {WORKFLOW}: {error}") from None
            for _ in range(_TRIES):
                self._clock.sleep(_PAUSE_S)
                if (found := self._find(key)) is not None:
                    return found
        raise InfrastructureError(f"GitHub did not take job {inputs['job']}: {why}")

    def _find(self, key: str) -> str | None:
        """The run of a key; what was started twice is cancelled but once."""
        path = f"{self._base}/actions/workflows/{WORKFLOW}/runs"
        found = []
        try:
            for number, run in enumerate(
                self._web.pages(path, {"event": "workflow_dispatch"}, "workflow_runs"), 1
            ):
                if run.get("display_title") == key:
                    found.append(int(run["id"]))
                if number >= _LOOK_BACK:
                    break
        except AbsentError:
            return None  # no such workflow: to dispatch it says so
        for double in sorted(found)[1:]:
            self.cancel(str(double), "submitted twice")
        return str(min(found)) if found else None

    def _sight(self, ticket: str) -> Sight:
        if ticket in self._over:
            return self._over[ticket]
        path = f"{self._base}/actions/runs/{ticket}"
        try:
            run = self._web.get(path)
            # the run first: a job that ends in between is seen by the next look
            ended = run["status"] == "completed"
            goes = tuple(_goes(self._web.pages(f"{path}/jobs", {"filter": "all"}, "jobs")))
        except AbsentError:
            return Sight(goes=(), ended=True)
        # a run is cancelled as a whole when its job took too long, too
        stopped = run.get("conclusion") == _CANCELLED and (not goes or goes[-1].cancelled)
        sight = Sight(goes=goes, ended=ended, cancelled=stopped)
        if ended:
            self._over[ticket] = sight
        return sight


def _goes(jobs: Iterator[dict[str, Any]]) -> Iterator[Go]:
    """Those that a runner has taken."""
    for job in sorted(jobs, key=lambda each: (int(each.get("run_attempt", 1)), int(each["id"]))):
        machine = str(job.get("runner_name") or "")
        if not machine:
            continue
        ended = job.get("status") == "completed"
        conclusion = _conclusion(job) if ended else ""
        why = _LOST.get(conclusion, "")
        yield Go(
            id=str(job["id"]),
            machine=machine,
            ended=ended,
            lost=bool(why),
            cancelled=conclusion == _CANCELLED,
            why=f"{machine}: {why}" if why else "",
        )


def _conclusion(job: Mapping[str, Any]) -> str:
    """As GitHub says, but for a job that took all of its time: that one is `cancelled` too."""
    conclusion = str(job.get("conclusion"))
    may = _MINUTES.search(str(job.get("name")))
    if conclusion != _CANCELLED or may is None:
        return conclusion
    try:
        began, ended = (
            dt.datetime.fromisoformat(str(job[key])) for key in ("started_at", "completed_at")
        )
    except (KeyError, ValueError):
        return conclusion
    return _TIMED_OUT if ended - began >= dt.timedelta(minutes=int(may[1])) else conclusion


def _take(zipped: Path, name: str, archive: Path) -> bool:
    """Takes the one file out of an artifact; False: it is not in there, or it is damaged."""
    most = Bounds().total_bytes
    try:
        with zipfile.ZipFile(zipped) as whole:
            info = whole.getinfo(name)
            if info.file_size > min(most, MOST_RESULT_BYTES):
                return False
            with whole.open(info) as source, archive.open("wb") as target:
                while block := source.read(1 << 20):
                    target.write(block)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError):
        archive.unlink(missing_ok=True)
        return False
    return True
