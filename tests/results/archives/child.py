"""A process that works on a store: `python -m tests.results.archives.child ACTION STORE RUNS STEP`.

It says `ready`, waits for a line, acts, and says what came of it. Before its STEP-th call that
changes files of the store it ends, as if killed; 0: never.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow.parquet  # noqa: F401  imported before steps are counted

from orchestrator.results.archives.compact import compact
from orchestrator.results.archives.objects import open_objects
from orchestrator.results.archives.store import Store
from orchestrator.results.store import Run
from tests.results.archives.samples import TODAY, add, quiet

KILLED = 99
_CHANGES = ("tempfile.mkstemp", "os.chmod", "os.link", "os.rename", "os.remove")


def main() -> None:
    """See the module."""
    action, address, runs, step = sys.argv[1:]
    store = Store(open_objects(address), Path(address).parent / f"cache-{os.getpid()}")
    folders = [Run(path) for path in sorted(Path(runs).iterdir())]
    _say("ready")
    sys.stdin.readline()
    _end_at(int(step), address)
    if action == "add":
        _say(" ".join(add(store, run, artifacts=True).outcome for run in folders))
    else:
        _say(str(compact(store, TODAY, quiet).problems))


def _end_at(step: int, address: str) -> None:
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in _CHANGES and any(str(each).startswith(address) for each in arguments):
            count += 1
            if count == step:
                os._exit(KILLED)

    sys.addaudithook(hook)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
