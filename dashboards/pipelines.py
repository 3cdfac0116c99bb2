"""A pipeline's page: its recipes as a map of stations and lines, lit by tonight's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dashboards import documents as doc
from dashboards.facts import Facts
from dashboards.nights import STATUSES, is_verdict
from dashboards.tally import tally
from orchestrator.job import Contract
from orchestrator.results.declared import (
    Declared,
    DeclaredPipeline,
    DeclaredRecipe,
    DeclaredStage,
)
from orchestrator.results.history.rows import STAGE_SEPARATOR

TRUNK = "trunk"
_EXECUTED = ("execute", "compare")
_END = (("codegen", ""), ("execute", ""), ("compare", ""))
_CONTRACT = {
    "requires": "needs one of",
    "forbids": "refuses",
    "absent": "leaves none of",
    "present": "leaves all of",
}


def pipeline_pages(facts: Facts) -> Iterator[doc.PipelinePage]:
    """One for each pipeline that results know or that is declared, by name: others lead to it."""
    groups: dict[str, list[int]] = {name: [] for name in _declared(facts)}
    for index, cell in enumerate(facts.nights.cells):
        groups.setdefault(cell.pipeline, []).append(index)
    for name in sorted(groups):
        yield _page(facts, name, facts.of_tonight(groups[name]))


def _declared(facts: Facts) -> Iterable[str]:
    return facts.declared.pipelines if facts.declared else ()


def _page(facts: Facts, name: str, cells: list[int]) -> doc.PipelinePage:
    declared = facts.declared
    about = declared.pipelines.get(name) if declared else None
    pools = _pools(facts, about, cells)
    stack = declared.stacks.get(about.stack) if declared and about else None
    return doc.PipelinePage(
        pipeline=name,
        about=about.about if about else "",
        tier=about.tier if about else "core",
        stack=about.stack if about else "",
        versions=stack.versions if stack else {},
        night=facts.night,
        counts=tally(facts, cells),
        lines=tuple(_lines(facts, name, about, cells)) if about else (),
        recipes=tuple(_recipes(facts, about, cells)) if about else (),
        text=about.text if about else "",
        pools=pools,
        rows=tuple(_rows(facts, cells, pools)),
    )


def _pools(facts: Facts, about: DeclaredPipeline | None, cells: list[int]) -> tuple[str, ...]:
    present = {facts.nights.cells[index].pool for index in cells}
    order = [pool for pool in (about.pools if about else ()) if pool in present]
    return (*order, *sorted(present - set(order)))


def _rows(facts: Facts, cells: list[int], pools: tuple[str, ...]) -> Iterator[doc.GridRow]:
    rows: dict[str, dict[str, int]] = {}
    for index in cells:
        cell = facts.nights.cells[index]
        rows.setdefault(f"{cell.workload}.{cell.variant}", {})[cell.pool] = index
    for name, found in rows.items():
        refs = (facts.ref(found[pool]) if pool in found else None for pool in pools)
        yield doc.GridRow(name=name, cells=tuple(refs))


# --- the map -----------------------------------------------------------------------------------


def _lines(
    facts: Facts, name: str, about: DeclaredPipeline, cells: list[int]
) -> Iterator[doc.Line]:
    """The trunk, then the line of each egress, with the cells that travelled on it."""
    shared = _sharing(facts.declared, name)
    trunk = [("ingress", ""), *((f"lower:{s.stage}", s.recipe) for s in about.stages)]
    if not about.egress:
        own = [] if about.stages else _seen(facts, cells)
        known = {stage for stage, _ in (*trunk, *_END)}
        stages = [*trunk, *((stage, "") for stage in own if stage not in known), *_END]
        yield _line(facts, TRUNK, stages, cells, shared)
        return
    yield _line(facts, TRUNK, trunk, cells, shared)
    for egress, parts in about.egress.items():
        pools = _with_egress(facts.declared, egress)
        mine = [index for index in cells if facts.nights.cells[index].pool in pools]
        if mine:
            stages = [(f"lower:{s.stage}", s.recipe) for s in (*parts.kernels, *parts.host)]
            yield _line(facts, egress, [*stages, *_END], mine, shared)


def _seen(facts: Facts, cells: list[int]) -> list[str]:
    """The stages of a frontend that lowers by itself: those of the cell that had most."""
    texts = {facts.nights.text("stages", cell, facts.last) for cell in cells}
    longest = max(sorted(texts), key=len, default="")
    return list(dict.fromkeys(longest.split(STAGE_SEPARATOR))) if longest else []


def _line(
    facts: Facts,
    name: str,
    stages: list[tuple[str, str]],
    cells: list[int],
    shared: Mapping[str, tuple[str, ...]],
) -> doc.Line:
    """Stations with how many cells arrived: those that were judged and not lost before."""
    names = [stage for stage, _ in stages]
    # who failed at no station here failed behind the trunk, or before an egress
    elsewhere = len(names) if name == TRUNK else -1
    places = [
        (_executes(facts, cell), _place(facts, cell, names, elsewhere))
        for cell in _judged(facts, cells)
    ]
    stations = []
    for index, (stage, recipe) in enumerate(stages):
        here = [place for executes, place in places if executes or stage not in _EXECUTED]
        stations.append(
            doc.Station(
                stage=stage,
                recipe=recipe,
                shared=shared.get(recipe, ()),
                arrived=sum(place >= index for place in here),
                failed=sum(place == index for place in here),
            )
        )
    pools = tuple(dict.fromkeys(facts.nights.cells[cell].pool for cell in cells))
    return doc.Line(name=name, pools=pools, stations=tuple(stations))


def _judged(facts: Facts, cells: list[int]) -> list[int]:
    return [c for c in cells if is_verdict(facts.nights.status[c : c + 1, facts.last])[0]]


def _executes(facts: Facts, cell: int) -> bool:
    """Whether the cell's pool executes code, or only makes it."""
    pools = facts.declared.pools if facts.declared else {}
    pool = pools.get(facts.nights.cells[cell].pool)
    return pool is None or pool.executes


def _place(facts: Facts, cell: int, stages: list[str], elsewhere: int) -> int:
    """The station at which a cell came to grief; beyond the last one: at none."""
    phase = _trouble(facts, cell)
    if not phase:
        return len(stages)
    found = _stage_of(phase, stages)
    return elsewhere if found is None else stages.index(found)


def _trouble(facts: Facts, cell: int) -> str:
    """The phase in which a cell is red or fails as expected; empty where it went through."""
    status = STATUSES[int(facts.nights.status[cell, facts.last])]
    return "" if status in ("pass", "xpass") else facts.nights.text("phase", cell, facts.last)


def _stage_of(phase: str, stages: list[str]) -> str | None:
    """The station that a phase belongs to: `lower:gpu-to-nvvm sm_90` is of `lower:gpu-to-nvvm`."""
    for stage in stages:
        if phase == stage or phase.startswith((f"{stage} ", f"{stage}:", f"{stage}@")):
            return stage
    return None


def _with_egress(declared: Declared | None, egress: str) -> set[str]:
    pools = declared.pools if declared else {}
    return {name for name, pool in pools.items() if pool.egress == egress}


def _sharing(declared: Declared | None, name: str) -> dict[str, tuple[str, ...]]:
    """Recipe to the other pipelines that use it."""
    found: dict[str, list[str]] = {}
    for other, pipeline in (declared.pipelines if declared else {}).items():
        if other != name:
            for recipe in dict.fromkeys(stage.recipe for stage in _stages(pipeline)):
                found.setdefault(recipe, []).append(other)
    return {recipe: tuple(users) for recipe, users in found.items()}


def _stages(pipeline: DeclaredPipeline) -> list[DeclaredStage]:
    egress = [s for e in pipeline.egress.values() for s in (*e.kernels, *e.host)]
    return [*pipeline.stages, *egress]


# --- recipes -----------------------------------------------------------------------------------


def _recipes(facts: Facts, about: DeclaredPipeline, cells: list[int]) -> Iterator[doc.RecipeView]:
    """Those of the pipeline's stations in order, then those that they are made of."""
    declared = facts.declared
    assert declared is not None
    wanted = list(dict.fromkeys(stage.recipe for stage in _stages(about)))
    for recipe in wanted:
        found = declared.recipes.get(recipe)
        wanted += [name for name in (found.uses if found else ()) if name not in wanted]
    phases = [_trouble(facts, cell) for cell in _judged(facts, cells)]
    for name in wanted:
        if name in declared.recipes:
            stages = [f"lower:{s.stage}" for s in _stages(about) if s.recipe == name]
            failed = sum(_stage_of(phase, stages) is not None for phase in phases if phase)
            yield _recipe(declared, name, declared.recipes[name], failed)


def _recipe(declared: Declared, name: str, recipe: DeclaredRecipe, failed: int) -> doc.RecipeView:
    used = [
        pipeline
        for pipeline, each in declared.pipelines.items()
        if any(stage.recipe == name for stage in _stages(each))
    ]
    return doc.RecipeView(
        name=name,
        about=recipe.about,
        tier=recipe.tier,
        params=tuple(
            (key, p.type, "" if p.default is None else str(p.default), p.about)
            for key, p in recipe.params.items()
        ),
        contract=_contract(recipe.contract),
        used_by=tuple(used),
        uses=recipe.uses,
        files=recipe.files,
        failed=failed,
    )


def _contract(contract: Contract) -> dict[str, str]:
    """Its clauses in words, those that it has."""
    clauses = {
        words: ", ".join(getattr(contract, key))
        for key, words in _CONTRACT.items()
        if getattr(contract, key)
    }
    return clauses | ({"must change": "the IR"} if contract.must_change else {})
