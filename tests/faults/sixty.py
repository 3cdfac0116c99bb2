"""A repository of sixty cells, whose fate depends on the record alone, and `lh-ci` over it.

Everything that a process needs to be killed in: real code and a real record, and an engine that
takes no time. What becomes of an attempt follows from its cell and its number, so that another
process can go on with the run.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from orchestrator.backends import jobdir
from orchestrator.backends.clock import Clock
from orchestrator.cli import cli, remote
from orchestrator.cli.app import Services
from orchestrator.cli.elsewhere import Elsewhere
from orchestrator.harness import formula
from orchestrator.job import Cell, Job, Outcome
from orchestrator.results.store import Run, Runs
from tests.backends.farm import HOST
from tests.config.tree import Tree, make_tree, npz
from tests.fakes import HELLO, PASS, FakeEngine, Script, Step, cell_steps, fail

CELLS = 60
MISS = Outcome(status="miss", phase="execute", message="no space left on the device")
BROKEN = Outcome(status="error", phase="ingress", message="w07.py:3: ValueError: no")
_PROGRAM = '''"""Number {0}: doubles a vector."""

import numpy as np

class Model: ...

def get_inputs():
    return [np.linspace(-1, 1, 4, dtype=np.float32)]

def model(x):
    return 2 * x
'''

_RECIPE = """\
about: Lowers to LLVM, for tests.
tier: core
steps:
  - pass: convert-to-llvm
"""
_PIPELINE = """\
about: From torch to LLVM, for tests.
tier: core
ingress: {frontend: torch_mlir}
steps:
  - recipe: to-llvm
"""


def repository(root: Path, cells: int = CELLS) -> Tree:
    """Workloads `w00`, … of one pipeline, f32 alone. They can be run for real, in NumPy."""
    root.mkdir(parents=True)
    tree = make_tree(root)
    for name in ("odd", "mlp", "sum"):
        (root / f"recipes/workloads/{name}.py").unlink()
        shutil.rmtree(root / "golden" / name, ignore_errors=True)
    tree.edit("matrix.yaml", "        without: [odd]\n      - workloads: [mlp]\n", "")
    tree.edit("matrix.yaml", "        variants: [f16]\n", "")
    tree.edit("matrix.yaml", "workloads:\n  mlp: {memory: 512MiB}\n", "")
    if cells == CELLS:
        tree.edit("matrix.yaml", "torch_cpu.mlp.f16@*", "torch_cpu.w3?.f32@*")
    else:
        matrix = (root / "matrix.yaml").read_text()
        tree.write("matrix.yaml", matrix.partition("expectations:")[0])
    tree.edit("golden/tolerances.yaml", "torch_cpu.*.f16@*", "torch_cpu.w0?.f32@*")
    for name in ("to-llvm", "tile", "clean-up"):
        (root / f"recipes/schedules/{name}.yaml").unlink()
    (root / "recipes/schedules/tile.mlir").unlink()
    tree.write("recipes/schedules/to-llvm.yaml", _RECIPE)
    tree.write("recipes/pipelines/torch_cpu.yaml", _PIPELINE)
    value = np.linspace(-1, 1, 4, dtype=np.float32)
    facts = {"inputs_sha256": formula.digest([value])}
    for number in range(cells):
        tree.write(f"recipes/workloads/w{number:02}.py", _PROGRAM.format(number))
        tree.record(f"w{number:02}", "f32", npz(output_0=2.0 * value.astype("f8")), facts)
    return tree


def outcome(cell: Cell, attempt: int) -> Outcome:
    """Of an attempt: a few cells fail, and a few need luck."""
    number = int(cell.workload.name[1:])
    if number == 7:
        return BROKEN
    if number % 10 == 5:
        return PASS if attempt > 1 + number // 30 else MISS
    if number % 10 == 3:
        return fail("failed to legalize", "lower:to-llvm")
    return PASS


def script(run: Callable[[], Run]) -> Script:
    """What a harness says of each cell, which counts on from what is in the record of `run`."""

    def play(job: Job) -> Iterator[Step]:
        yield HELLO
        before = run().attempts()
        for cell in job.cells:
            attempt = before.get(cell.id, 0) + 1
            ended = outcome(cell, attempt)
            # a file that tells its attempt, of those that do not pass
            files = {f"ir/{attempt}.mlir": cell.id.encode()} if ended.status != "pass" else {}
            yield from cell_steps(cell.id, ended, files)

    return play


def lh_ci(root: Path, state: Path, *words: str, backend: Elsewhere | None = None) -> NoReturn:
    """Carries out a command line in this process, which ends with its exit code.

    `backend`: who stands for a Buildbot master.
    """
    small_harness()
    vars(os)["fsync"] = lambda descriptor: None  # what is written outlives a process without it
    os.chdir(root)
    engine = FakeEngine(script(lambda: Runs(state).find("last")))
    clock = engine.time.clock()
    if backend is not None:
        vars(remote)["connect"] = lambda *asked: backend
        clock = dataclasses.replace(clock, sleep=lambda seconds: time.sleep(seconds / 200))
    with open(os.devnull, "w") as null:  # noqa: PTH123
        sys.stdout = sys.stderr = null
        cli.main(args=list(words), obj=services(engine, clock, state))
    raise AssertionError("a command ends its process")


def services(engine: FakeEngine, clock: Clock, state: Path) -> Services:
    """A machine whose only engine is this one."""
    return Services(
        detect=lambda: HOST,
        choose=lambda name, root, settings: (engine, "an engine of tests"),
        clock=clock,
        environ={"LH_STATE": str(state)},
    )


def small_harness() -> None:
    """Jobs bring one file of it: the engine runs none, and copies take time."""
    vars(jobdir)["HARNESS_PARTS"] = ("job.py",)
    jobdir.harness_sha256.cache_clear()
