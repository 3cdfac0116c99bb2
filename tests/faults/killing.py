"""Processes that are killed, and what they leave.

`multiprocessing`'s fork server has everything imported, so that a process costs a fork.
"""

from __future__ import annotations

import json
import multiprocessing
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.results.store import Run
from orchestrator.results.verdict import exit_code
from tests.faults import masterless, sixty

_OWN = ("started", "seconds", "queued_seconds")
"""Fields of a result that two runs of the same thing need not share; names of a run and of its jobs
are not compared either: one that was killed before it had a plan leaves its name taken."""
_PATIENCE_S = 120.0
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.faults.killing"])

Record = dict[str, Any]


def command(root: Path, state: Path, where: str, words: tuple[str, ...], begun: Any) -> None:
    """A process: one `lh-ci`."""
    begun.send(None)
    backend = masterless.Client(where, state.name) if where else None
    sixty.lh_ci(root, state, *words, backend=backend)


@dataclass
class Trials:
    """Runs of one repository, each with a state folder of its own."""

    root: Path
    states: Path
    where: str = ""
    """Address of machines elsewhere; empty: cells run here."""
    count: int = 0

    def new(self) -> Path:
        """A state folder without a run."""
        self.count += 1
        return self.states / f"t{self.count}"

    def start(self, state: Path) -> Any:
        """A process that begins a run, or goes on with it."""
        words = ["run", "torch_cpu", "--retries", "2"]
        if self.where:
            words += ["--backend", "buildbot", "--master", self.where, "--unsigned"]
        if any(path.exists() for path in state.glob("runs/*/plan.json")):
            words = ["run", "--resume"]
        theirs, ours = context.Pipe()
        process = context.Process(
            target=command, args=(self.root, state, self.where, tuple(words), theirs)
        )
        process.start()
        theirs.close()
        ours.recv()
        ours.close()
        return process

    def killed(self, state: Path, after_s: float) -> bool:
        """Kills a process so long after its begin; False when it had ended before."""
        process = self.start(state)
        process.join(after_s)
        process.kill()
        process.join(_PATIENCE_S)
        return bool(process.exitcode == -9)

    def finish(self, state: Path) -> int:
        """Goes on to the end, unless it has been reached; the last exit code.

        Who is killed with everything written leaves nothing to go on with.
        """
        if any((folder / "plan.json").exists() for folder in state.glob("runs/*")):
            run = the_run(state)
            if (run.folder / "run.json").exists() and run.info().ended is not None:
                return int(exit_code(run.latest().values()))
        process = self.start(state)
        process.join(_PATIENCE_S)
        assert not process.is_alive(), "it does not end"
        return int(process.exitcode)


def record(state: Path) -> Record:
    """All that a run comes to, less times."""
    run = the_run(state)
    folder = run.folder
    results, problems = run.results()
    assert problems == ()
    texts = [path.read_text() for path in sorted((folder / "results").glob("*.json"))]
    documents = [
        json.loads(re.sub(rf"{run.name}(\.pytorch\.intel-cpu[-.\d]*)?", "RUN", t)) for t in texts
    ]
    for document in documents:
        for name in _OWN:
            document.pop(name, None)
    assert len(documents) == len(results)
    artifacts = folder / "artifacts"
    files = sorted(p for p in artifacts.rglob("*") if p.is_file())
    return {
        **{f"{d['cell']} {d['attempt']} {name}": d[name] for d in documents for name in d},
        **{p.relative_to(artifacts).as_posix(): p.read_bytes() for p in files},
        **{name: (folder / name).read_bytes() for name in ("declared.json", "plan.json")},
    }


def differences(one: Record, other: Record) -> list[str]:
    """What is not the same in two records."""
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return [f"{name}: {one.get(name)!r:.200} and not {other.get(name)!r:.200}" for name in names]


def the_run(state: Path) -> Run:
    """The one that was begun. One that was killed before it had a plan never was."""
    folders = list((state / "runs").iterdir())
    (begun,) = [folder for folder in folders if (folder / "plan.json").exists()]
    assert not [path for folder in folders if folder != begun for path in folder.glob("*/*")]
    return Run(begun)


def leftovers(state: Path) -> list[str]:
    """What is there for a moment alone, and is still there.

    A run that was killed before it had a plan is a folder that nobody goes on with: `lh-ci clean`
    removes it with what is in it.
    """
    folder = the_run(state).folder
    never = [path for path in state.glob("runs/*") if not (path / "plan.json").exists()]
    found = [
        path
        for path in state.rglob(".*")
        if path.name != ".gitignore" and not any(map(path.is_relative_to, never))
    ]
    found += [path for path in (folder / "parcels",) if path.exists()]
    return sorted(str(path.relative_to(state)) for path in found)
