"""Commands that are shown to people, each exact: pasted in the repository, it does what it says."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from orchestrator.plan import PlannedCell
from orchestrator.results.schema import RunPlan


def rerun(planned: PlannedCell, plan: RunPlan) -> str:
    """The command that reruns exactly this cell, as it was run."""
    options = plan.options
    words = ["nox", "-s", planned.cell.pipeline, "--", "--cell", planned.cell.id]
    for source in plan.adhoc:
        if source.workload == planned.cell.workload.name:
            words += ["--workload", source.argument, "--variant", planned.cell.variant]
            for name, value in source.constants.items():
                words += ["--set", f"{name}={value}"]
    if options.engine != "auto":
        words += ["--engine", options.engine]
    if options.toolchain != "auto":
        words += ["--toolchain", options.toolchain]
    if options.timeout_s is not None:
        words += ["--timeout", f"{options.timeout_s:g}s"]
    return shlex.join(words)


def look(cell: str, run: str = "last") -> str:
    """The command that shows a cell's whole story."""
    return f"{myself(os.environ)} show {run} {cell}"


def resume(run: str) -> str:
    """The command that continues a run."""
    return f"{myself(os.environ)} run --resume {run}"


def myself(environ: Mapping[str, str]) -> str:
    """How people can call this program: `lh-ci`, if their shell finds it.

    In a nox session the program is on the session's path alone, so people need nox to reach it.
    """
    if "NOX_CURRENT_SESSION" not in environ:
        return "lh-ci"
    own = str(Path(sys.executable).parent)
    path = [p for p in environ.get("PATH", "").split(os.pathsep) if p != own]
    return "lh-ci" if shutil.which("lh-ci", path=os.pathsep.join(path)) else "nox -s lh-ci --"
