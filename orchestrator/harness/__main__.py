"""`python -m orchestrator.harness FOLDER`: runs the job in FOLDER, events on standard output."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import records
from orchestrator.harness.streams import take_stdout
from orchestrator.host import detect
from orchestrator.job import Broken, Event, Hello, Job

if TYPE_CHECKING:
    from orchestrator.harness.supervisor import Frontends
    from orchestrator.harness.toolchains.base import Toolchain


def main(argv: list[str]) -> int:
    """Exit code 0: every cell has its outcome. 3: the stack cannot run any cell."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # what a frontend leaves in the temporary folder goes with the job, however the job ends
    with tempfile.TemporaryDirectory(prefix="lh-job-", ignore_cleanup_errors=True) as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        return _run(Path(argv[1]).resolve())


def _run(folder: Path) -> int:
    job = records.decode(Job, json.loads((folder / "job.json").read_text()))
    stream = take_stdout()

    def emit(event: Event) -> None:
        os.write(stream, records.dumps(event).encode() + b"\n")

    # numeric libraries must not start threads that the forks below would lose
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ["LH_GPU_VENDOR"] = job.device or "software"  # which OpenCL devices count
    began = time.monotonic()
    try:
        frontends, toolchain, versions = _warm_up(job)
    except Exception as error:  # noqa: BLE001  a broken image fails in any way it likes
        emit(Broken(message=f"{type(error).__name__}: {error}"))
        return 3
    emit(_hello(toolchain.name, versions, time.monotonic() - began))
    from orchestrator.harness import supervisor

    supervisor.run(job, folder, frontends, toolchain, emit)
    return 0


def _warm_up(job: Job) -> tuple[Frontends, Toolchain, dict[str, str]]:
    from orchestrator.harness.ingress import base
    from orchestrator.harness.toolchains.choose import choose

    frontends = {name: base.find(name) for name in sorted({c.ingress for c in job.cells})}
    optimizers = [path for each in frontends.values() if (path := each.frontend_opt())]
    recipes = any(base.own_compiler(frontend) is None for frontend in frontends.values())
    toolchain = choose(job.toolchain, optimizers[0] if optimizers else None, recipes=recipes)
    versions = dict(toolchain.versions())
    for frontend in frontends.values():
        versions.update(frontend.versions())
        frontend.warm_up()
    return frontends, toolchain, versions


def _hello(toolchain: str, versions: dict[str, str], seconds: float) -> Hello:
    host = detect()
    return Hello(
        python=platform.python_version(),
        versions=versions,
        toolchain=toolchain,
        hardware={
            "cpu_model": host.cpu_model,
            "cpu_flags": host.cpu_flags,
            "cpus": host.cpus,
            "memory_bytes": host.memory_bytes,
            "kernel": host.kernel,
        },
        seconds=round(seconds, 3),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv))
