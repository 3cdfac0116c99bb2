"""The records of the sample's other pages."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import get_args

from dashboards import documents as doc
from tests.dashboards.pages.records import counts, flaky, steps
from tests.dashboards.pages.sample import (
    AFTER,
    BEFORE,
    PIPELINES,
    POOLS,
    STATES,
    cells,
    ref,
    refs,
    state,
)


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
        steps=steps(cells()[0]),
        flaky=(flaky(cells()[0]),),
    )
