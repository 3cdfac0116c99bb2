"""Carrying out an order: once, whatever is in the way, and with whatever machine there is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.backends import executing, ordering
from orchestrator.backends.executing import Ordered
from orchestrator.backends.perform import Machine
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.host import Gpu, Host
from orchestrator.order import ExecSummary, PoolTerms, read_summary
from orchestrator.results.schema import Result
from orchestrator.results.store import Run
from tests.backends.farm import HOST, jobs, quiet, terms
from tests.config.tree import Tree, make_tree
from tests.fakes import PASS, FakeEngine, Play, fail

MLP = "torch_cpu.mlp.f32@intel-cpu"
MLP_F16 = "torch_cpu.mlp.f16@intel-cpu"
SUM = "torch_cpu.sum.f32@intel-cpu"
EXPECTED = fail("failed to legalize", "lower:to-llvm")
MISS = dataclasses.replace(PASS, status="miss", phase="execute", message="the machine is tired")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "repo").mkdir()
    return make_tree(tmp_path / "repo")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def ordered(tree: Tree, engine: FakeEngine, tmp_path: Path) -> Ordered:
    return give(tree, engine, tmp_path / "jobs")


def give(tree: Tree, engine: FakeEngine, folder: Path, **changes: Any) -> Ordered:
    (job,) = jobs(tree, "night")
    (folder / job.id).mkdir(parents=True)
    ordering.write(folder / job.id, job, terms(tree, "night", engine.time, **changes))
    return executing.read(folder / job.id)


def carry_out(
    ordered: Ordered, out: Path, tree: Tree, engine: FakeEngine, host: Host = HOST
) -> ExecSummary:
    if (before := executing.claim(ordered, out)) is not None:
        return before
    clock = engine.time.clock()
    machine = Machine(engine=engine, note="a fake", clock=clock)
    return executing.carry_out(ordered, out, tree.root, host, lambda _: machine, clock, quiet())


def results(out: Path) -> dict[str, Result]:
    return Run(out, "night").latest()


def statuses(out: Path) -> dict[str, str]:
    return {cell: result.status for cell, result in results(out).items()}


def test_results_and_summary(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.script = Play({MLP_F16: [EXPECTED]})
    out = tmp_path / "out"
    summary = carry_out(ordered, out, tree, engine)
    assert statuses(out) == {MLP: "pass", MLP_F16: "xfail", SUM: "pass"}
    assert (summary.exit, summary.results, summary.engine) == (0, 3, "docker")
    assert (summary.job, summary.run) == ("night.pytorch.intel-cpu", "night")
    assert summary.order_sha256 == ordered.sha256
    assert read_summary(out) == summary
    assert [e.digest for e in summary.environments] == ["sha256:pytorch"]
    assert {path.name for path in out.iterdir()} == {
        *("order.json", "exec.json", "run.json", "results", "lock"),
    }
    result = results(out)[SUM]
    assert (result.run, result.tier, result.reproduce) == ("night", "core", f"rerun {SUM}")


def test_the_exit_code_is_the_cells(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.script = Play({SUM: [fail("wrong")]})
    assert carry_out(ordered, tmp_path / "out", tree, engine).exit == 1


def test_a_finished_order_is_not_carried_out_again(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    first = carry_out(ordered, tmp_path / "out", tree, engine)
    assert carry_out(ordered, tmp_path / "out", tree, engine) == first
    assert len(engine.jobs) == 1


def test_an_interrupted_one_goes_on_with_what_is_left(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    whole = list(Play()(ordered.job))
    # the second cell has begun when Ctrl-C comes
    engine.script = lambda job: [*whole[:6], KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        carry_out(ordered, tmp_path / "out", tree, engine)
    done = set(statuses(tmp_path / "out"))
    assert len(done) == 1
    assert read_summary(tmp_path / "out") is None
    engine.script = Play()
    summary = carry_out(ordered, tmp_path / "out", tree, engine)
    assert set(statuses(tmp_path / "out")) == {MLP, MLP_F16, SUM}
    assert {cell.id for cell in engine.jobs[-1].cells} == {MLP, MLP_F16, SUM} - done
    assert summary.results == 3


def test_misses_are_tried_again_as_the_order_says(
    tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.script = Play({SUM: [MISS], MLP_F16: [EXPECTED]})
    ordered = give(tree, engine, tmp_path / "jobs", retries=1)
    summary = carry_out(ordered, tmp_path / "out", tree, engine)
    attempts = Run(tmp_path / "out", "night").attempts_of(SUM)
    assert [result.attempt for result in attempts] == [1, 2]
    assert (summary.exit, summary.results) == (4, 4)


def test_the_order_says_how_many_cells_at_a_time(
    tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    one = give(tree, engine, tmp_path / "a", workers=1)
    carry_out(one, tmp_path / "1", tree, engine)
    carry_out(give(tree, engine, tmp_path / "b"), tmp_path / "2", tree, engine)
    assert [job.workers for job in engine.jobs] == [1, 2]


# --- what is in the way -----------------------------------------------------------------------


def all_miss(out: Path) -> str:
    """The message that all cells share."""
    found = results(out)
    assert {result.status for result in found.values()} == {"miss"}
    assert len(found) == 3
    (message,) = {result.message for result in found.values()}
    return message


def test_a_machine_of_another_pool_misses(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    amd = dataclasses.replace(HOST, cpu_vendor="AuthenticAMD")
    summary = carry_out(ordered, tmp_path / "out", tree, engine, amd)
    assert summary.exit == 4
    assert "pool intel-cpu is for CPU vendor GenuineIntel" in all_miss(tmp_path / "out")
    assert engine.jobs == []


def test_another_definition_of_the_stack_misses(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    tree.edit("images/pins.yaml", "version: 22.1.8", "version: 22.1.9")
    carry_out(ordered, tmp_path / "out", tree, engine)
    message = all_miss(tmp_path / "out")
    assert "defines stack pytorch in another way" in message
    assert engine.prepared == []


def test_another_harness_misses(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    (ordered.folder / "orchestrator" / "job.py").write_text("import this\n")
    carry_out(ordered, tmp_path / "out", tree, engine)
    assert "the harness is not what was ordered" in all_miss(tmp_path / "out")


def test_no_engine_misses(ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path) -> None:
    def choose(name: str) -> Machine:
        assert name == "auto"
        raise InfrastructureError("no engine answers")

    out, clock = tmp_path / "out", engine.time.clock()
    executing.claim(ordered, out)
    executing.carry_out(ordered, out, tree.root, HOST, choose, clock, quiet())
    assert all_miss(out) == "no engine answers"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("job.json", "night", "other", "is not the document that was ordered"),
        ("order.json", '"tier"', '"tear"', "the job's documents are damaged: .*tear"),
        ("order.json", '"job": "night', '"job": "day', "the order is of another job"),
        ("order.json", "{", "", "the job's documents are damaged"),
    ],
)
def test_a_damaged_job_is_told(
    ordered: Ordered, file: str, old: str, new: str, message: str
) -> None:
    path = ordered.folder / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InfrastructureError, match=message):
        executing.read(ordered.folder)


def test_a_folder_without_a_job_is_told(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"A job folder has job\.json and order\.json"):
        executing.read(tmp_path)


def test_a_workload_that_was_changed_on_the_way_is_refused(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path
) -> None:
    (ordered.folder / "workloads" / "sum.py").write_text("class Model: evil = 1\n")
    carry_out(ordered, tmp_path / "out", tree, engine)
    assert "workloads/sum.py is not what was ordered" in all_miss(tmp_path / "out")
    assert engine.jobs == []


@pytest.mark.parametrize("there", ["another order", "something else", "a file"])
def test_a_folder_of_something_else_is_left_alone(
    ordered: Ordered, tree: Tree, engine: FakeEngine, tmp_path: Path, there: str
) -> None:
    out = tmp_path / "out"
    if there == "a file":
        out.write_text("mine")
    elif there == "something else":
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    else:
        carry_out(give(tree, engine, tmp_path / "more", retries=0), out, tree, engine)
    with pytest.raises(UsageError, match=r"--out .*(is of another job|is no folder)"):
        executing.claim(ordered, out)


def test_a_pool_of_gpus_wants_one_that_can_be_used() -> None:
    terms = PoolTerms(name="nvidia-gpu", device="nvidia")
    assert terms.refusal(HOST) == "pool nvidia-gpu is for GPUs by nvidia: none is here"
    sick = Gpu(vendor="nvidia", name="H100", problem="no driver")
    assert "no driver" in terms.refusal(dataclasses.replace(HOST, gpus=(sick,)))
    well = Gpu(vendor="nvidia", name="H100")
    assert terms.refusal(dataclasses.replace(HOST, gpus=(sick, well))) == ""
    assert "architecture aarch64" in PoolTerms(name="arm-cpu", arch="aarch64").refusal(HOST)


def test_only_expectations_of_its_cells_are_in_an_order(ordered: Ordered, tree: Tree) -> None:
    document = json.loads((ordered.folder / "order.json").read_text())
    assert [e["cells"] for e in document["expectations"]] == ["torch_cpu.mlp.f16@*"]
    assert ordered.order.expected() == tree.load().matrix.expectations
