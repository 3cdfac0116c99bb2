"""Placed jobs, shown: for people, for programs, and in the words of services."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from orchestrator.backends.placing import Placed
from orchestrator.text import plain, plural, seconds, table

FORMATS = ("text", "json", "buildkite", "github")
FORGES = ("buildkite", "github")
"""Services that take a plan."""


def shown(placed: tuple[Placed, ...], left_out: Mapping[str, int], form: str) -> str:
    """The jobs in a form, and how many cells have none, by the reason."""
    match form:
        case "buildkite":
            from orchestrator.backends.buildkite.steps import pipeline

            return json.dumps(pipeline(placed), indent=1)
        case "github":
            from orchestrator.backends.github.matrix import chunks

            # one line: it becomes the output of a step
            return json.dumps(chunks(placed), separators=(",", ":"))
        case "json":
            return json.dumps(_whole_document(placed, left_out), indent=2)
        case _:
            return plain("\n".join(_lines(placed, left_out)))


def _whole_document(placed: tuple[Placed, ...], left_out: Mapping[str, int]) -> dict[str, object]:
    return {
        "schema": 1,
        "jobs": [_document(each) for each in placed],
        "skipped": [{"reason": r, "cells": n} for r, n in left_out.items()],
    }


def _document(placed: Placed) -> dict[str, object]:
    job = placed.job
    return {
        "job": job.id,
        "stack": job.stack,
        "pool": job.pool,
        "device": job.device,
        "tier": placed.tier,
        "priority": placed.priority,
        "timeout_s": placed.timeout_s,
        "agent": placed.agent,
        "probation": placed.probation,
        "hosted": placed.hosted,
        "cells": [cell.id for cell in job.cells],
    }


def _lines(placed: tuple[Placed, ...], left_out: Mapping[str, int]) -> Iterator[str]:
    cells = sum(len(each.job.cells) for each in placed)
    yield f"{plural(len(placed), 'job')}, {plural(cells, 'cell')}"
    rows = [
        (
            f"job   {each.job.id}",
            f"{each.job.stack} on {each.job.pool}",
            plural(len(each.job.cells), "cell"),
            f"at most {seconds(each.timeout_s)}",
            " ".join(filter(None, [each.agent, "probation" if each.probation else ""])),
        )
        for each in placed
    ]
    yield from table(rows)
    for reason, count in left_out.items():
        yield f"skip  {plural(count, 'cell')}: {reason}"
