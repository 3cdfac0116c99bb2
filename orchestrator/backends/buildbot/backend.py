"""Dispatch by a master: see `backends.base.Backend`. A submission is a build request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator import records
from orchestrator.backends.base import Go, NothingLeftError, Parcel, Sight
from orchestrator.backends.buildbot.fleet import (
    AGENTS_FIELD,
    AVOID_FIELD,
    DEPOT_FIELD,
    PARCEL_FIELD,
    SCHEDULER,
    Fleet,
)
from orchestrator.backends.buildbot.rest import AbsentError, Api, UnclearError
from orchestrator.backends.clock import Clock
from orchestrator.backends.parcel import SUFFIX
from orchestrator.errors import InfrastructureError, UsageError

_RETRY, _CANCELLED = 5, 6
"""`buildbot.process.results`: the connection was lost, another build follows; it was stopped."""
_AT_ONCE = 40
"""Build requests in one question: an address has an end."""
_TRIES = 6
"""To be heard with certainty."""
_PAUSE_S = 2.0


class BuildbotBackend:
    """Machines behind a Buildbot master."""

    name = "buildbot"

    def __init__(self, api: Api, clock: Clock | None = None) -> None:
        """Asks nothing yet."""
        self._api = api
        self._clock = clock or Clock()
        self._workers: dict[int, str] = {}
        self.where = api.url

    def fleet(self) -> Fleet:
        """What the master serves.

        Raises:
            InfrastructureError: nobody answers, or what does is no master of ours.
            UsageError: the password is refused.
        """
        document = self._api.fetch_json(f"{self._depot}fleet")
        try:
            return records.decode(Fleet, document)
        except records.RecordError as error:
            raise InfrastructureError(f"{self._depot} tells of no fleet: {error}") from error

    def online(self) -> frozenset[str]:
        """See `Backend.online`."""
        workers = self._items("workers", {})
        return frozenset(str(each["name"]) for each in workers if each.get("connected_to"))

    def submit(self, parcel: Parcel) -> str:
        """See `Backend.submit`."""
        name = parcel.key.replace("~", "+")  # as files are named
        self._api.put(f"{self._depot}jobs/{name}{SUFFIX}", parcel.archive, parcel.sha256)
        given = {
            "builderNames": [parcel.pool],
            "job": parcel.job,
            PARCEL_FIELD: name,
            "reason": parcel.key,
            "priority": parcel.priority,
            AVOID_FIELD: ",".join(parcel.avoid),
            AGENTS_FIELD: ",".join(parcel.agents or ()),
        }
        error: Exception | None = None
        for _ in range(_TRIES):
            if (ticket := self._find(parcel.key)) is not None:
                return ticket
            try:
                self._api.force(SCHEDULER, given)
            except UnclearError as unclear:
                error = unclear
                self._clock.sleep(_PAUSE_S)
            except AbsentError:
                raise UsageError(f"{self.where} has no scheduler `{SCHEDULER}`") from None
        if (ticket := self._find(parcel.key)) is not None:
            return ticket
        raise InfrastructureError(f"{self.where} did not take job {parcel.job}: {error}")

    def watch(self, tickets: Sequence[str]) -> Mapping[str, Sight]:
        """See `Backend.watch`."""
        sights = {ticket: Sight(goes=(), ended=True) for ticket in tickets}
        for start in range(0, len(tickets), _AT_ONCE):
            some = tickets[start : start + _AT_ONCE]
            # requests first: a build that ends in between is seen to have ended by the next look
            requests = list(self._items("buildrequests", {"buildrequestid__in": some}))
            builds = list(self._items("builds", {"buildrequestid__in": some}))
            for request in requests:
                own = [b for b in builds if b["buildrequestid"] == request["buildrequestid"]]
                goes = tuple(self._go(build) for build in sorted(own, key=lambda b: b["buildid"]))
                ticket = str(request["buildrequestid"])
                sights[ticket] = Sight(
                    goes=goes,
                    ended=bool(request["complete"]),
                    cancelled=request["results"] == _CANCELLED,
                )
        return sights

    def collect(self, ticket: str, job: str, go: str, archive: Path) -> None:  # noqa: ARG002
        """See `Backend.collect`."""
        try:
            self._api.fetch(f"{self._depot}results/{job}/{go}{SUFFIX}", archive)
        except AbsentError:
            raise NothingLeftError("it brought back no results") from None

    def cancel(self, ticket: str, why: str) -> None:
        """See `Backend.cancel`."""
        # a build of it that runs is stopped with it
        self._api.control(f"buildrequests/{ticket}", "cancel", {"reason": why})

    def forget(self, job: str) -> None:
        """See `Backend.forget`."""
        self._api.delete(f"{self._depot}jobs/{job}{SUFFIX}")

    @cached_property
    def _depot(self) -> str:
        try:
            (scheduler,) = self._api.get(f"forceschedulers/{SCHEDULER}")["forceschedulers"]
            fields = {field["name"]: field for field in scheduler["all_fields"]}
            return str(fields[DEPOT_FIELD]["default"])
        except (AbsentError, KeyError, ValueError):
            raise UsageError(
                f"{self.where} is no master that `lh-ci buildbot master` set up, or has no worker"
            ) from None

    def _find(self, key: str) -> str | None:
        """The ticket of what was submitted under a key; what was so twice is cancelled but once."""
        found: list[int] = []
        for buildset in self._items("buildsets", {"reason": [key]}):
            requests = self._items("buildrequests", {"buildsetid": [str(buildset["bsid"])]})
            found += [int(request["buildrequestid"]) for request in requests]
        for double in sorted(found)[1:]:
            self.cancel(str(double), "submitted twice")
        return str(min(found)) if found else None

    def _go(self, build: Mapping[str, Any]) -> Go:
        cancelled = build["results"] == _CANCELLED
        lost = cancelled or build["results"] == _RETRY
        machine = self._worker(int(build["workerid"]))
        what = ": it was cancelled" if cancelled else " or its master went away"
        return Go(
            id=str(build["number"]),
            machine=machine,
            ended=bool(build["complete"]),
            lost=lost,
            cancelled=cancelled,
            why=f"{machine}{what} ({build['state_string']})" if lost else "",
        )

    def _worker(self, number: int) -> str:
        if number not in self._workers:
            for worker in self._items("workers", {}):
                self._workers[int(worker["workerid"])] = str(worker["name"])
        return self._workers.setdefault(number, f"worker {number}")

    def _items(self, kind: str, filters: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
        try:
            document = self._api.get(kind, filters)
            items = document[kind]
        except (AbsentError, KeyError):
            raise InfrastructureError(f"{self.where} does not tell of its {kind}") from None
        yield from items
