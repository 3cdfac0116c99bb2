"""The ways into MLIR, read from the harness's ingress modules without importing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "harness/ingress"
_NO_FRONTENDS = ("__init__", "base")


def read_frontends(root: Path) -> Mapping[str, str]:
    """Frontend to what a workload of its must define: `Model`, `model` or `launch`.

    They are the modules of `harness/ingress`, the repository's, else those of this package; the
    name is the first of the module's `NEEDS`. Empty where a module does not say.
    """
    repository = root / "orchestrator/harness/ingress"
    folder = repository if repository.is_dir() else _PACKAGE
    return {p.stem: _entry(p) for p in sorted(folder.glob("*.py")) if p.stem not in _NO_FRONTENDS}


def _entry(module: Path) -> str:
    for statement in ast.parse(module.read_bytes()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="NEEDS")], value=value):
                return str(ast.literal_eval(value)[0])
    return ""
