"""Placed jobs as the steps of a Buildkite pipeline, for `buildkite-agent pipeline upload`. Pure.

The words are those of https://buildkite.com/docs/pipelines/configure/step-types/command-step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from orchestrator.backends.placing import Placed
from orchestrator.errors import ExitCode

SCRIPT = ".buildkite/job.sh"
"""Fetches a job, runs the one argv, and uploads what it left."""
JOB_VARIABLE = "LIGHTHOUSE_JOB"
RETRIES = 2
RETRY: tuple[dict[str, Any], ...] = (
    # the agent was lost: https://buildkite.com/docs/pipelines/configure/retry
    {"exit_status": -1, "limit": RETRIES},
    {"signal_reason": "agent_stop", "limit": RETRIES},
    {"signal_reason": "agent_refused", "limit": RETRIES},
    {"signal_reason": "process_run_error", "limit": RETRIES},
    {"exit_status": int(ExitCode.INFRASTRUCTURE), "limit": RETRIES},
)
"""Only what says that no verdict was reached; a failure is never tried again."""


def pipeline(placed: Sequence[Placed]) -> dict[str, Any]:
    """The document to upload: a step for each job, and one that collects when all are over."""
    return {"steps": [*(step(each) for each in placed), *_collect(placed)]}


def step(placed: Placed) -> dict[str, Any]:
    """The step of one job."""
    job = placed.job
    made: dict[str, Any] = {
        "label": f"{job.stack} on {job.pool} ({len(job.cells)})",
        "key": key(job.id),
        # without arguments: agents with `no-command-eval` run scripts, and nothing else
        "command": SCRIPT,
        "env": {JOB_VARIABLE: job.id},
        "agents": agents(placed),
        "timeout_in_minutes": math.ceil(placed.timeout_s / 60),
        "priority": placed.priority,
        "retry": {"automatic": list(RETRY), "manual": {"permit_on_passed": True}},
    }
    if placed.device:
        # one GPU runs one job: no more at once than there are machines
        made["concurrency"] = placed.machines
        made["concurrency_group"] = f"lighthouse/gpu/{placed.agent or job.pool}"
        made["concurrency_method"] = "eager"
    if placed.probation:
        made["soft_fail"] = True
    return made


def agents(placed: Placed) -> dict[str, str]:
    """Tags that an agent must have. See `docs/buildkite.md`."""
    tags = {"queue": "lighthouse", "pool": placed.job.pool, "docker": "true"}
    if placed.agent:
        tags["agent"] = placed.agent
    return tags


def key(job: str) -> str:
    """A step's key: letters, digits, `_`, `-`, `:`."""
    return "job-" + job.replace(".", ":")


def _collect(placed: Sequence[Placed]) -> list[dict[str, Any]]:
    return [
        {
            "label": "collect",
            "key": "collect",
            "command": ".buildkite/collect.sh",
            "agents": {"queue": "lighthouse", "orchestrator": "true"},
            "depends_on": [{"step": key(p.job.id), "allow_failure": True} for p in placed],
            "allow_dependency_failure": True,
            "timeout_in_minutes": 30,
        }
    ]
