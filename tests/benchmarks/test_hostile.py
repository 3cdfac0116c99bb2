"""A hostile year is one that records can be read from, and carries the payloads."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.history import payloads
from benchmarks.history.events import Parameters
from benchmarks.history.writing import generate
from orchestrator import records
from orchestrator.results.history.rows import Row, unpack
from orchestrator.results.schema import Result
from orchestrator.results.store import RUN_NAME
from tests.benchmarks.year import Year

PARAMETERS = Parameters(series=60, nights=14, seed=1, hostile=True)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Year:
    folder = tmp_path_factory.mktemp("hostile")
    return Year(folder, generate(folder, PARAMETERS))


def test_the_same_seed_gives_the_same_bytes(hostile: Year, tmp_path: Path) -> None:
    generate(tmp_path, PARAMETERS)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (hostile.folder / path.name).read_bytes()


def test_payloads_are_in_every_text_field(hostile: Year) -> None:
    texts = {*payloads.TEXTS, *payloads.LONG}
    for name in ("message", "expectation", "agent", "reproduce"):
        assert texts & {getattr(row, name) for row in hostile.rows}, name
    phases = {row.phase.removeprefix("lower:") for row in hostile.rows}
    assert texts & phases
    for column in ("surroundings", "content", "details"):
        assert any(_strings(unpack(getattr(row, column))) & texts for row in hostile.rows)
    for archive in hostile.archives.values():
        for declared in archive.declared.values():
            assert {each.about for each in declared.pipelines.values()} <= texts
            assert {each.issue for each in declared.expectations} <= {*payloads.LINKS}
            assert all(texts & {*each.files} for each in declared.recipes.values())
        assert all(record.engine in texts for record in archive.runs)


def _strings(value: object) -> set[str]:
    if isinstance(value, dict):
        return {*map(str, value)}.union(*map(_strings, value.values()))
    if isinstance(value, list):
        return set().union(*map(_strings, value))
    return {value} if isinstance(value, str) else set()


def test_numbers_are_none_or_hardly(hostile: Year) -> None:
    for name in ("seconds", "error", "kernel_seconds", "queued_seconds"):
        found = {getattr(row, name) for row in hostile.rows}
        assert {math.inf, -math.inf, 1e308, 5e-324} <= found, name
    assert any(math.inf in row.stage_seconds for row in hostile.rows)
    assert {2**63 - 1, -(2**63)} <= {row.peak_memory_bytes for row in hostile.rows}


def test_names_are_bad_and_legal_besides_those_that_no_matrix_makes(hostile: Year) -> None:
    workloads = {r.cell.split(".")[1] for r in hostile.rows if r.cell not in payloads.CELLS}
    assert {"__proto__", "constructor"} <= workloads
    assert set(payloads.CELLS) <= {row.cell for row in hostile.rows}
    assert all(RUN_NAME.fullmatch(row.run) for row in hostile.rows)


def test_results_can_be_read_from_every_row(hostile: Year) -> None:
    for row in hostile.attempts():
        packed = {**unpack(row.surroundings), **unpack(row.content), **unpack(row.details)}
        document = {**packed, **{name: getattr(row, name) for name in _SAME}}
        result = records.decode(Result, {**document, "started": "", "kernel_ns": []})
        assert json.loads(records.dumps(result))["cell"] == row.cell


_SAME = tuple(
    name
    for name in Row.__dataclass_fields__
    if name in Result.__dataclass_fields__ and name not in ("started", "stages", "queued_seconds")
)


def test_each_payload_that_is_code_gives_itself_away() -> None:
    for text in (*payloads.MARKUP, *payloads.QUOTED):
        assert "__pwned" in text or payloads.OUTSIDE in text
    assert all("\0" not in text for text in (*payloads.TEXTS, *payloads.NAMES, *payloads.CELLS))
