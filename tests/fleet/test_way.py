"""The whole way of a job: ordered, warranted, carried out, packed, taken, recorded."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import pytest

from orchestrator.backends import executing, intake, ordering
from orchestrator.fleet import keys
from orchestrator.fleet.claims import Given
from orchestrator.fleet.envelope import Journal, Warrant, accept, new_nonce, sign
from orchestrator.fleet.folder import folder_digest
from orchestrator.fleet.intake import Desk, Taken, take
from orchestrator.fleet.models import OrchestratorFile
from orchestrator.fleet.packing import pack
from orchestrator.job import Outcome
from orchestrator.order import CellTerms
from orchestrator.plan import make_jobs, plan_cells
from orchestrator.results.store import Run, utc
from tests.cli.conftest import INTEL, MLP, MLP_F16, SUM, Lab, lab
from tests.fakes import Play, fail
from tests.fleet.forge import agent

__all__ = ["lab"]  # a fixture

MISS = Outcome(status="miss", phase="execute", message="\x1b[31mno space left\x1b[0m")
XFAIL = fail("failed to legalize 'math.exp'", "lower:to-llvm", last_words="\x1b[1mloc\x1b[0m <b>")


def ordered(lab: Lab, run: Run) -> executing.Ordered:
    """The job of all cells that this machine can run, in a folder of its own."""
    root, config = lab.tree.root, lab.tree.load()
    cells = plan_cells(config, INTEL)
    files = {
        **{f"workloads/{n}.py": str(w.path) for n, w in config.workloads.items()},
        **{f"golden/{w}/{v}.npz": str(g.path) for (w, v), g in config.goldens.items()},
    }
    terms = ordering.Terms(
        run=run.name,
        config=config,
        cells={p.cell.id: CellTerms(tier=p.tier, reproduce="nox") for p in cells},
        files=files,
        engine="auto",
        retries=1,
        workers=1,
        today=dt.date(2026, 11, 20),
    )
    (job,) = make_jobs(cells, workers=1, toolchain="auto", keep="failed", mode="run", run=run.name)
    folder = root / "ordered"
    folder.mkdir()
    ordering.write(folder, job, terms)
    return executing.read(folder)


@pytest.fixture
def now(lab: Lab) -> dt.datetime:
    """When it all happens."""
    return lab.engine.time.start


def test_from_an_order_to_the_record(lab: Lab, tmp_path: Path, now: dt.datetime) -> None:
    run = lab.runs.create(now)
    job = ordered(lab, run)
    ours, theirs = keys.make(tmp_path / "ours", "orchestrator"), keys.make(tmp_path, "intel-lab-1")

    # the orchestrator warrants it
    warrant = Warrant(
        job=job.job.id,
        digest=folder_digest(job.folder),
        repository="https://example.org/lighthouse",
        commit="c" * 40,
        agent="intel-lab-1",
        pool=job.job.pool,
        issued=utc(now),
        expires=utc(now + dt.timedelta(hours=6)),
        nonce=new_nonce(),
    )
    # the agent checks it, carries it out, and packs what came of it
    trusted = OrchestratorFile.model_validate(
        {
            "schema": 1,
            "repositories": ("https://example.org/lighthouse",),
            "keys": ({"key": ours.public, "from": dt.date(2026, 11, 1)},),
        }
    )
    accepted = accept(
        sign(warrant, [ours]),
        job.folder,
        agent="intel-lab-1",
        pools=("intel-cpu",),
        trusted=trusted,
        journal=Journal(tmp_path / "journal"),
        now=now,
    )
    assert accepted == warrant
    outcomes = {MLP: [MISS, fail("wrong")], MLP_F16: [XFAIL]}
    lab.engine.script = Play(outcomes, {"ir/a.mlir": b"module {}"})
    out = tmp_path / "out"
    done = lab("exec", str(job.folder / "job.json"), "--out", str(out))
    assert done.exit_code == 1, done.output
    bundle = tmp_path / "sent.results.tar.gz"
    later = now + dt.timedelta(hours=1)
    assert pack(out, bundle, warrant=warrant, signers=[theirs], now=later).left_out == 0

    # the orchestrator takes it, and records it
    given = Given(warrant=warrant, job=job.job, expectations=lab.tree.load().matrix.expectations)
    desk = Desk(
        agents={"intel-lab-1": agent("lab-1", theirs)},
        given=lambda nonce: given if nonce == warrant.nonce else None,
    )
    taken = take(bundle, desk, tmp_path / "inbox", now=later)
    assert isinstance(taken, Taken), str(taken)
    assert taken.missing == ()
    assert [(r.cell, r.attempt, r.status) for r in taken.results] == [
        (MLP_F16, 1, "xfail"),
        (MLP, 1, "miss"),
        (MLP, 2, "fail"),
        (SUM, 1, "pass"),
    ]
    assert taken.results[0].last_words == "loc <b>"
    assert taken.results[1].message == "no space left"
    recorded = intake.take_in(run, job, taken.folder, {})
    assert recorded.notes == ()
    assert recorded.info is not None
    assert len(run.results()[0]) == 4
    without = [dataclasses.replace(r, agent="") for r in taken.results]
    assert [dataclasses.replace(r, agent="") for r in recorded.results] == without
    assert (run.artifacts(SUM) / "ir/a.mlir").read_bytes() == b"module {}"
