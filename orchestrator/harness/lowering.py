"""A recipe applied to a module, held to its contract."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orchestrator.harness.blame import CompilerFault, MachineFault, killed_from_outside
from orchestrator.harness.toolchains.base import Toolchain, operations
from orchestrator.harness.tools import tool
from orchestrator.job import Contract, RecipeRun, Step


def lower(toolchain: Toolchain, recipe: RecipeRun, before: str) -> str:
    """A module after a recipe that kept its contract."""
    after = before
    for step in merged(recipe.steps):
        after = toolchain.apply(step, after)
    if recipe.contract.must_change and after == before:
        raise CompilerFault(f"{recipe.name} changed nothing (it says it must change the IR)")
    if left := _present(recipe.contract.absent, after):
        raise CompilerFault(f"{recipe.name} left {left} behind (its contract: gone)")
    if missing := [name for name in recipe.contract.present if not _present([name], after)]:
        raise CompilerFault(f"{recipe.name} left no {missing[0]} (its contract: there)")
    if recipe.check:
        file_check(recipe, after)
    return after


def file_check(recipe: RecipeRun, ir: str) -> None:
    """Holds the IR that a recipe left against its FileCheck directives.

    Raises:
        CompilerFault: it does not match; tells the directive.
        MachineFault: this stack has no FileCheck.
    """
    with tempfile.TemporaryDirectory() as folder:
        directives = Path(folder, f"{recipe.name}.check")
        directives.write_text(recipe.check)
        argv = [str(tool("FileCheck")), str(directives), "--input-file=-", "--dump-input=never"]
        try:
            done = subprocess.run(argv, input=ir, capture_output=True, text=True, check=False)
        except OSError as error:
            raise MachineFault(f"{argv[0]} could not be run: {error}") from error
    if done.returncode == 0:
        return
    if outside := killed_from_outside(-done.returncode):
        raise MachineFault(f"FileCheck was {outside}")
    print(done.stderr, file=sys.stderr)  # the cell's last words
    said = [line for line in done.stderr.splitlines() if line.strip()]
    place = re.sub(r"^\S*/", "", said[0]) if said else f"exit code {done.returncode}"
    directive = f"; {said[1].strip()}" if len(said) > 1 else ""
    raise CompilerFault(
        f"{recipe.name}: what it left is not what its check expects: {place}{directive}"
    )


def merged(steps: Sequence[Step]) -> list[Step]:
    """The same steps, neighbours that are plain passes of one tool joined into one."""
    result: list[Step] = []
    for step in steps:
        last = result[-1] if result else None
        if last is None or last.tool != step.tool or last.library or step.library:
            result.append(step)
            continue
        joined = ",".join(passes for passes in (last.passes, step.passes) if passes)
        result[-1] = Step(tool=step.tool, passes=joined, source=_span(last.source, step.source))
    return result


def _span(first: str, last: str) -> str:
    """Two places `file:line[-line]` as one: `file:line-line`, or both in two files."""
    (file, _, line), (other, _, end) = first.rpartition(":"), last.rpartition(":")
    if not first or not last or first == last:
        return first or last
    return f"{file}:{line.partition('-')[0]}-{end}" if file == other else f"{first}, {last}"


def check_before(contract: Contract, ir: str) -> None:
    """Refuses a module that the recipe does not take.

    Raises:
        CompilerFault: what it forbids is there, or nothing that it requires.
    """
    if unwelcome := _present(contract.forbids, ir):
        raise CompilerFault(f"found {unwelcome}, which this recipe does not take")
    if contract.requires and not _present(contract.requires, ir):
        wanted = " or ".join(contract.requires)
        raise CompilerFault(f"found no {wanted}, which this recipe works on")


def _present(names: Sequence[str], ir: str) -> str:
    """Which operations of these names or dialects stand in the IR: `tensor.pad (2), …`."""
    found = [
        f"{operation} ({count})"
        for operation, count in sorted(operations(ir).items())
        if operation in names or operation.split(".", 1)[0] in names
    ]
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return ", ".join(found[:4]) + more
