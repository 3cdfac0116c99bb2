"""The master's configuration, made from `fleet.json`. Imported by `master.cfg`, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from buildbot.plugins import schedulers, secrets, steps, util
from buildbot.plugins import worker as workers
from buildbot.process.results import EXCEPTION, FAILURE, RETRY, SUCCESS
from twisted.internet import defer

from orchestrator.backends.buildbot.depot import JOBS, RESULTS, Depot
from orchestrator.backends.buildbot.fleet import (
    AGENTS_FIELD,
    AVOID_FIELD,
    DEPOT_FIELD,
    DISPATCHER,
    PARCEL_FIELD,
    SCHEDULER,
    SECRETS,
    SUFFIX,
    Fleet,
    FleetPool,
    passwords,
    read_fleet,
)
from orchestrator.backends.contract import ARGV, PACK, PACKED
from orchestrator.errors import ExitCode
from orchestrator.fleet.assign import preference

MAX_RESULT_BYTES = 1 << 30
_QUIET_S = 3600
"""Building an image may take long and say little."""
_END_S = 60
"""After SIGTERM, for containers to be removed."""
_UNPACK = (
    "rm -rf job out.tar.gz && mkdir job && tar -xzf job.tar.gz -C job && "
    # what an interrupted attempt at the same job left is gone on with, anything else is not; where
    # the machine is an agent, `lh-ci exec` also sees to it that it was for the same warrant
    "{ cmp -s job/order.json out/order.json || rm -rf out; }"
)
_EXITS = {
    int(ExitCode.OK): SUCCESS,
    int(ExitCode.CELL_FAILED): FAILURE,
    int(ExitCode.DEFINITIONS): FAILURE,
    int(ExitCode.INFRASTRUCTURE): EXCEPTION,
    int(ExitCode.USAGE): EXCEPTION,
    int(ExitCode.INTERNAL): EXCEPTION,
    int(ExitCode.INTERRUPTED): RETRY,
}
"""An exception makes Buildbot rest the worker for a while; a retry gives the job to another."""


def configuration(folder: str) -> dict[str, Any]:
    """`BuildmasterConfig` for the master in `folder`.

    Raises:
        InfrastructureError: `fleet.json` is missing or damaged.
        UsageError: a password is missing, or others can read it.
    """
    base = Path(folder)
    fleet = read_fleet(base)
    known = passwords(base, [DISPATCHER, *(worker.name for worker in fleet.workers)])
    served = {name: pool for name, pool in fleet.pools.items() if fleet.serving(name)}
    return {
        "title": "Lighthouse CI",
        "buildbotURL": fleet.url,
        "buildbotNetUsageData": None,
        "db": {"db_url": "sqlite:///state.sqlite"},
        "protocols": {"pb": {"port": fleet.port}},
        "collapseRequests": False,  # two jobs of a pool are two jobs
        "secretsProviders": [
            secrets.SecretInAFile(dirname=str(base / SECRETS), suffixes=[SUFFIX]),
        ],
        "workers": [
            workers.Worker(
                worker.name,
                util.Secret(worker.name),
                max_builds=worker.jobs,
                keepalive_interval=60,
            )
            for worker in fleet.workers
        ],
        "builders": [_builder(name, pool, fleet) for name, pool in served.items()],
        "schedulers": [_scheduler(sorted(served), fleet)] if served else [],
        "services": [Depot(folder=folder, port=fleet.depot)],
        "www": {
            "port": fleet.http,
            "plugins": {},
            "auth": util.UserPasswordAuth({DISPATCHER: known[DISPATCHER]}),
            "authz": util.Authz(
                allowRules=[util.AnyControlEndpointMatcher(role=DISPATCHER)],
                roleMatchers=[util.RolesFromUsername(roles=[DISPATCHER], usernames=[DISPATCHER])],
            ),
        },
    }


def _scheduler(pools: list[str], fleet: Fleet) -> Any:
    return schedulers.ForceScheduler(
        name=SCHEDULER,
        builderNames=pools,
        # a buildset's reason is how a dispatcher finds what it submitted before it was killed
        reasonString="%(reason)s",
        reason=util.StringParameter(name="reason", required=True, maxsize=200),
        codebases=[util.CodebaseParameter(codebase="", hide=True)],
        properties=[
            util.StringParameter(name="job", required=True, regex=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"),
            util.StringParameter(
                name=PARCEL_FIELD, required=True, regex=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"
            ),
            util.StringParameter(name=AVOID_FIELD, default=""),
            util.StringParameter(name=AGENTS_FIELD, default=""),
            # dispatchers know where REST is, and learn from it where the depot is
            util.FixedParameter(name=DEPOT_FIELD, default=fleet.depot_url, hide=True),
        ],
    )


def _builder(name: str, pool: FleetPool, fleet: Fleet) -> Any:
    priorities = {worker.name: worker.priority for worker in fleet.workers}
    return util.BuilderConfig(
        name=name,
        workernames=[worker.name for worker in fleet.serving(name)],
        factory=_factory(),
        collapseRequests=False,
        nextBuild=_next_build,
        nextWorker=_next_worker(priorities),
        # one job has a machine's GPU alone, whichever of its pools it is of
        locks=[_GPU.access("exclusive")] if pool.device else [],
        tags=[pool.tier],
    )


_GPU = util.WorkerLock("gpu", maxCount=1)


def _factory() -> Any:
    """Hands the job over, runs it, and takes everything back that it left."""
    common: dict[str, Any] = {"workdir": "build", "logEnviron": False}
    return util.BuildFactory(
        [
            steps.FileDownload(
                name="job",
                mastersrc=util.Interpolate(f"{JOBS}/%(prop:{PARCEL_FIELD})s.tar.gz"),
                workerdest="job.tar.gz",
                workdir="build",
                blocksize=256 << 10,
                haltOnFailure=True,
            ),
            steps.ShellCommand(
                name="unpack", command=["sh", "-c", _UNPACK], haltOnFailure=True, **common
            ),
            steps.ShellCommand(
                name="exec",
                command=list(ARGV),
                decodeRC=_EXITS,
                haltOnFailure=False,
                timeout=_QUIET_S,
                interruptSignal="TERM",
                sigtermTime=_END_S,
                **common,
            ),
            steps.ShellCommand(name="pack", command=list(PACK), alwaysRun=True, **common),
            steps.FileUpload(
                name="results",
                workersrc=PACKED,
                masterdest=util.Interpolate(f"{RESULTS}/%(prop:job)s/%(prop:buildnumber)s.tar.gz"),
                workdir="build",
                maxsize=MAX_RESULT_BYTES,
                mode=0o600,
                alwaysRun=True,
            ),
        ]
    )


def _next_worker(priorities: dict[str, int]) -> Any:
    """Chooses who takes a job: of those who may, who has not failed it yet, then by priority."""

    @defer.inlineCallbacks
    def choose(builder: Any, everybody: list[Any], request: Any) -> Any:
        free = [each for each in everybody if _may(request, each.worker.workername)]
        if not free:
            return None
        builds = yield builder.master.data.get(("buildrequests", str(request.id), "builds"))
        tried = {build["workerid"] for build in builds}
        avoid = _names(request, AVOID_FIELD)

        def rank(candidate: Any) -> tuple[Any, ...]:
            name, number = candidate.worker.workername, candidate.worker.workerid
            missed = number in tried or name in avoid
            return preference(name, tried=missed, priority=priorities[name])

        return min(free, key=rank)

    return choose


def _next_build(builder: Any, requests: list[Any]) -> Any:
    """Chooses the job to hand out next: one that waits for a busy worker holds up no other."""
    free = [each.worker.workername for each in builder.getAvailableWorkers()]
    able = [each for each in requests if any(_may(each, name) for name in free)]
    return min(able, key=lambda each: (-each.priority, each.id), default=None)


def _may(request: Any, worker: str) -> bool:
    allowed = _names(request, AGENTS_FIELD)
    return not allowed or worker in allowed


def _names(request: Any, field: str) -> list[str]:
    """Of workers, in a property of a request."""
    return list(filter(None, str(request.properties.getProperty(field) or "").split(",")))
