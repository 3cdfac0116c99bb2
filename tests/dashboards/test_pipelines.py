"""The map of a pipeline: who arrived where, and who came to grief."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards import documents as doc
from dashboards.facts import Facts, Options
from dashboards.memory import Memory
from dashboards.nights import nights_of
from dashboards.pipelines import pipeline_pages
from orchestrator.results.declared import (
    Declared,
    DeclaredEgress,
    DeclaredPipeline,
    DeclaredPool,
    DeclaredRecipe,
    DeclaredStage,
)
from orchestrator.results.history.archive import Archive, RunRecord, table_of, write
from orchestrator.results.history.rows import Row
from orchestrator.results.history.source import find
from orchestrator.results.history.table import load

RUN = "2026-05-01T02-00-00"
ABOUT = "About."


def stage(name: str) -> DeclaredStage:
    return DeclaredStage(stage=name, recipe=name)


def recipe(*uses: str) -> DeclaredRecipe:
    return DeclaredRecipe(about=ABOUT, tier="core", uses=uses, files={"recipes/x.yaml": "text"})


DECLARED = Declared(
    pipelines={
        "gpu": DeclaredPipeline(
            about=ABOUT,
            tier="core",
            stack="s",
            ingress="torch_mlir",
            stages=(stage("fuse"), stage("map")),
            egress={
                "cuda": DeclaredEgress(kernels=(stage("nvvm"),), host=(stage("host"),)),
                "vulkan": DeclaredEgress(kernels=(stage("spirv"),), host=(stage("host"),)),
            },
            pools=("cross", "soft"),
        ),
        "own": DeclaredPipeline(
            about=ABOUT, tier="core", stack="s", ingress="triton", stages=(), pools=("cross",)
        ),
        "cpu": DeclaredPipeline(
            about=ABOUT, tier="core", stack="s", ingress="jax", stages=(stage("fuse"),)
        ),
    },
    recipes={name: recipe() for name in ("fuse", "nvvm", "spirv", "host", "clean")}
    | {"map": recipe("clean")},
    pools={
        "cross": DeclaredPool(about="", tier="core", egress="cuda", executes=False),
        "soft": DeclaredPool(about="", tier="core", egress="vulkan"),
    },
    stacks={},
    workloads={"a": "A.", "b": "B.", "c": "C."},
)


def row(cell: str, status: str = "pass", phase: str = "", stages: str = "") -> Row:
    return Row(run=RUN, cell=cell, attempt=1, status=status, phase=phase, stages=stages)


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, doc.PipelinePage]:
    record = RunRecord(
        run=RUN, started="2026-05-01T02:00:00Z", ended="x", declared=DECLARED.digest()
    )
    rows = [
        row("gpu.a.f32@cross"),
        row("gpu.b.f32@cross", "fail", "lower:nvvm"),
        row("gpu.c.f32@cross", "xfail", "lower:map"),
        row("gpu.a.f32@soft"),
        row("gpu.b.f32@soft", "fail", "compare"),
        row("gpu.c.f32@soft", "miss", "lower:fuse"),
        row("own.a.f32@cross", stages="ingress\nlower:ttir\nlower:llir\ncodegen"),
        row("own.b.f32@cross", "fail", "lower:ttir", "ingress\nlower:ttir"),
    ]
    archive = Archive(runs=(record,), declared={DECLARED.digest(): DECLARED})
    write(tmp_path / f"{RUN}.parquet", table_of(rows), archive)
    table = load(find(tmp_path, tmp_path / "cache", lambda _: None).sources)
    facts = Facts(nights_of(table), Options(), (), Memory(None, ""))
    return {page.pipeline: page for page in pipeline_pages(facts)}


def stations(line: doc.Line) -> dict[str, tuple[int, int]]:
    return {s.stage: (s.arrived, s.failed) for s in line.stations}


def test_the_trunk_and_its_egresses(pages: dict[str, doc.PipelinePage]) -> None:
    trunk, cuda, vulkan = pages["gpu"].lines
    assert [line.name for line in (trunk, cuda, vulkan)] == ["trunk", "cuda", "vulkan"]
    assert (cuda.pools, vulkan.pools) == (("cross",), ("soft",))
    # what a machine missed arrived nowhere
    assert stations(trunk) == {"ingress": (5, 0), "lower:fuse": (5, 0), "lower:map": (5, 1)}
    # c never came here; cross executes nothing
    assert stations(cuda) == {
        "lower:nvvm": (2, 1),
        "lower:host": (1, 0),
        "codegen": (1, 0),
        "execute": (0, 0),
        "compare": (0, 0),
    }
    assert stations(vulkan)["execute"] == (2, 0)
    assert stations(vulkan)["compare"] == (2, 1)


def test_a_frontend_that_lowers_by_itself_has_its_own_stations(
    pages: dict[str, doc.PipelinePage],
) -> None:
    (line,) = pages["own"].lines
    assert stations(line) == {
        "ingress": (2, 0),
        "lower:ttir": (2, 1),
        "lower:llir": (1, 0),
        "codegen": (1, 0),
        "execute": (0, 0),
        "compare": (0, 0),
    }


def test_shared_recipes_are_shown_as_shared(pages: dict[str, doc.PipelinePage]) -> None:
    trunk = pages["gpu"].lines[0]
    shared = {station.stage: station.shared for station in trunk.stations}
    assert shared == {"ingress": (), "lower:fuse": ("cpu",), "lower:map": ()}


def test_recipes_document_themselves(pages: dict[str, doc.PipelinePage]) -> None:
    found = {each.name: each for each in pages["gpu"].recipes}
    assert list(found) == ["fuse", "map", "nvvm", "host", "spirv", "clean"]
    assert found["fuse"].used_by == ("cpu", "gpu")
    assert found["map"].uses == ("clean",)
    assert (found["nvvm"].failed, found["map"].failed, found["fuse"].failed) == (1, 1, 0)
    assert found["fuse"].files == {"recipes/x.yaml": "text"}
