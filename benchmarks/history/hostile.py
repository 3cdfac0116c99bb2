"""A night with payloads in it, wherever results and declarations can carry them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from benchmarks.history import draws
from benchmarks.history.payloads import CELLS, INTEGERS, LINKS, LONG, NAMES, NUMBERS, TEXTS
from orchestrator.config.cells import CellKey
from orchestrator.results.declared import Declared, DeclaredExpectation, DeclaredRecipe
from orchestrator.results.history.archive import RunRecord, table_of
from orchestrator.results.history.rows import STAGE_SEPARATOR, Row

_OFTEN, _SELDOM = 0.25, 0.04
_NUMBERS = ("seconds", "queued_seconds", "error", "kernel_seconds")
_LATEST = 253402300799
"""Seconds since 1970: the last that a date has."""


def named(keys: Sequence[CellKey]) -> list[CellKey]:
    """The same cells, with some workloads named as badly as ids allow."""
    names = sorted({key.workload for key in keys})
    bad = dict(zip(names[:: max(1, len(names) // len(NAMES))], NAMES, strict=False))
    return [dataclasses.replace(k, workload=bad.get(k.workload, k.workload)) for k in keys]


def record(honest: RunRecord, seed: int) -> RunRecord:
    """What a run says of itself."""
    draw = _Draw(seed, honest.run)
    return dataclasses.replace(
        honest,
        engine=draw.text("engine"),
        version=draw.text("version"),
        selection=(draw.text("one"), draw.text("two")),
        seconds=draw.number("seconds"),
    )


def declared(honest: Declared, seed: int) -> Declared:
    """What people declared, by people who mean harm."""
    draw = _Draw(seed, "declared")
    return dataclasses.replace(
        honest,
        pipelines={
            name: dataclasses.replace(each, about=draw.text(name), text=draw.text(name, "text"))
            for name, each in honest.pipelines.items()
        },
        recipes={name: _recipe(each, draw, name) for name, each in honest.recipes.items()},
        pools={
            name: dataclasses.replace(each, about=draw.text("pool", name))
            for name, each in honest.pools.items()
        },
        stacks={
            name: dataclasses.replace(
                each,
                about=draw.text("stack", name),
                versions={**each.versions, draw.text("key", name): draw.text("value", name)},
            )
            for name, each in honest.stacks.items()
        },
        workloads={name: draw.text("workload", name) for name in honest.workloads},
        expectations=tuple(_expectation(each, draw) for each in honest.expectations),
    )


def _recipe(honest: DeclaredRecipe, draw: _Draw, name: str) -> DeclaredRecipe:
    texts = {file: f"{draw.text(file)}\n{text}" for file, text in honest.files.items()}
    params = {
        **honest.params,
        **{
            draw.text(name, "param"): dataclasses.replace(
                each, about=draw.text(name, key), default=draw.text(name, key, "default")
            )
            for key, each in honest.params.items()
        },
    }
    return dataclasses.replace(
        honest,
        about=draw.text(name),
        params=params,
        files={**texts, draw.text(name, "file"): draw.text(name, "text")},
    )


def _expectation(honest: DeclaredExpectation, draw: _Draw) -> DeclaredExpectation:
    cells = honest.cells
    return dataclasses.replace(
        honest,
        match=draw.text(cells, "match"),
        reason=draw.text(cells, "reason"),
        issue=LINKS[int(draw.unit(cells) * len(LINKS))],
        owner=draw.text(cells, "owner"),
    )


def table(honest: pa.Table, seed: int) -> pa.Table:
    """A night's rows with payloads, and rows of cells that no matrix makes."""
    rows = [
        Row(**{**each, "stage_seconds": tuple(each["stage_seconds"])})
        for each in honest.to_pylist()
    ]
    spoilt = [_row(row, _Draw(seed, row.run, row.cell, row.attempt)) for row in rows]
    return table_of([*spoilt, *_strangers(rows)])


def _strangers(rows: Sequence[Row]) -> Iterator[Row]:
    attempted = [row for row in rows if row.attempt == 1]
    for cell, row in zip(CELLS, attempted, strict=False):
        yield dataclasses.replace(row, cell=cell)


def _row(honest: Row, draw: _Draw) -> Row:
    changes: dict[str, object] = {}
    red = honest.status not in ("pass", "skip", "none")
    for name in ("message", "expectation", "reproduce"):
        if getattr(honest, name) and (red or draw.unit(name) < _SELDOM):
            changes[name] = draw.text(name)
    if honest.agent:
        changes["agent"] = _Draw(0, "agent").text(honest.agent)
    if red and draw.unit("phase") < _OFTEN:
        changes["phase"] = f"lower:{draw.text('phase')}"
    if draw.unit("numbers") < _OFTEN:
        changes |= {name: draw.number(name) for name in _NUMBERS}
        changes["stage_seconds"] = tuple(draw.number(n) for n in range(len(honest.stage_seconds)))
        changes["peak_memory_bytes"] = INTEGERS[int(draw.unit("memory") * len(INTEGERS))]
        changes["started"] = (honest.started, 0, _LATEST)[int(draw.unit("started") * 3)]
    if honest.stages and draw.unit("stages") < _SELDOM:
        first, *others = honest.stages.split(STAGE_SEPARATOR)
        name = draw.text("stage").replace(STAGE_SEPARATOR, " ")
        changes["stages"] = STAGE_SEPARATOR.join([first, name, *others[1:]])
    for name in ("surroundings", "content", "details"):
        if getattr(honest, name) and (red or draw.unit(name, "json") < _SELDOM):
            changes[name] = _json(getattr(honest, name), draw)
    return dataclasses.replace(honest, **changes)  # type: ignore[arg-type]


def _json(text: str, draw: _Draw) -> str:
    """A JSON column with payloads for texts and numbers, that records can still be read from."""
    return json.dumps(_spoilt(json.loads(text), draw, ()), sort_keys=True, ensure_ascii=False)


def _spoilt(value: object, draw: _Draw, path: tuple[str, ...]) -> object:
    if isinstance(value, Mapping):
        fields = {str(k): _spoilt(v, draw, (*path, str(k))) for k, v in value.items()}
        free = path[-1:] in (("versions",), ("hardware",), ("parts",), ("device",))
        return {**fields, draw.text(*path, "key"): draw.text(*path)} if free else fields
    if isinstance(value, list):
        return [_spoilt(each, draw, (*path, str(n))) for n, each in enumerate(value)]
    if isinstance(value, float) and draw.unit(*path) < _OFTEN:
        number = draw.number(*path)
        return (
            number
            if math.isfinite(number)
            else {"nan": "NaN", "inf": "Infinity"}.get(str(number), "-Infinity")
        )
    if isinstance(value, str) and path[-1] not in _CLOSED and draw.unit(*path) < _OFTEN:
        return draw.text(*path)
    return value


_CLOSED = ("blame",)
"""Fields with few possible values, which are checked."""


class _Draw:
    """Payloads for the fields of one thing."""

    def __init__(self, *key: str | int) -> None:
        self._key = key

    def unit(self, *field: str | int) -> float:
        """A number in [0, 1)."""
        return draws.unit("hostile", *self._key, *field)

    def text(self, *field: str | int) -> str:
        """A text; a very long one now and then."""
        drawn = self.unit("text", *field)
        some = LONG if self.unit("long", *field) < _SELDOM / 4 else TEXTS
        return some[int(drawn * len(some))]

    def number(self, *field: str | int) -> float:
        """A number that is none, or hardly one."""
        return NUMBERS[int(self.unit("number", *field) * len(NUMBERS))]
