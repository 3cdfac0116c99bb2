"""The records of the sample's pages and of its data."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Any, get_args

from dashboards import documents as doc
from dashboards.nights import Cell
from orchestrator.results.alike import normalised
from tests.dashboards.pages.sample import (
    AFTER,
    BEFORE,
    MESSAGE,
    PIPELINES,
    POOLS,
    STARTED,
    STATES,
    cells,
    ref,
    refs,
    state,
)

MONTHS = ("2026-09", "2026-10", "2026-11")


def tally(pool: str, pipeline: str) -> doc.Tally | None:
    """A square of the matrix."""
    mine = [ref(c) for c in cells() if c.pool == pool and c.pipeline == pipeline]
    if not mine:
        return None
    found = Counter(each.status for each in mine)
    return doc.Tally(pool=pool, counts=found, worst="fail", phase="lower:vectorize", worse=3)


def counts(night: str) -> dict[str, int]:
    """Of all cells that were there."""
    found = Counter(state(cell, night)[0] for cell in cells())
    return {status: number for status, number in found.items() if status != "none"}


def tonight() -> doc.TonightPage:
    """News of every kind, alarms of every kind."""
    kinds: dict[doc.NewsKind, str] = {
        "regression": "matmul.f32",
        "new-failure": "concat.f32",
        "xpass": "cumsum.f32",
        "vanished": "bmm.f32",
        "fixed": "gelu.f32",
        "flaky": "mlp.f32",
        "still-failing": "attention.f32",
        "slower": "mlp.f32",
        "faster": "mlp.f32",
        "new-pass": "einsum.f32",
    }
    alarms: tuple[Any, ...] = ("fewer-cells", "missed-night", "stopped", "damaged", "sick-agent")
    return doc.TonightPage(
        night=AFTER,
        started=STARTED,
        expected_hours=26.0,
        previous=BEFORE,
        runs=(
            _run("2026-11-20T02-00-13", f"{AFTER}T02:31:00+00:00", ()),
            _run("2026-11-20T09-00-00", None, ("pytorch_cpu",)),
        ),
        counts=counts(AFTER),
        counts_before=counts(BEFORE),
        alarms=tuple(doc.Alarm(kind=kind, text=f"An alarm: {kind}.") for kind in alarms),
        pools=POOLS,
        matrix=tuple(
            doc.MatrixGroup(
                pipeline=name,
                about=f"About {name}",
                tier="core" if name == "pytorch_cpu" else "peripheral",
                href=f"pipelines/{name}.html",
                tallies=tuple(tally(pool, name) for pool in POOLS),
            )
            for name in PIPELINES
        ),
        news=tuple(
            doc.News(
                kind=kind, text=f"3 cells: {kind}", cells=refs(name)[:2], total=3, before="pass"
            )
            for kind, name in kinds.items()
        ),
        agents=(
            doc.AgentBrief(
                agent="lab-3",
                pools=("nvidia-gpu",),
                misses=41,
                attempts=60,
                since=BEFORE,
                why="Xid 48: double-bit error",
            ),
        ),
        nodata=(
            _gap("skip", "layernorm.f32", BEFORE, "no machine serves it"),
            _gap("miss", "conv2d.f32", "", "the harness stopped answering"),
            _gap("none", "bmm.f32", AFTER, "declared, and no run of this night has it"),
        ),
    )


def _run(name: str, ended: str | None, selection: tuple[str, ...]) -> doc.RunHead:
    return doc.RunHead(
        run=name,
        started=STARTED,
        ended=ended,
        seconds=1847.5,
        engine="docker",
        version="0.1.0",
        selection=selection,
    )


def _gap(status: str, name: str, since: str, why: str) -> doc.NoData:
    return doc.NoData(
        pool="nvidia-gpu",
        pipeline="pytorch_gpu",
        status=status,
        total=1,
        since=since,
        why=why,
        cells=refs(name)[-1:],
    )


# --- cells ------------------------------------------------------------------------------------


def cell_page(cell: Cell) -> doc.CellPage:
    """A green cell says little, any other everything."""
    status, phase, message = state(cell, AFTER)
    steps = _steps(cell) if status in ("pass", "fail") else ()
    return doc.CellPage(
        cell=cell.id,
        pipeline=cell.pipeline,
        workload=cell.workload,
        variant=cell.variant,
        pool=cell.pool,
        tier="core",
        stack="pytorch",
        status=status,
        phase=phase,
        message=message,
        since=AFTER,
        declared=status != "none",
        reproduce="" if status == "skip" else f"nox -s {cell.pipeline} -- --cell {cell.id}",
        attempt=None if status in ("pass", "none", "skip") else _attempt(cell, status),
        transitions=_transitions(),
        speed=steps,
        flaky=flaky(cell) if cell.variant == "bf16" else None,
        months=() if status == "skip" else MONTHS,
    )


def _attempt(cell: Cell, status: str) -> doc.Attempt:
    changes = (
        doc.ChangeView(what="torch-mlir", before="20261001", after="20261102"),
        doc.ChangeView(what="agent", before="", after="lab-3"),
        doc.ChangeView(what="CPU flag avx512f", before="avx512f", after=""),
    )
    never = cell.workload == "cumsum"
    return doc.Attempt(
        run="2026-11-20T02-00-13",
        night=AFTER,
        number=1,
        agent="lab-3",
        expectation="known: tm_tensor.scan (issue 4574)" if status in ("xfail", "xpass") else "",
        notes=("the expected failure does not apply: it expired on 2026-10-01",),
        changed_since="" if never else BEFORE,
        changes=() if never else changes,
        errors=(
            doc.ErrorView(
                title="output_0 16x32 f32: 288 of 512 elements off",
                lines=("worst 0.41 at [0,15]", "▁▁▁▁▁▁▁█", "pattern: last column of every 16"),
            ),
        ),
        evidence=("Xid 48 on GPU 0 at 02:07:11",),
        stages=(
            doc.StageView(stage="ingress", seconds=0.157, exit="ok"),
            doc.StageView(stage="lower:vectorize", seconds=61.0, exit="fail"),
        ),
        last_words="error: failed to legalize\n  note: see current operation\n",
        versions={"LLVM": "22.1.8", "torch": "2.13.0"},
        hardware={"cpu_model": "Intel Xeon", "kernel": "6.1.0"},
        environment="sha256:3f9c2a1",
    )


def _transitions() -> tuple[doc.Transition, ...]:
    kinds: tuple[Any, ...] = ("regression", "fixed", "new-failure", "disappeared", "same", "first")
    start = dt.date.fromisoformat(AFTER)
    return tuple(
        doc.Transition(
            night=(start - dt.timedelta(days=3 * index)).isoformat(),
            run="2026-11-20T02-00-13",
            status="pass" if index % 2 else "fail",
            phase="" if index % 2 else "lower:vectorize",
            message="" if index % 2 else MESSAGE,
            kind=kinds[index % len(kinds)],
            nights=3,
        )
        for index in range(14)
    )


def _steps(cell: Cell) -> tuple[doc.SpeedView, ...]:
    return (
        _step(cell, "execute", "2026-11-03", 0.010, 0.013, "slower"),
        _step(cell, "lowering", "2026-10-11", 1.5, 1.1, "faster"),
    )


def _step(
    cell: Cell, measure: doc.Measure, night: str, before: float, after: float, kind: Any
) -> doc.SpeedView:
    return doc.SpeedView(
        cell=cell.id,
        href=cell.href,
        measure=measure,
        night=night,
        called="2026-11-08",
        before=before,
        after=after,
        ratio=after / before,
        kind=kind,
    )


def flaky(cell: Cell) -> doc.FlakyView:
    """A flaky cell."""
    return doc.FlakyView(
        cell=cell.id,
        href=cell.href,
        flakes=7,
        trials=90,
        rate=0.0778,
        lower_bound=0.038,
        last=BEFORE,
    )


# --- the other pages --------------------------------------------------------------------------


def pipeline(name: str) -> doc.PipelinePage:
    """A pipeline that parts for a driver."""
    mine = [cell for cell in cells() if cell.pipeline == name]
    pools = tuple(pool for pool in POOLS if any(cell.pool == pool for cell in mine))
    other = next(each for each in PIPELINES if each != name)
    by_place = {(f"{c.workload}.{c.variant}", c.pool): c for c in mine}
    return doc.PipelinePage(
        pipeline=name,
        about=f"About {name}",
        tier="core" if name == "pytorch_cpu" else "peripheral",
        stack="pytorch",
        versions={"LLVM": "22.1.8", "torch-mlir": "20261102"},
        night=AFTER,
        counts=counts(AFTER),
        lines=(
            doc.Line(
                name="trunk",
                pools=pools,
                stations=(
                    _station("ingress", "", (), 26, 0),
                    _station("lower:vectorize", "vectorize", (other,), 26, 5),
                ),
            ),
            doc.Line(
                name="cuda",
                pools=pools[:1],
                stations=(
                    _station("lower:gpu-to-nvvm", "gpu-to-nvvm", (), 4, 4),
                    _station("execute", "", (), 0, 0),
                ),
            ),
        ),
        recipes=_recipes(name),
        text="steps:\n  - recipe: vectorize\n",
        pools=pools,
        rows=tuple(
            doc.GridRow(
                name=each,
                cells=tuple(
                    ref(by_place[each, pool]) if index or pool != pools[-1] else None
                    for pool in pools
                ),
            )
            for index, each in enumerate(STATES)
        ),
    )


def _recipes(pipeline: str) -> tuple[doc.RecipeView, ...]:
    return (
        doc.RecipeView(
            name="vectorize",
            about="Vectorizes what is left of linalg.",
            tier="core",
            params=(("width", "int", "16", "Lanes of a vector."),),
            contract={"requires": "linalg", "must change": "the IR"},
            used_by=PIPELINES,
            uses=("clean-up",),
            files={"recipes/schedules/vectorize.mlir": "module { <transform> }\n"},
            failed=5,
        ),
        doc.RecipeView(
            name="gpu-to-nvvm",
            about="Kernels to NVVM.",
            tier="peripheral",
            params=(),
            contract={},
            used_by=(pipeline,),
            uses=(),
            files={},
            failed=0,
        ),
    )


def _station(
    stage: str, recipe: str, shared: tuple[str, ...], arrived: int, failed: int
) -> doc.Station:
    return doc.Station(stage=stage, recipe=recipe, shared=shared, arrived=arrived, failed=failed)


def workload(stem: str) -> doc.WorkloadPage:
    """All ways of a workload."""
    numbers = ((0.41, 1.5, 0.011), (math.inf, 2.5, None), (None, None, None), (3.2, 0.1, 2e-7))
    mine = [cell for cell in cells() if cell.workload == stem]
    return doc.WorkloadPage(
        workload=stem,
        about="A program.",
        night=AFTER,
        counts=Counter(state(cell, AFTER)[0] for cell in mine),
        ways=tuple(
            doc.WayView(
                cell=ref(cell),
                variant=cell.variant,
                error=numbers[index % 4][0],
                lowering=numbers[index % 4][1],
                execute=numbers[index % 4][2],
            )
            for index, cell in enumerate(mine)
        ),
        agreement="All 2 ways that compared numbers agree with the golden.",
    )


def agents() -> doc.AgentsPage:
    """A sick agent that is not registered, and a trusted one."""
    return doc.AgentsPage(
        night=AFTER,
        pools=tuple(
            doc.PoolView(
                pool=pool,
                about=f"About {pool}",
                tier="core",
                cells=13,
                counts=counts(AFTER),
                agents=("lab-3", "lab-4") if pool != "arm-cpu" else (),
                last=AFTER if pool != "arm-cpu" else "",
            )
            for pool in POOLS
        ),
        agents=(
            _agent("lab-3", "", "sick since 2026-11-19: Xid 48", None),
            _agent("lab-4", "trusted", "", 61.5),
        ),
    )


def _agent(name: str, level: str, sick: str, queue: float | None) -> doc.AgentView:
    return doc.AgentView(
        agent=name,
        pools=("nvidia-gpu", "intel-cpu"),
        level=level,
        contact="https://example.org/lab" if level else "ada@example.org",
        first="2026-09-01",
        last=AFTER,
        nights=78,
        uptime=0.963,
        attempts=4061,
        misses=120,
        queue_median=queue,
        queue_p95=queue and 3 * queue,
        causes=(("Xid #: double-bit error", 100), ("no space left on device", 20)),
        drivers=(("2026-11-01", "driver 580.1, kernel 6.1.0"),),
        sick=sick,
        blocks=("30 nights without a miss", "a second contact"),
    )


def expectations() -> doc.ExpectationsPage:
    """One in every state."""
    states: tuple[doc.ExpectationState, ...] = get_args(doc.ExpectationState)
    return doc.ExpectationsPage(
        night=AFTER,
        expectations=tuple(
            doc.ExpectationView(
                cells=f"pytorch_cpu.{each.replace(' ', '_')}.*",
                status="fail",
                phase="lower:fuse-elementwise",
                match=r"tm_tensor\.scan",
                reason="a dialect that upstream does not have",
                issue="https://example.org/issues/4574" if index % 2 else "not reported yet",
                owner="Ada",
                since="2026-06-01",
                expires="2027-06-30",
                age_days=172,
                state=each,
                green_since=BEFORE if each == "green" else "",
                met=refs("reduce.f32"),
                well=refs("cumsum.f32"),
                other=refs("matmul.f32"),
            )
            for index, each in enumerate(states)
        ),
    )


def trends() -> doc.TrendsPage:
    """Forty days, of which one did not happen."""
    nights = tuple((dt.date(2026, 10, 12) + dt.timedelta(days=n)).isoformat() for n in range(40))
    gap = 9

    def column(base: float, wave: float) -> tuple[float | None, ...]:
        return tuple(None if n == gap else base + wave * (n % 5) for n in range(len(nights)))

    def number(value: int) -> tuple[int, ...]:
        return tuple(0 if n == gap else value - n % 3 for n in range(len(nights)))

    return doc.TrendsPage(
        nights=nights,
        missing=(nights[gap],),
        coverage=tuple(
            doc.CoverageSeries(
                name=name, declared=number(39), runnable=number(33), passing=number(20)
            )
            for name in ("all", *PIPELINES, *(f"@{pool}" for pool in POOLS))
        ),
        speed=tuple(
            doc.SpeedSeries(
                stack=stack, pool=pool, execute=column(1.0, 0.02), lowering=column(0.99, 0.01)
            )
            for stack, pool in (
                ("pytorch", "intel-cpu"),
                ("pytorch", "arm-cpu"),
                ("pytorch-gpu", "nvidia-gpu"),
            )
        ),
        steps=_steps(cells()[0]),
        flaky=(flaky(cells()[0]),),
    )


# --- data -------------------------------------------------------------------------------------


def data() -> dict[str, Any]:
    """What scripts load, by name."""
    found: dict[str, Any] = {
        "site": doc.SiteData(
            title="Lighthouse CI", night=AFTER, started=STARTED, expected_hours=26.0
        ),
        "nights": doc.NightList(
            nights=tuple(
                doc.NightEntry(
                    night=night, cells=f"list-{night}", counts=counts(night), runs=("r",)
                )
                for night in (BEFORE, AFTER)
            )
        ),
        "trends": trends(),
    }
    for night in (BEFORE, AFTER):
        found[f"night/{night}"] = columns(night)
        found[f"cells/list-{night}"] = cell_list(night)
    for group in sorted({cell.group for cell in cells()}):
        for month in MONTHS:
            found[f"history/{group}/{month}"] = history(group, month)
    return found


def present(night: str) -> list[Cell]:
    """Cells that have a row on a night."""
    return [cell for cell in cells() if state(cell, night)[0] != "none"]


def cell_list(night: str) -> doc.CellList:
    """Their ids."""
    mine = present(night)
    return doc.CellList(
        cells=tuple(cell.id for cell in mine),
        stacks=("pytorch", "pytorch-gpu"),
        stack=tuple(int(cell.pipeline == "pytorch_gpu") for cell in mine),
        tiers=("core", "peripheral"),
        tier=tuple(int(cell.pipeline == "pytorch_gpu") for cell in mine),
        hrefs={},
    )


def columns(night: str) -> doc.NightColumns:
    """What they came to."""
    states = [state(cell, night) for cell in present(night)]
    told = [(phase, message) for status, phase, message in states if status != "pass"]
    phases = tuple(dict.fromkeys(["", *(phase for phase, _ in told)]))
    messages = tuple(dict.fromkeys(["", *(message for _, message in told)]))
    forms = [normalised(message) for message in messages]
    return doc.NightColumns(
        night=night,
        cells=f"list-{night}",
        statuses="".join(doc.LETTERS[status] for status, _, _ in states),
        phases=phases,
        messages=messages,
        alike=tuple(forms.index(form) for form in forms),
        phase=tuple(phases.index(phase) for phase, _ in told),
        message=tuple(messages.index(message) for _, message in told),
    )


def history(group: str, month: str) -> doc.History:
    """Twenty nights of a month."""
    nights = tuple(f"{month}-{day:02d}" for day in range(1, 21))
    steady: doc.Column = tuple(0.010 + 0.001 * (n % 3) for n in range(20))
    few: doc.Column = tuple(None if n < 5 else value for n, value in enumerate(steady))
    series = doc.Series(
        statuses="PPPFPPMPPEPPSPPxPPX-",
        attempts=tuple(2 if n == 6 else 1 for n in range(20)),
        error=tuple((0.4, 0.0, 3.5, 1e9, None)[n % 5] for n in range(20)),
        lowering=steady,
        execute=steady,
        stages={"ingress": steady, "lower:vectorize": steady, "execute": few},
        low=tuple(None if value is None else 0.009 for value in few),
        high=tuple(None if value is None else 0.014 for value in few),
    )
    keys = [cell.key for cell in cells() if cell.group == group]
    return doc.History(month=month, nights=nights, series=dict.fromkeys(keys, series))
