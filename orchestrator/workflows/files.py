"""`.github/` and `.buildkite/`, made from templates and the matrix.

A template is the file itself, with names between `@` for what has one source elsewhere: pools and
pipelines of the matrix, the argv that every backend runs, the actions at their commits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.backends.buildkite.steps import RETRY
from orchestrator.backends.contract import ARGV, PACK, PACKED
from orchestrator.config.models import Matrix
from orchestrator.results.files import write_atomically
from orchestrator.workflows.pins import ACTIONS

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"@([a-z][a-z-]*)@")
_HEAD = "# Written by `lh-ci workflows --write` from orchestrator/workflows/. Do not edit.\n"
PYTHON = "3.11"
"""The oldest that the program runs on, and the one that the pins are proven with."""
DAYS_RESULTS = "7"
"""Of what travels between the jobs of one run."""
DAYS_RUN = "90"
"""The most that GitHub keeps."""

_FILES = {
    ".github/workflows/ci.yml": "github/ci.yml",
    ".github/workflows/nightly.yml": "github/nightly.yml",
    ".github/workflows/vendor.yml": "github/vendor.yml",
    ".github/workflows/cells.yml": "github/cells.yml",
    ".github/workflows/job.yml": "github/job.yml",
    ".github/actions/exec/action.yml": "github/action.yml",
    ".buildkite/pipeline.yml": "buildkite/pipeline.yml",
    ".buildkite/plan.sh": "buildkite/plan.sh",
    ".buildkite/job.sh": "buildkite/job.sh",
    ".buildkite/collect.sh": "buildkite/collect.sh",
}

_FIRST = {"from": "plan", "round": ""}
_SECOND = {"from": "second", "round": "-second"}
_PARTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("back", "back", {}),
    ("upload-plan", "upload-plan", _FIRST),
    ("upload-second", "upload-plan", _SECOND),
    ("cells-first", "cells-call", _FIRST),
    ("cells-second", "cells-call", _SECOND),
    ("cells-jobs", "cells-jobs", {}),
)
"""What files have in common: name, template, its own words. Parts stand before their wholes."""


def render(matrix: Matrix) -> dict[str, str]:
    """Path in the repository to text, of every file."""
    words = {
        **{name: f"actions/{name}@{pin}" for name, pin in ACTIONS.items()},
        "argv": " ".join(ARGV),
        "pack": " ".join(PACK),
        "packed": PACKED,
        "python": PYTHON,
        "days-results": DAYS_RESULTS,
        "days-run": DAYS_RUN,
        "pools": _list(matrix.pools, 10),
        "pipelines": "\n".join(_pipelines(matrix)),
        "retry": "\n".join(f"        - {_flow(rule)}" for rule in RETRY),
    }
    for name, part, more in _PARTS:
        words[name] = _filled(f"github/{part}.yml", {**words, **more}).rstrip("\n")
    return {path: _headed(_filled(template, words)) for path, template in _FILES.items()}


def drift(root: Path, matrix: Matrix) -> list[Path]:
    """Files in the repository that are not as they would be written."""
    return [
        root / path
        for path, text in render(matrix).items()
        if not (root / path).is_file()
        or (root / path).read_bytes() != text.encode()
        or _executable(path) != bool((root / path).stat().st_mode & 0o100)
    ]


def write(root: Path, matrix: Matrix) -> list[Path]:
    """Writes those that differ; gives them.

    Raises:
        InfrastructureError: a file cannot be written.
    """
    stale = drift(root, matrix)
    texts = render(matrix)
    for path in stale:
        name = path.relative_to(root).as_posix()
        write_atomically(path, texts[name].encode())
        path.chmod(0o755 if _executable(name) else 0o644)
    return stale


def _executable(path: str) -> bool:
    return path.endswith(".sh")


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    return _NAME.sub(lambda match: words[match[1]], text)


def _headed(text: str) -> str:
    first, newline, rest = text.partition("\n")
    return f"{first}{newline}{_HEAD}{rest}" if first.startswith("#!") else f"{_HEAD}\n{text}"


def _pipelines(matrix: Matrix) -> Iterator[str]:
    """Every pipeline with every engine; those to GPUs in containers alone, which have drivers."""
    for name, pipeline in matrix.pipelines.items():
        gpus = any(matrix.pools[pool].gpu for pool in pipeline.pools)
        for engine in ("docker",) if gpus else ("docker", "venv"):
            yield f"          - {_flow({'pipeline': name, 'engine': engine})}"


def _list(names: Mapping[str, object], indent: int) -> str:
    return "\n".join(f"{' ' * indent}- {name}" for name in names)


def _flow(mapping: Mapping[str, object]) -> str:
    """YAML on one line; names and numbers need no quotes."""
    inside = ", ".join(
        f"{key}: {json.dumps(value).strip(chr(34))}" for key, value in mapping.items()
    )
    return f"{{{inside}}}"
