"""JSON Schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.config import schema

REPOSITORY = Path(__file__).parents[2]


def test_schemas_of_this_repository_are_up_to_date() -> None:
    assert schema.drift(REPOSITORY) == [], "run: lh-ci schema --write"


def test_drift_is_found_and_written_away(tmp_path: Path) -> None:
    everything = schema.write(tmp_path)
    assert sorted(path.name for path in everything) == sorted(schema.schemas())
    assert schema.drift(tmp_path) == []
    stale = tmp_path / "schemas/matrix.schema.json"
    stale.write_text("{}", encoding="utf-8")
    assert schema.drift(tmp_path) == [stale]
    assert schema.write(tmp_path) == [stale]
    assert schema.drift(tmp_path) == []


def test_schemas_say_what_the_models_say() -> None:
    matrix = json.loads(schema.schemas()["matrix.schema.json"])
    assert matrix["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    pipeline = matrix["$defs"]["Pipeline"]
    assert pipeline["additionalProperties"] is False
    assert "recipe" in pipeline["required"]
    assert pipeline["properties"]["recipe"]["description"] == "A file in `recipes/pipelines/`."
    assert pipeline["properties"]["timeout"]["anyOf"][0]["pattern"].endswith("(s|m|min|h)$")
    assert matrix["properties"]["pools"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("matrix.yaml", "matrix"),
        ("images/pins.yaml", "pins"),
        ("golden/tolerances.yaml", "tolerances"),
        ("recipes/schedules/**/*.yaml", "schedule"),
        ("recipes/pipelines/**/*.yaml", "pipeline"),
    ],
)
def test_editors_are_told_the_schema_of_every_file(pattern: str, name: str) -> None:
    files = list(REPOSITORY.glob(pattern))
    assert files
    for file in files:
        first = file.read_text(encoding="utf-8").partition("\n")[0]
        prefix = "# yaml-language-server: $schema="
        assert first.startswith(prefix), file
        named = (file.parent / first.removeprefix(prefix)).resolve()
        assert named == REPOSITORY / f"schemas/{name}.schema.json", file
