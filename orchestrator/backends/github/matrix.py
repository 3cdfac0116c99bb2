"""Placed jobs as matrices of GitHub Actions. Pure.

A matrix makes at most 256 jobs
(https://docs.github.com/en/actions/reference/limits), so there are as many as it takes: a workflow
has one matrix over these chunks, and calls another one, with a matrix over jobs, for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from orchestrator.backends.placing import Placed
from orchestrator.errors import UsageError

MOST_JOBS = 256
"""Of one matrix."""
MOST_BYTES = 1 << 20
"""Of the outputs of one job (https://docs.github.com/en/actions/reference/limits)."""
MOST_MINUTES = 360
"""Of one job on a hosted runner."""
HOSTED = ("ubuntu-24.04",)
"""The labels of hosted runners."""


def chunks(placed: Sequence[Placed], most: int = MOST_JOBS) -> dict[str, Any]:
    """`{"chunk": [{"name", "include": [entry, …]}, …]}`: what `fromJSON` makes a matrix of.

    Raises:
        UsageError: there are so many jobs that they would be too many matrices.
    """
    entries = [_entry(each) for each in placed]
    parts = [entries[start : start + most] for start in range(0, len(entries), most)]
    if len(parts) > MOST_JOBS:
        raise UsageError(
            f"{len(entries):,} jobs are more than {MOST_JOBS} matrices of {most}: plan more cells "
            "for each job (--cells-per-job)"
        )
    return {
        "chunk": [
            {"name": f"{number}/{len(parts)}", "include": part}
            for number, part in enumerate(parts, 1)
        ]
    }


def _entry(placed: Placed) -> dict[str, Any]:
    job = placed.job
    return {
        "job": job.id,
        "name": f"{job.stack} on {job.pool} ({len(job.cells)})",
        "runner": list(labels(placed)),
        "minutes": min(MOST_MINUTES, math.ceil(placed.timeout_s / 60)),
        "probation": placed.probation,
    }


def labels(placed: Placed) -> tuple[str, ...]:
    """Labels that a runner must have. See `docs/github.md`."""
    if placed.hosted:
        return HOSTED
    named = (f"agent-{placed.agent}",) if placed.agent else ()
    return ("self-hosted", "lighthouse", f"pool-{placed.job.pool}", *named)
