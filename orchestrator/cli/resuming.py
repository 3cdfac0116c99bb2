"""Which run to go on with."""

from __future__ import annotations

import click
from click.core import ParameterSource

from orchestrator.cli.app import App
from orchestrator.cli.selecting import Asked
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.results.store import RUN_NAME, Run

_FREE = {"selection", "resume", "as_json", "with_timings", "fail_fast"}
"""What may be said anew; the rest is as the run was planned."""


def split_resume(
    resume: str | None, selection: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """`--resume` takes the next word: one that names no run was meant as the selection."""
    if resume is None or resume == "last" or RUN_NAME.fullmatch(resume):
        return resume, selection
    return "last", (resume, *selection)


def find_unfinished(ctx: click.Context, app: App, name: str, asked: Asked) -> Run:
    """The run to go on with: the named one, or the last unfinished one of the same selection.

    Raises:
        UsageError: there is none, it is finished, or options contradict how it was planned.
    """
    for parameter in ctx.command.params:
        given = parameter.name is not None and (
            ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        )
        if given and parameter.name not in _FREE and not _is_selection(parameter.name):
            raise UsageError(
                f"{parameter.opts[0]} cannot be used with --resume: a run goes on as it was planned"
            )
    words = asked.words()
    if name != "last":
        return _check(app.runs.find(name), words)
    for run in app.runs.all():
        try:
            same = not words or run.plan().selection == words
            if same and _open(run):
                return run
        except InfrastructureError:
            continue  # stopped before it had a plan: nothing to go on with
    what = f" of `{' '.join(words)}`" if words else ""
    raise UsageError(f"there is no unfinished run{what}. Leave out --resume to start one")


def _is_selection(name: str | None) -> bool:
    return name in ("pipelines", "workloads", "constants", "variants", "pools", "tiers", "cells")


def _check(run: Run, words: tuple[str, ...]) -> Run:
    plan = run.plan()
    if words and plan.selection != words:
        raise UsageError(
            f"run {run.name} was of `{' '.join(plan.selection)}`, not of `{' '.join(words)}`"
        )
    if not _open(run):
        raise UsageError(f"run {run.name} is finished: every cell has a verdict")
    return run


def _open(run: Run) -> bool:
    """Whether a cell waits for its verdict, or all have one and the run was killed before its end.

    Raises:
        InfrastructureError: the run has no plan.
    """
    info = run.info_so_far()
    return bool(run.unfinished()) or (info is not None and info.ended is None)
