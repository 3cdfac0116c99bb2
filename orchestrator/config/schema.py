"""JSON Schemas for editors, generated from the models: completion and red lines as one types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.config.models import Matrix, Model, Pins, PipelineRecipe, Recipe, Tolerances
from orchestrator.fleet.models import AgentFile, OrchestratorFile

FOLDER = "schemas"

_MODELS: Mapping[str, type[Model]] = {
    "agent": AgentFile,
    "matrix": Matrix,
    "orchestrator": OrchestratorFile,
    "pins": Pins,
    "pipeline": PipelineRecipe,
    "schedule": Recipe,
    "tolerances": Tolerances,
}


def schemas() -> dict[str, str]:
    """File name to text of every schema; the same models give the same bytes."""
    return {f"{kind}.schema.json": _text(kind, model) for kind, model in _MODELS.items()}


def write(root: Path) -> list[Path]:
    """Writes the schemas that are not up to date; returns their files."""
    stale = drift(root)
    texts = schemas()
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path.name], encoding="utf-8")
    return stale


def drift(root: Path) -> list[Path]:
    """The schema files under `root` that are missing or differ from the models."""
    folder = root / FOLDER
    stale = []
    for name, text in schemas().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
    return stale


def _text(kind: str, model: type[Model]) -> str:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidy(model.model_json_schema(by_alias=True, mode="validation")),
        "title": f"Lighthouse CI: {kind}",
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _tidy(schema: Any) -> Any:
    """Without titles that repeat the names of keys; descriptions in one line; names enforced.

    What releases of pydantic spell differently is made the same.
    """
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if isinstance(schema, float) and schema.is_integer():
        return int(schema)
    if not isinstance(schema, dict):
        return schema
    tidied = {
        key: " ".join(value.split())
        if key == "description" and isinstance(value, str)
        else _tidy(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
    if "patternProperties" in tidied:
        tidied["additionalProperties"] = False
    if "const" in tidied:
        tidied.pop("enum", None)
    return tidied
