"""The records of the sample's main page and of its cells' pages."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from dashboards import documents as doc
from dashboards.nights import Cell
from tests.dashboards.pages.sample import (
    AFTER,
    BEFORE,
    MESSAGE,
    PIPELINES,
    POOLS,
    STARTED,
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
    called = steps(cell) if status in ("pass", "fail") else ()
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
        speed=called,
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
        last_green="" if never else BEFORE,
        first_bad="" if never else AFTER,
        changes=() if never else changes,
        errors=(
            doc.ErrorView(
                title="output_0 16x32 f32: 288 of 512 elements off",
                lines=("worst 0.41 at [0,15]", "▁▁▁▁▁▁▁█", "pattern: last column of every 16"),
                histogram=(("equal", 100), ("within it", 124), ("beyond", 288)),
                picture=((0, 0, 50), (0, 1, 100)),
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


def steps(cell: Cell) -> tuple[doc.SpeedView, ...]:
    """One slower, one faster."""
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
