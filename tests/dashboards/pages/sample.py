"""A small site, made by hand, in which every field of every record says something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboards import documents as doc
from dashboards.build import to_json
from dashboards.nights import Cell
from dashboards.nights import parse as parse_cell
from dashboards.render import Page, assets, charts, render

BEFORE, AFTER = "2026-11-19", "2026-11-20"
STARTED = f"{AFTER}T02:00:13+00:00"
POOLS = ("intel-cpu", "arm-cpu", "nvidia-gpu")
PIPELINES = ("pytorch_cpu", "pytorch_gpu")
MESSAGE = "transform.structured.vectorize: matched nothing"
NAV = (
    doc.Link(href="index.html", text="Tonight"),
    doc.Link(href="compare.html", text="Compare"),
    doc.Link(href="trends.html", text="Trends"),
    doc.Link(href="agents.html", text="Pools and agents"),
    doc.Link(href="expectations.html", text="Expectations"),
)
STATES: Mapping[str, tuple[str, str]] = {
    "matmul.f32": ("pass", "fail"),
    "mlp.f32": ("pass", "pass"),
    "mlp.bf16": ("xfail", "fail"),
    "softmax.f32": ("fail", "fail"),
    "attention.f32": ("fail", "fail"),
    "gelu.f32": ("fail", "pass"),
    "cumsum.f32": ("xfail", "xpass"),
    "concat.f32": ("none", "error"),
    "einsum.f32": ("miss", "pass"),
    "layernorm.f32": ("skip", "skip"),
    "conv2d.f32": ("none", "miss"),
    "silu.f32": ("pass", "skip"),
    "bmm.f32": ("error", "none"),
    "reduce.f32": ("skip", "xfail"),
}
"""Status on the two nights, in all pipelines and pools."""
SECOND = {"softmax.f32": "other words altogether"}
"""On the second night: the message, where it is another."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Pages by address, and data by name."""

    pages: Mapping[str, Page]
    data: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """The site, as `dashboards.build` writes one."""
        for name, content in {**assets(), "charts.js": charts()}.items():
            _put(folder / "assets" / name, content)
        for href, page in self.pages.items():
            _put(folder / href, render(page, chrome(href)).encode("utf-8", "replace"))
            _put(folder / href.replace(".html", ".json"), to_json(page))
        for name, record in self.data.items():
            text = to_json(record).decode().rstrip()
            _put(folder / f"data/{name}.js", f'lighthouse.data("{name}",{text});\n'.encode())
        _put(folder / "feeds/all.xml", b"<feed/>")


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def chrome(href: str) -> doc.Chrome:
    """What the page at an address has around it."""
    return doc.Chrome(
        title="Lighthouse CI",
        root="../" * href.count("/") or "./",
        href=href,
        nav=NAV,
        json_href=href.replace(".html", ".json"),
        feeds=(doc.Link(href="feeds/all.xml", text="all regressions"),),
    )


def cells() -> tuple[Cell, ...]:
    """Ids of all cells, sorted, in parts."""
    ids = [f"{p}.{name}@{pool}" for p in PIPELINES for name in STATES for pool in _pools(p)]
    return tuple(cell for each in sorted(ids) if (cell := parse_cell(each)))


def _pools(pipeline: str) -> tuple[str, ...]:
    return POOLS[:2] if pipeline == "pytorch_cpu" else POOLS[2:]


def state(cell: Cell, night: str) -> tuple[str, str, str]:
    """Status, phase and message of a cell on one of the nights."""
    name = f"{cell.workload}.{cell.variant}"
    status = STATES[name][night == AFTER]
    if status in ("pass", "none"):
        return status, "", ""
    # numbers and paths that are others every night make no other message
    said = f"{MESSAGE}, {7 if night == AFTER else 12} times, at /tmp/{night}/a"
    if night == AFTER:
        said = SECOND.get(name, said)
    return status, "" if status in ("skip", "miss") else "lower:vectorize", said


def ref(cell: Cell, night: str = AFTER) -> doc.CellRef:
    """A cell in a list."""
    status, phase, message = state(cell, night)
    return doc.CellRef(
        cell=cell.id,
        href=cell.href,
        status=status,
        phase=phase,
        pool=cell.pool,
        message=message,
        since=AFTER,
        tier="core" if cell.pipeline == "pytorch_cpu" else "peripheral",
    )


def refs(name: str) -> tuple[doc.CellRef, ...]:
    """The cells of a workload and variant."""
    return tuple(ref(cell) for cell in cells() if f"{cell.workload}.{cell.variant}" == name)


def sample() -> Sample:
    """The whole site."""
    from tests.dashboards.pages import records, records_data, records_other

    stems = {name.split(".")[0] for name in STATES}
    return Sample(
        pages={
            "index.html": records.tonight(),
            "compare.html": doc.ComparePage(night=AFTER, previous=BEFORE),
            "agents.html": records_other.agents(),
            "expectations.html": records_other.expectations(),
            "trends.html": records_other.trends(),
            **{f"pipelines/{name}.html": records_other.pipeline(name) for name in PIPELINES},
            **{f"workloads/{stem}.html": records_other.workload(stem) for stem in sorted(stems)},
            **{cell.href: records.cell_page(cell) for cell in cells()},
        },
        data=records_data.data(),
    )
