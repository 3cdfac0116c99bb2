"""When a health job is owed, what it is, and what it says."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from orchestrator.fleet.health import (
    EVERY,
    FEW,
    Golden,
    Tried,
    epidemic,
    golden,
    judge,
    owes,
    pick,
    seen,
)
from orchestrator.fleet.quarantine import NEW, Seen, Standing, standings
from orchestrator.job import Cell, Workload
from orchestrator.plan import PlannedCell
from tests.results.test_store import result

NOW = dt.datetime(2026, 11, 20, 22, 0, tzinfo=dt.UTC)


def planned(workload: str, pipeline: str = "torch_cpu", **fields: Any) -> PlannedCell:
    cell = Cell(
        id=f"{pipeline}.{workload}.f32@intel-cpu",
        pipeline=pipeline,
        workload=Workload(name=workload, file="", sha256=""),
        variant="f32",
        pool="intel-cpu",
        ingress="torch",
    )
    kept: dict[str, Any] = {"stack": "pytorch", "tier": "core", "runnable": True, "reason": ""}
    return PlannedCell(cell=cell, **{**kept, **fields})


MLP, SUM, CONV = planned("mlp"), planned("sum"), planned("conv")


def tried(
    run: str, statuses: dict[str, str], cells: tuple[PlannedCell, ...] = (MLP, SUM, CONV), **f: Any
) -> Tried:
    seconds = {"mlp": 3.0, "sum": 1.0, "conv": 2.0}
    results = {
        each.cell.id: result(
            cell=each.cell.id,
            status=statuses[each.cell.workload.name],
            seconds=seconds[each.cell.workload.name],
            **f,
        )
        for each in cells
        if each.cell.workload.name in statuses
    }
    return Tried(run=run, cells=cells, results=results)


GREEN = {"mlp": "pass", "sum": "pass", "conv": "xfail"}


class TestOwes:
    """Before the first cell, after any miss, daily."""

    def test_an_unknown_one(self) -> None:
        assert owes(None, NOW) == owes(NEW, NOW) == "it has not run anything yet"

    def test_daily(self) -> None:
        standing = Standing(passed=NOW)
        assert owes(standing, NOW + EVERY - dt.timedelta(seconds=1)) == ""
        assert owes(standing, NOW + EVERY) == "its last health job is a day old"
        assert owes(Standing(), NOW)

    @pytest.mark.parametrize("kind", ["lost", "pull", "hang"])
    def test_after_any_miss(self, kind: str) -> None:
        at = NOW.isoformat()
        journal = [
            Seen(agent="a", event="healthy", at=at),
            Seen(agent="a", event="missed", at=at, kind=kind),
            Seen(agent="a", event="worked", at=at),
        ]
        assert owes(standings(journal)["a"], NOW) == f"a job was missed ({kind})"


class TestGolden:
    """The last green run of a stack."""

    def test_the_newest_in_which_all_is_green(self) -> None:
        runs = [
            tried("4", {**GREEN, "mlp": "fail"}),
            tried("3", {}),
            tried("2", GREEN),
            tried("1", GREEN),
        ]
        found = golden(runs, "pytorch", "intel-cpu")
        assert found == Golden(
            run="2",
            stack="pytorch",
            pool="intel-cpu",
            cells=(SUM, MLP),
        )

    def test_what_is_peripheral_or_elsewhere_does_not_count(self) -> None:
        cells = (MLP, dataclasses.replace(SUM, tier="peripheral"))
        found = golden([tried("1", {"mlp": "pass", "sum": "fail"}, cells)], "pytorch", "intel-cpu")
        assert found is not None
        assert found.cells == (MLP,)
        assert golden([tried("1", GREEN)], "jax", "intel-cpu") is None
        assert golden([tried("1", GREEN)], "pytorch", "amd-cpu") is None

    def test_machines_build_images_of_their_own(self) -> None:
        found = tried("1", GREEN)
        other = dataclasses.replace(found.results[MLP.cell.id], environment="sha256:x")
        mixed = dataclasses.replace(found, results={**found.results, MLP.cell.id: other})
        assert golden([mixed], "pytorch", "intel-cpu") == golden([found], "pytorch", "intel-cpu")

    def test_expected_failures_alone_show_nothing(self) -> None:
        assert golden([tried("1", {"mlp": "xfail"}, (MLP,))], "pytorch", "intel-cpu") is None


def test_a_health_job_is_two_cheap_cells_of_one_pipeline() -> None:
    again = planned("sum", runnable=False)
    gpu = planned("mlp", pipeline="torch_gpu")
    assert pick([SUM, again, gpu, CONV, MLP]) == (SUM, CONV)
    assert pick([SUM, gpu, CONV], ["*_gpu"]) == (gpu,)
    assert pick([SUM], ["jax_*"]) == ()


CELLS = [SUM.cell.id, MLP.cell.id]


class TestJudge:
    """What it says of the machine."""

    def test_all_pass(self) -> None:
        found = judge([result(cell=CELLS[0]), result(cell=CELLS[1], status="xpass")], CELLS)
        assert (found.verdict, found.why) == ("healthy", "")

    def test_one_that_is_wrong(self) -> None:
        wrong = result(cell=CELLS[1], status="fail", phase="compare", message="off by 3\nmore")
        found = judge([result(cell=CELLS[0]), wrong], CELLS)
        assert (found.verdict, found.kind) == ("sick", "")
        assert found.why == f"{CELLS[1]}: fail at compare: off by 3"

    def test_one_that_is_missing(self) -> None:
        assert judge([result(cell=CELLS[0])], CELLS).why == f"no result of {CELLS[1]}"

    @pytest.mark.parametrize(
        ("message", "verdict", "kind"),
        [
            ("no space left on the device", "sick", "disk"),
            ("pull access denied", "inconclusive", "pull"),
            ("the GPU hangs look the same from outside", "sick", "other"),
            (
                "A kernel that never ends and a GPU that hangs look the same from outside",
                "sick",
                "hang",
            ),
        ],
    )
    def test_misses(self, message: str, verdict: str, kind: str) -> None:
        missed = result(cell=CELLS[0], status="miss", phase="execute", message=message)
        found = judge([missed], CELLS)
        assert (found.verdict, found.kind) == (verdict, kind)


def lines(event: Any, count: int) -> list[Seen]:
    return [Seen(agent=f"{event}{n}", event=event, at=NOW.isoformat()) for n in range(count)]


class TestSeen:
    """The line of the journal."""

    SICK = judge([result(cell=CELLS[0], status="fail")], CELLS[:1])

    def test_sick_and_well(self) -> None:
        line = seen("a", "h1", self.SICK, NOW.isoformat())
        assert (line.event, line.job, line.kind) == ("sick", "h1", "")
        well = judge([result(cell=CELLS[0])], CELLS[:1])
        assert seen("a", "h1", well, NOW.isoformat()).event == "healthy"

    def test_inconclusive_is_no_strike_and_stays_owed(self) -> None:
        missed = judge([result(cell=CELLS[0], status="miss", message="failed to pull")], CELLS[:1])
        now = standings([seen("a", "h", missed, NOW.isoformat())])["a"]
        assert (now.strikes, bool(owes(now, NOW))) == (0, True)

    def test_a_job_that_fails_everywhere_is_not_the_machines(self) -> None:
        many = lines("sick", FEW + 1)
        assert epidemic(many)
        line = seen("a", "h", self.SICK, NOW.isoformat(), many)
        assert (line.event, line.kind) == ("missed", "job")
        assert standings([line])["a"].strikes == 0

    def test_a_few_or_a_minority_are(self) -> None:
        assert not epidemic(lines("sick", FEW))
        assert not epidemic(lines("sick", FEW + 1) + lines("healthy", FEW + 1))
        assert not epidemic(lines("sick", 1) * 9)
