"""The harness runs where its stack, NumPy and PyYAML are, and nothing else of ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.backends.jobdir import HARNESS_PARTS, PACKAGE

SCRIPT = """
import importlib, json, pkgutil, sys

ALLOWED = {*sys.stdlib_module_names, "orchestrator", "numpy", "yaml", "_yaml"}

class OnlyThese:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"not where the harness runs: {name}", name=name)

for name in [n for n in sys.modules if n.partition(".")[0] not in {*ALLOWED, "__main__"}]:
    del sys.modules[name]  # what the environment's own start-up left
sys.meta_path.insert(0, OnlyThese())
sys.path.insert(0, sys.argv[1])
import orchestrator
names = [m.name for m in pkgutil.walk_packages(orchestrator.__path__, "orchestrator.")]
modules = [importlib.import_module(name) for name in names]
refused = []
for name in ("click", "docker", "pydantic", "requests", "rich", "torch"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        refused.append(name)
print(json.dumps({"files": [m.__file__ for m in modules], "names": names, "refused": refused}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of the package that goes into a job's folder."""
    folder = tmp_path_factory.mktemp("job")
    target = folder / "orchestrator"
    target.mkdir()
    for part in HARNESS_PARTS:
        if (PACKAGE / part).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE / part, target / part, ignore=ignored)
        else:
            shutil.copyfile(PACKAGE / part, target / part)
    return folder


def test_everything_imports_without_what_the_orchestrator_needs(copy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] == ["click", "docker", "pydantic", "requests", "rich", "torch"]
    assert all(file.startswith(str(copy)) for file in found["files"])
    sources = {
        ".".join(path.relative_to(copy).with_suffix("").parts)
        for path in copy.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert {"orchestrator.harness.supervisor", "orchestrator.compare.numeric"} <= sources
    assert sources <= set(found["names"])
